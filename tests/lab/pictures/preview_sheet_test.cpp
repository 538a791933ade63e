#include "experiments/lab/pictures/preview_sheet.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "experiments/lab/data/png.h"
#include "tests/lab/pictures/svg_reader.h"

using namespace normlab;

namespace {

Image plain(std::int64_t height, std::int64_t width, std::uint8_t value) {
  Image image;
  image.resize(height, width);
  std::fill(image.pixels.begin(), image.pixels.end(), value);
  return image;
}

/// The images of the page, decoded by a table of digits.
std::vector<Image> images_of(const std::string& html) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string head = "data:image/png;base64,";
  std::vector<Image> images;
  for (const DrawnElement& element : drawn(html, "img")) {
    const std::string source = element.attributes.at("src");
    REQUIRE(source.starts_with(head));
    std::vector<std::uint8_t> bytes;
    std::uint32_t bits = 0;
    int held = 0;
    for (const char c : source.substr(head.size(), source.find('=') - head.size())) {
      bits = bits << 6 | std::uint32_t(digits.find(c));
      if ((held += 6) >= 8) bytes.push_back(std::uint8_t(bits >> (held -= 8) & 255));
    }
    decode_png(bytes, "the page", images.emplace_back());
  }
  return images;
}

}  // namespace

TEST_CASE("preview_sheet: images are whole, each stored one before its view, large ones smaller") {
  std::vector<PreviewCell> cells;
  cells.push_back({plain(32, 24, 10), plain(32, 32, 20), ""});
  cells.push_back({plain(600, 300, 30), plain(224, 224, 40), ""});
  const std::string html = preview_sheet(cells, 2, "two");
  const std::vector<Image> images = images_of(html);
  REQUIRE(images.size() == 4);
  const std::int64_t heights[] = {32, 32, 256, 224}, widths[] = {24, 32, 128, 224};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(images[i].height == heights[i]);
    CHECK(images[i].width == widths[i]);
    CHECK(images[i].pixels == plain(heights[i], widths[i], std::uint8_t(10 * (i + 1))).pixels);
  }
  CHECK(drawn(html, "img", "pixels").size() == 2);  // 32 pixels are enlarged as squares
  for (const char* part : {"http://", "https://", "<script"}) CHECK(html.find(part) == html.npos);
}

TEST_CASE("preview_sheet: captions are whole and escaped") {
  const std::string name = std::string(200, 'x') + "\xc3\xa9<b>";
  const std::vector<PreviewCell> cells{{plain(32, 32, 10), plain(32, 32, 20), name}};
  CHECK(preview_sheet(cells, 1, "<one>")
            .find("<figcaption>" + std::string(200, 'x') + "\xc3\xa9&lt;b&gt;</figcaption>") != std::string::npos);
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
