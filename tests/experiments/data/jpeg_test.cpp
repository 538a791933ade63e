#include "experiments/data/jpeg.h"

#include "tests/experiments/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

const std::uint8_t* bytes(const std::string& text) { return reinterpret_cast<const std::uint8_t*>(text.data()); }

std::vector<std::uint8_t> decode(JpegDecoder& decoder, const std::string& jpeg, JpegSize size) {
  std::vector<std::uint8_t> rgb(static_cast<std::size_t>(size.height * size.width * 3));
  decoder.decode(bytes(jpeg), jpeg.size(), size, "shard.tar: member \"7.jpg\"", rgb.data());
  return rgb;
}

}  // namespace

TEST_CASE("jpeg: pixels come back near what was stored, row by row") {
  JpegDecoder decoder;
  const std::string jpeg = make_jpeg(16, 24, 1, JpegKind::gray);
  CHECK(decoder.size(bytes(jpeg), jpeg.size(), "x") == JpegSize{16, 24});
  const auto rgb = decode(decoder, jpeg, {16, 24});
  for (std::size_t y = 0; y < 16; ++y) {
    for (std::size_t x = 0; x < 24; ++x) {
      const int stored = static_cast<int>(37 + y * 4 + x * 3);
      for (std::size_t c = 0; c < 3; ++c)
        CHECK(std::abs(rgb[(y * 24 + x) * 3 + c] - stored) <= 3);  // gray in all three
    }
  }
}

TEST_CASE("jpeg: colour channels are in order red, green, blue") {
  JpegDecoder decoder;
  const auto rgb = decode(decoder, make_jpeg(16, 16, 1), {16, 16});
  CHECK(std::abs(rgb[1] - rgb[0] - 20) <= 6);
  CHECK(std::abs(rgb[2] - rgb[1] - 20) <= 6);
}

TEST_CASE("jpeg: every broken file is refused, and the decoder goes on after it") {
  JpegDecoder decoder;
  const std::string good = make_jpeg(32, 32, 3);
  const auto expected = decode(decoder, good, {32, 32});
  for (std::size_t cut = 0; cut + 2 < good.size(); cut += 13) {
    CAPTURE(cut);
    CHECK_SAYS(input_error([&] { decode(decoder, good.substr(0, cut), {32, 32}); }), "shard.tar: member \"7.jpg\": ");
  }
  CHECK_SAYS(input_error([&] {
               decode(decoder, good.substr(0, good.size() - 40), {32, 32});
             }),
             "the JPEG is damaged: Premature end");
  for (std::size_t at = 0; at < good.size(); at += 5) {  // whatever it says, it neither crashes nor hangs
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x55);
    input_error([&] { decode(decoder, flipped, {32, 32}); });
  }
  CHECK_SAYS(input_error([&] { decode(decoder, "not a jpeg", {32, 32}); }), "is not a JPEG that can be decoded");
  CHECK_SAYS(input_error([&] { decoder.size(bytes(good), 10, "here"); }), "here: is not a JPEG");
  CHECK(decode(decoder, good, {32, 32}) == expected);
}

TEST_CASE("jpeg: another size is refused with words") {
  JpegDecoder decoder;
  CHECK_SAYS(input_error([&] {
               decode(decoder, make_jpeg(16, 24, 1), {32, 32});
             }),
             "is 24x16 pixels, the first image 32x32");
}
