#include "experiments/lab/data/jpeg.h"

#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

FileBytes bytes(const std::string& text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

std::vector<std::uint8_t> decode(const std::string& jpeg) {
  Image image;
  decode_jpeg(bytes(jpeg), "shard.tar: member \"7.jpg\"", image);
  return image.pixels;
}

using Settings = std::function<void(jpeg_compress_struct&)>;

std::optional<int> quality_of(JpegKind kind, const Settings& set) {
  return jpeg_quality(bytes(make_jpeg(16, 16, 1, kind, set)));
}

Settings of_quality(int quality, boolean baseline = TRUE) {
  return [=](jpeg_compress_struct& jpeg) { jpeg_set_quality(&jpeg, quality, baseline); };
}

/// A segment of 60 KB, as of EXIF, before all others.
std::string with_long_segment(const std::string& jpeg) {
  const std::size_t length = 60'000;
  std::string segment = "\xff\xe1";
  segment += static_cast<char>(length >> 8);
  segment += static_cast<char>(length & 0xff);
  segment += std::string("Exif\0\0", 6) + std::string(length - 8, 'x');
  return jpeg.substr(0, 2) + segment + jpeg.substr(2);
}

}  // namespace

TEST_CASE("jpeg: decoded pixels are near the stored ones") {
  const std::string jpeg = make_jpeg(16, 24, 1, JpegKind::gray);
  CHECK(jpeg_size(bytes(jpeg), "x") == ImageSize{16, 24});
  const auto rgb = decode(jpeg);
  for (std::size_t y = 0; y < 16; ++y) {
    for (std::size_t x = 0; x < 24; ++x) {
      const int stored = static_cast<int>(37 + y * 4 + x * 3);
      for (std::size_t c = 0; c < 3; ++c)
        CHECK(std::abs(rgb[(y * 24 + x) * 3 + c] - stored) <= 3);  // gray in all three
    }
  }
}

TEST_CASE("jpeg: colour channels are in the order RGB") {
  const auto rgb = decode(make_jpeg(16, 16, 1));
  CHECK(std::abs(rgb[1] - rgb[0] - 20) <= 6);
  CHECK(std::abs(rgb[2] - rgb[1] - 20) <= 6);
}

TEST_CASE("jpeg: a file that is cut short is refused by its name") {
  const std::string good = make_jpeg(32, 32, 3);
  for (std::size_t cut = 0; cut + 2 < good.size(); cut += 13) {
    CAPTURE(cut);
    CHECK_SAYS(input_error([&] { decode(good.substr(0, cut)); }), "shard.tar: member \"7.jpg\": ");
  }
  CHECK_SAYS(input_error([&] { decode(good.substr(0, good.size() - 40)); }), "the JPEG is damaged: Premature end");
}

TEST_CASE("jpeg: a damaged file leaves the decoder intact") {
  const std::string good = make_jpeg(32, 32, 3);
  const auto expected = decode(good);
  for (std::size_t cut = 0; cut + 2 < good.size(); cut += 13) input_error([&] { decode(good.substr(0, cut)); });
  for (std::size_t at = 0; at < good.size(); at += 5) {  // it may be refused or decoded, and must not crash or hang
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x55);
    input_error([&] { decode(flipped); });
  }
  CHECK(decode(good) == expected);
}

TEST_CASE("jpeg: a file that is not a JPEG is refused") {
  const std::string good = make_jpeg(32, 32, 3);
  CHECK_SAYS(input_error([&] { decode("not a jpeg"); }), "is not a JPEG that can be decoded");
  CHECK_SAYS(input_error([&] { jpeg_size(bytes(good).first(10), "here"); }), "here: is not a JPEG");
}

TEST_CASE("jpeg: the quality is that of libjpeg's tables, in colour and in gray") {
  for (const JpegKind kind : {JpegKind::rgb, JpegKind::gray, JpegKind::cmyk})
    for (int quality = 1; quality <= 100; ++quality) {
      CAPTURE(quality);
      CHECK(quality_of(kind, of_quality(quality)) == quality);
      CHECK(quality_of(kind, of_quality(quality, FALSE)) == quality);  // entries above 255 take 16 bits
    }
}

TEST_CASE("jpeg: the quality does not depend on how else a file was written") {
  const auto with = [](void (*set)(jpeg_compress_struct&)) {
    return quality_of(JpegKind::rgb, [set](jpeg_compress_struct& jpeg) {
      jpeg_set_quality(&jpeg, 75, TRUE);
      set(jpeg);
    });
  };
  CHECK(with([](jpeg_compress_struct& jpeg) { jpeg_simple_progression(&jpeg); }) == 75);
  CHECK(with([](jpeg_compress_struct& jpeg) { jpeg.optimize_coding = TRUE; }) == 75);
  CHECK(with([](jpeg_compress_struct& jpeg) {
          jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
        }) == 75);
  CHECK(with([](jpeg_compress_struct& jpeg) { jpeg_set_colorspace(&jpeg, JCS_RGB); }) == 75);
  const std::string plain = make_jpeg(16, 16, 1, JpegKind::rgb, of_quality(75));
  CHECK(jpeg_quality(bytes(with_long_segment(plain))) == 75);
}

TEST_CASE("jpeg: other tables than libjpeg's have no quality") {
  CHECK(quality_of(JpegKind::rgb, [](jpeg_compress_struct& jpeg) { ++jpeg.quant_tbl_ptrs[0]->quantval[63]; }) == 0);
  CHECK(quality_of(JpegKind::rgb, [](jpeg_compress_struct& jpeg) { ++jpeg.quant_tbl_ptrs[1]->quantval[0]; }) == 0);
  CHECK(quality_of(JpegKind::gray, [](jpeg_compress_struct& jpeg) { ++jpeg.quant_tbl_ptrs[0]->quantval[0]; }) == 0);
  // `cjpeg -quality 75,60`
  CHECK(quality_of(JpegKind::rgb, [](jpeg_compress_struct& jpeg) {
          jpeg_set_quality(&jpeg, 75, TRUE);
          const JQUANT_TBL luma = *jpeg.quant_tbl_ptrs[0];
          jpeg_set_quality(&jpeg, 60, TRUE);
          std::copy_n(luma.quantval, DCTSIZE2, jpeg.quant_tbl_ptrs[0]->quantval);
        }) == 0);
  CHECK(quality_of(JpegKind::gray, [](jpeg_compress_struct& jpeg) {  // the table of chroma as that of luma
          jpeg_set_quality(&jpeg, 75, TRUE);
          std::copy_n(jpeg.quant_tbl_ptrs[1]->quantval, DCTSIZE2, jpeg.quant_tbl_ptrs[0]->quantval);
        }) == 0);
}

TEST_CASE("jpeg: the header alone tells the quality, and a damaged one tells none") {
  const std::string good = make_jpeg(32, 32, 3);
  const std::size_t scan = good.find("\xff\xda"), end_of_header = scan + 2 + 12;
  CHECK(jpeg_quality(bytes(good.substr(0, end_of_header))) == 95);
  for (std::size_t cut = 0; cut < end_of_header; ++cut) {
    CAPTURE(cut);
    CHECK(jpeg_quality(bytes(good.substr(0, cut))) == std::nullopt);
  }
  for (std::size_t at = 0; at < end_of_header; ++at) {  // it may have a quality, and must not crash
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x55);
    const std::optional<int> quality = jpeg_quality(bytes(flipped));
    CHECK((!quality || (*quality >= 0 && *quality <= 100)));
  }
}
