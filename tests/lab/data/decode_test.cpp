// Decoded images are compared with Pillow's (decode_golden.txt, written by golden.py); damaged files are refused.
#include "experiments/lab/data/decode.h"

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>

#include "tests/lab/data/fixtures.h"
#include "tests/lab/data/golden.h"

using namespace normlab;
using namespace normlab::test;

namespace {

struct GoldenFile {
  std::string name, hash;
  std::int64_t height = 0, width = 0;
  std::vector<std::uint8_t> bytes;
};

std::vector<GoldenFile> golden_files() {
  std::vector<GoldenFile> files;
  for (const std::string& line : golden_lines("decode")) {
    std::istringstream in(line);
    GoldenFile file;
    std::string hex;
    in >> file.name >> file.height >> file.width >> file.hash >> hex;
    for (std::size_t i = 0; i < hex.size(); i += 2)
      file.bytes.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    files.push_back(std::move(file));
  }
  REQUIRE(files.size() == 18);
  return files;
}

GoldenFile golden_file(const std::string& name) {
  for (const GoldenFile& file : golden_files())
    if (file.name == name) return file;
  throw InputError(name);
}

Image cut(const Image& image, Box box) {
  Image out;
  out.resize(box.height, box.width);
  for (std::int64_t y = 0; y < box.height; ++y)
    std::copy_n(image.row(box.top + y) + box.left * 3, box.width * 3, out.row(y));
  return out;
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// Corrects the checksum of the chunk of a PNG whose type begins at byte `at`.
void set_png_checksum(std::vector<std::uint8_t>& png, std::size_t at) {
  const std::size_t length = png[at - 3] << 16 | png[at - 2] << 8 | png[at - 1], end = at + 4 + length;
  std::uint32_t sum = 0xffffffff;
  for (std::size_t i = at; i < end; ++i) {
    sum ^= png[i];
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ ((sum & 1) != 0 ? 0xedb88320 : 0);
  }
  for (int byte = 0; byte < 4; ++byte)
    png[end + std::size_t(byte)] = static_cast<std::uint8_t>(~sum >> (24 - 8 * byte));
}

}  // namespace

TEST_CASE("decode: every kind of JPEG and PNG has the pixels that Pillow gives it") {
  Image image;
  for (int round = 0; round < 2; ++round)
    for (const GoldenFile& file : golden_files()) {
      CAPTURE(file.name);
      CHECK(image_file_size(file.bytes, file.name) == ImageSize{file.height, file.width});
      decode_image(file.bytes, file.name, image);
      CHECK(ImageSize{image.height, image.width} == ImageSize{file.height, file.width});
      CHECK(golden_hash(image) == file.hash);
    }
}

TEST_CASE("decode: a box has the same pixels as in the whole image") {
  Image whole, part;
  ScaledBox at;
  for (const GoldenFile& file : golden_files()) {
    if (file.height < 45) continue;
    CAPTURE(file.name);
    decode_image(file.bytes, file.name, whole);
    for (std::int64_t top = 0; top < 45; top += 4)
      for (std::int64_t left = 0; left < 61; left += 3)
        for (const auto& [height, width] : {std::pair(1, 1), std::pair(9, 20), std::pair(45, 61)}) {
          const Box box{top, left, std::min<std::int64_t>(height, 45 - top), std::min<std::int64_t>(width, 61 - left)};
          decode_image_box(file.bytes, file.name, box, 0, 0, part, at);
          REQUIRE(at.shrink == 1);
          REQUIRE(cut(part, at.box).pixels == cut(whole, box).pixels);
        }
  }
}

TEST_CASE("decode: a box outside the image is refused") {
  Image part;
  ScaledBox at;
  for (const GoldenFile& file : golden_files()) {
    if (file.height < 45) continue;
    CAPTURE(file.name);
    for (const Box& outside : {Box{0, 0, 46, 61}, Box{-1, 0, 5, 5}, Box{0, 61, 1, 1}, Box{3, 3, 0, 4},
                               Box{1, 1, std::numeric_limits<std::int64_t>::max(), 1}})
      CHECK_SAYS(input_error([&] { decode_image_box(file.bytes, file.name, outside, 0, 0, part, at); }),
                 "are not a box inside 61x45 pixels");
  }
}

TEST_CASE("decode: a JPEG without its tables does not take those of the previous file") {
  std::vector<std::uint8_t> file = golden_file("jpeg_444").bytes;
  const std::array<std::uint8_t, 2> tables{0xff, 0xdb};
  Image image;
  decode_image(file, "x", image);
  for (int table = 0; table < 2; ++table) {
    const auto at = std::search(file.begin(), file.end(), tables.begin(), tables.end());
    file.erase(at, at + 2 + at[2] * 256 + at[3]);
  }
  CHECK_SAYS(input_error([&] { decode_image(file, "cat.jpg", image); }), "cat.jpg: the JPEG is damaged: Quantization");
}

TEST_CASE("decode: a progressive JPEG without its last scans has the same pixels in a box") {
  const std::string file = read_file("tests/fuzz/corpus/images/jpeg_420_progressive_incomplete");
  Image whole, part;
  ScaledBox at;
  decode_image(bytes_of(file), "x", whole);
  decode_image_box(bytes_of(file), "x", {15, 20, 15, 31}, 0, 0, part, at);
  CHECK(cut(part, at.box).pixels == cut(whole, {15, 20, 15, 31}).pixels);
}

TEST_CASE("decode: a JPEG is decoded smaller only while its box stays large enough") {
  const std::string jpeg = make_jpeg(200, 300, 1, JpegKind::gray);
  Image whole, part;
  ScaledBox at;
  decode_image(bytes_of(jpeg), "x", whole);
  const auto shrink = [&](Box box, std::int64_t height, std::int64_t width) {
    decode_image_box(bytes_of(jpeg), "x", box, height, width, part, at);
    const Box cover = at.cover();
    CHECK(is_inside(cover, {part.height, part.width}));
    CHECK(at.box.height == box.height);
    CHECK(at.box.width == box.width);
    // The image is a slope, so each pixel shows the mean of those it replaces.
    const std::int64_t y = cover.height / 2, x = cover.width / 2;
    const std::int64_t row = box.top - at.box.top + (cover.top + y) * at.shrink + at.shrink / 2;
    const std::int64_t column = box.left - at.box.left + (cover.left + x) * at.shrink + at.shrink / 2;
    CHECK(std::abs(int(part.row(cover.top + y)[(cover.left + x) * 3]) - int(whole.row(row)[column * 3])) <= 9);
    return at.shrink;
  };
  CHECK(shrink({0, 0, 20, 20}, 0, 0) == 1);
  CHECK(shrink({3, 5, 20, 20}, 11, 10) == 1);
  CHECK(shrink({3, 5, 20, 20}, 10, 10) == 2);
  CHECK(shrink({3, 5, 20, 19}, 10, 10) == 1);
  CHECK(shrink({7, 9, 40, 45}, 10, 10) == 4);
  CHECK(shrink({101, 202, 80, 81}, 10, 10) == 8);
}

TEST_CASE("decode: a file that is not an image is refused with its format") {
  Image image;
  const auto error = [&](const std::string& text) {
    return input_error([&] { decode_image(bytes_of(text), "pets/cat.jpg", image); });
  };
  CHECK_SAYS(error(""), "pets/cat.jpg: is empty");
  CHECK_SAYS(error("GIF89a"), "pets/cat.jpg: is neither a JPEG nor a PNG (it is a GIF)");
  CHECK_SAYS(error(std::string("RIFF\x10\0\0\0WEBPVP8 ", 16)), "WebP");
  CHECK_SAYS(error("<html>"), "is neither a JPEG nor a PNG; convert it");
  CHECK_SAYS(input_error([&] { image_file_size(bytes_of("\xff\xd8"), "pets/cat.jpg"); }), "neither");
}

TEST_CASE("decode: a file that is cut short is refused by its name") {
  Image image;
  ScaledBox at;
  for (const GoldenFile& file : golden_files()) {
    CAPTURE(file.name);
    const std::size_t step = std::max<std::size_t>(1, file.bytes.size() / 60);
    for (std::size_t bytes = 0; bytes < file.bytes.size(); bytes += step) {
      const std::span<const std::uint8_t> part(file.bytes.data(), bytes);
      CHECK_SAYS(input_error([&] { decode_image(part, "cut.jpg", image); }), "cut.jpg: ");
      CHECK_SAYS(input_error([&] { decode_image_box(part, "cut.jpg", {0, 0, 1, 1}, 0, 0, image, at); }), "cut.jpg: ");
    }
  }
}

TEST_CASE("decode: cut and changed files leave the decoder intact") {
  Image image;
  ScaledBox at;
  for (const GoldenFile& file : golden_files()) {
    CAPTURE(file.name);
    const std::size_t step = std::max<std::size_t>(1, file.bytes.size() / 60);
    for (std::size_t bytes = 0; bytes < file.bytes.size(); bytes += step) {
      const std::span<const std::uint8_t> part(file.bytes.data(), bytes);
      input_error([&] { decode_image(part, "cut.jpg", image); });
      input_error([&] { decode_image_box(part, "cut.jpg", {0, 0, 1, 1}, 0, 0, image, at); });
    }
    for (std::size_t i = 0; i < file.bytes.size(); i += step) {
      std::vector<std::uint8_t> changed = file.bytes;
      changed[i] ^= 0x55;
      input_error([&] { decode_image(changed, "changed.jpg", image); });
    }
    decode_image(file.bytes, file.name, image);
    CHECK(golden_hash(image) == file.hash);
  }
}

TEST_CASE("decode: a size beyond all memory is refused before any is allocated") {
  Image image;
  std::vector<std::uint8_t> jpeg = golden_file("jpeg_444").bytes, png = golden_file("png_gray1").bytes;
  const std::array<std::uint8_t, 2> frame{0xff, 0xc0};
  auto at = std::search(jpeg.begin(), jpeg.end(), frame.begin(), frame.end()) + 5;
  std::fill_n(at, 4, std::uint8_t{0xf0});  // height and width
  CHECK_SAYS(input_error([&] { decode_image(jpeg, "a.jpg", image); }), "a.jpg: has 61680x61680 pixels");
  CHECK_SAYS(input_error([&] { image_file_size(jpeg, "a.jpg"); }), "has 61680x61680 pixels");
  std::fill_n(png.begin() + 16, 8, std::uint8_t{0});
  for (const std::size_t i : {18u, 22u}) png[i] = 0x75;  // 29952 columns and rows
  set_png_checksum(png, 12);
  CHECK_SAYS(input_error([&] { decode_image(png, "a.png", image); }), "a.png: has 29952x29952 pixels");
  CHECK_SAYS(input_error([&] { image_file_size(png, "a.png"); }), "a.png: has 29952x29952 pixels");
  CHECK(image.pixels.empty());
}

TEST_CASE("png: an image that is written is read again") {
  Image image, again;
  image.resize(5, 7);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<std::uint8_t>(i * 37);
  const TempFolder folder;
  write_png(folder / "x.png", image);
  const std::string bytes = read_file(folder / "x.png");
  decode_image(bytes_of(bytes), "x.png", again);
  CHECK(again.pixels == image.pixels);
  CHECK(again.width == 7);
}

TEST_CASE("png: missing folders are made, and a path below a file is an error") {
  const TempFolder folder;
  Image image;
  image.resize(5, 7);
  write_png(folder / "new" / "x.png", image);
  CHECK(std::filesystem::exists(folder / "new" / "x.png"));
  CHECK_THROWS_WITH_AS(write_png(folder / "new" / "x.png" / "y.png", image),
                       doctest::Contains("x.png: Not a directory"), EnvironmentError);
}
