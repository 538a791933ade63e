#include "experiments/lab/data/preview_sheet.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "experiments/lab/data/bitmap_font.h"

using namespace normlab;

namespace {

Image plain(std::int64_t height, std::int64_t width, std::uint8_t value) {
  Image image;
  image.resize(height, width);
  std::fill(image.pixels.begin(), image.pixels.end(), value);
  return image;
}

std::int64_t count(const Image& image, std::uint8_t value) {
  return std::count(image.pixels.begin(), image.pixels.end(), value) / 3;
}

/// Black pixels of a sheet of one cell with this caption.
std::int64_t ink(const std::string& caption) {
  std::vector<PreviewCell> cells;
  cells.push_back({plain(32, 32, 10), plain(32, 32, 20), caption});
  return count(preview_sheet(cells, 1), 0);
}

}  // namespace

TEST_CASE("preview_sheet: images of any size are shown whole beside their view") {
  std::vector<PreviewCell> cells;
  cells.push_back({plain(32, 32, 10), plain(32, 32, 20), ""});
  cells.push_back({plain(500, 250, 30), plain(224, 224, 40), ""});
  cells.push_back({plain(1, 1, 50), plain(100, 60, 60), ""});
  const Image sheet = preview_sheet(cells, 2);
  CHECK(count(sheet, 10) == 128 * 128);  // four times as large
  CHECK(count(sheet, 20) == 128 * 128);
  CHECK(count(sheet, 30) == 128 * 64);
  CHECK(count(sheet, 40) == 128 * 128);
  CHECK(count(sheet, 50) == 128 * 128);
  CHECK(count(sheet, 60) == 100 * 60);  // no whole number of times fits
  CHECK(sheet.width > 4 * 128);
  CHECK(sheet.height > 2 * 128);
}

TEST_CASE("preview_sheet: a row is only as wide as its images") {
  std::vector<PreviewCell> cells;
  cells.push_back({plain(32, 32, 10), plain(32, 32, 20), ""});
  CHECK(preview_sheet(std::span(cells).first(1), 8).width < 3 * 128);
}

TEST_CASE("preview_sheet: captions are written") {
  CHECK(ink("") == 0);
  CHECK(ink("cat") > 20);
}

TEST_CASE("preview_sheet: captions that are too long are cut") {
  CHECK(ink(std::string(43, '.')) == ink(std::string(1000, '.')));
}

TEST_CASE("preview_sheet: bytes outside ASCII are written as question marks") { CHECK(ink("\xc3\xa9") == ink("??")); }

TEST_CASE("preview_sheet: text outside the image is cut off") {
  Image image = plain(9, 9, 255);
  draw_text(image, -4, -3, "W", {0, 0, 0});
  draw_text(image, 6, 7, "WWWW", {0, 0, 0});
  CHECK(count(image, 0) > 0);
}

TEST_CASE("preview_sheet: a caption lists the classes of a target from the largest") {
  const std::vector<std::string> names{"cat", "dog", "owl"};
  const auto words = [&](std::vector<float> target, double least = 0) { return target_caption(target, names, least); };
  CHECK(words({0, 1, 0}) == "dog");
  CHECK(words({0.7f, 0.3f, 0}) == "cat 0.7 dog 0.3");
  CHECK(words({0.25f, 0, 0.75f}) == "owl 0.75 cat 0.25");
  CHECK(words({0.9f, 0.05f, 0.05f}, 0.075) == "cat 0.9");
}

TEST_CASE("preview_sheet: a class without a name is written as its number") {
  CHECK(target_caption(std::vector<float>{0, 1}, {}, 0) == "1");
}

TEST_CASE("preview_sheet: a mask tints its pixels and names its classes") {
  Image image;
  image.resize(1, 4);
  std::fill(image.pixels.begin(), image.pixels.end(), std::uint8_t{100});
  const std::vector<std::int32_t> classes{2, 1, 255, 2};
  tint(image, classes);
  const auto pixel = [&](int x) { return std::vector<std::uint8_t>(image.row(0) + 3 * x, image.row(0) + 3 * x + 3); };
  CHECK(pixel(0) == pixel(3));
  CHECK(pixel(0) != pixel(1));
  CHECK(pixel(2) == std::vector<std::uint8_t>{50, 50, 50});
  CHECK(mask_caption(classes, {"sky", "sea", "sand"}) == "sand sea");
}
