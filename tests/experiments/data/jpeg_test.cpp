#include "experiments/data/jpeg.h"

#include "tests/experiments/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

FileBytes bytes(const std::string& text) { return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}; }

std::vector<std::uint8_t> decode(const std::string& jpeg) {
  Image image;
  decode_jpeg(bytes(jpeg), "shard.tar: member \"7.jpg\"", image);
  return image.pixels;
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
