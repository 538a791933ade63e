#include "experiments/lab/pictures/vector_file.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "experiments/lab/data/png.h"

using namespace normlab;

namespace {

const PictureFile kPicture{
    "a.svg",
    "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"96\" height=\"48\">"
    "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"
    "<rect x=\"48\" width=\"48\" height=\"48\" fill=\"#ff0000\"/><text y=\"20\">words</text></svg>",
    96, 48};

std::string drawn_as(PictureFormat format) {
  try {
    return picture_bytes(kPicture, format);
  } catch (const EnvironmentError& error) {
    MESSAGE("skipped: " << error.what());
    return "";
  }
}

}  // namespace

TEST_CASE("vector file: SVG is what it was") { CHECK(picture_bytes(kPicture, PictureFormat::svg) == kPicture.svg); }

TEST_CASE("vector file: a PDF has the picture's size in points and no date") {
  const std::string pdf = drawn_as(PictureFormat::pdf);
  if (pdf.empty()) return;
  CHECK(pdf.starts_with("%PDF-1."));
  CHECK(pdf.find("/MediaBox [ 0 0 72 36 ]") != pdf.npos);
  CHECK(pdf.find("CreationDate") == pdf.npos);
  CHECK(drawn_as(PictureFormat::pdf) == pdf);
}

TEST_CASE("vector file: a PNG has 300 pixels per inch") {
  const std::string png = drawn_as(PictureFormat::png);
  if (png.empty()) return;
  Image image;
  decode_png({reinterpret_cast<const std::uint8_t*>(png.data()), png.size()}, "a.png", image);
  CHECK(image.width == 300);
  CHECK(image.height == 150);
  const auto pixel = [&](std::int64_t x) { return image.pixels.data() + 3 * (140 * image.width + x); };
  CHECK(pixel(250)[0] == 255);
  CHECK(pixel(250)[1] == 0);
  CHECK(pixel(100)[1] == 255);
}

TEST_CASE("vector file: what librsvg cannot read is an error") {
  if (drawn_as(PictureFormat::png).empty()) return;
  CHECK_THROWS_AS(picture_bytes({"b.svg", "no picture", 96, 48}, PictureFormat::png), EnvironmentError);
}
