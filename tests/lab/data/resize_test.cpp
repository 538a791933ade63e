#include "experiments/lab/data/resize.h"

#include <algorithm>
#include <sstream>

#include "experiments/lab/data/eval_transform.h"
#include "tests/lab/data/fixtures.h"
#include "tests/lab/data/golden.h"

using namespace normlab;
using namespace normlab::test;

namespace {

ResizeMethod method_of(const std::string& name) {
  return name == "nearest"    ? ResizeMethod::nearest
         : name == "bilinear" ? ResizeMethod::bilinear
         : name == "bicubic"  ? ResizeMethod::bicubic
                              : ResizeMethod::lanczos;
}

constexpr ResizeMethod kAll[] = {ResizeMethod::nearest, ResizeMethod::bilinear,       ResizeMethod::bicubic,
                                 ResizeMethod::lanczos, ResizeMethod::bilinear_plain, ResizeMethod::area};

}  // namespace

TEST_CASE("resize: every pixel of a box is Pillow's") {
  const Image image = golden_picture(45, 61);
  ResizeScratch scratch;
  Image out;
  const std::vector<std::string> lines = golden_lines("resize");
  REQUIRE(lines.size() == 100);
  for (const std::string& line : lines) {
    CAPTURE(line);
    std::istringstream in(line);
    std::string method, hash;
    Box box;
    std::int64_t height = 0, width = 0;
    in >> method >> box.top >> box.left >> box.height >> box.width >> height >> width >> hash;
    resize(image, box, method_of(method), height, width, out, scratch);
    CHECK(out.height == height);
    CHECK(golden_hash(out) == hash);
  }
}

TEST_CASE("resize: pixels outside the box have no effect") {
  Image image = golden_picture(40, 50), out, again;
  ResizeScratch scratch;
  const Box box{7, 9, 21, 30};
  for (const ResizeMethod method : kAll) {
    image = golden_picture(40, 50);
    resize(image, box, method, 16, 45, out, scratch);
    for (std::int64_t y = 0; y < 40; ++y)
      for (std::int64_t x = 0; x < 50; ++x)
        if (y < 7 || y >= 28 || x < 9 || x >= 39) std::fill_n(image.row(y) + x * 3, 3, std::uint8_t{255});
    resize(image, box, method, 16, 45, again, scratch);
    CHECK(again.pixels == out.pixels);
  }
}

TEST_CASE("resize: area is the exact mean of what a pixel covers") {
  const Image image = golden_picture(31, 46);
  ResizeScratch scratch;
  Image out;
  for (const auto& [height, width] : {std::pair(7, 9), std::pair(31, 5), std::pair(50, 80), std::pair(1, 1)}) {
    resize(image, Box{0, 0, 31, 46}, ResizeMethod::area, height, width, out, scratch);
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x) {
        // In units of 1 / height and 1 / width of a pixel, so that all is whole numbers.
        std::int64_t sum = 0;
        for (std::int64_t v = y * 31; v < (y + 1) * 31; ++v)
          for (std::int64_t u = x * 46; u < (x + 1) * 46; ++u) sum += image.row(v / height)[u / width * 3 + 1];
        REQUIRE(out.row(y)[x * 3 + 1] == sum / (31 * 46));
      }
  }
}

TEST_CASE("resize: TensorFlow's bilinear mixes the two pixels with the nearest centres") {
  Image image, out;
  image.resize(1, 4);
  const int levels[] = {0, 100, 200, 40};
  for (std::size_t i = 0; i < 12; ++i) image.pixels[i] = static_cast<std::uint8_t>(levels[i / 3]);
  ResizeScratch scratch;
  const auto row = [&](std::int64_t width) {
    resize(image, Box{0, 0, 1, 4}, ResizeMethod::bilinear_plain, 1, width, out, scratch);
    std::vector<int> values;
    for (std::int64_t x = 0; x < width; ++x) values.push_back(out.pixels[static_cast<std::size_t>(x * 3)]);
    return values;
  };
  CHECK(row(2) == std::vector<int>{50, 120});                           // at 0.5 and 2.5
  CHECK(row(8) == std::vector<int>{0, 25, 75, 125, 175, 160, 80, 40});  // at -0.25, 0.25, ...
  CHECK(row(1) == std::vector<int>{150});                               // at 1.5: what lies further does not count
}

TEST_CASE("resize: a part of an image that was decoded smaller keeps its place") {
  // A slope over a half-size image: the box [9, 31) of the large one shows the levels of its own place.
  Image half, out;
  half.resize(4, 40);
  for (std::int64_t y = 0; y < 4; ++y)
    for (std::int64_t x = 0; x < 40; ++x) std::fill_n(half.row(y) + x * 3, 3, static_cast<std::uint8_t>(6 * x + 3));
  ResizeScratch scratch;
  resize(half, ScaledBox({0, 9, 8, 44}, 2), ResizeMethod::bilinear, 4, 11, out, scratch);
  for (std::int64_t x = 0; x < 11; ++x) {  // a pixel of the large image is 3 levels; 4 of them make one here
    CAPTURE(x);
    const double expected = 3 * (9 + 4 * double(x) + 2);
    CHECK(std::abs(double(out.pixels[static_cast<std::size_t>(x * 3)]) - expected) <= (x == 0 || x == 10 ? 2.0 : 0.6));
  }
}

TEST_CASE("resize: area needs an image decoded at its full size") {
  Image half, out;
  half.resize(4, 40);
  ResizeScratch scratch;
  CHECK_SAYS(input_error([&] {
               resize(half, ScaledBox({0, 0, 8, 80}, 2), ResizeMethod::area, 2, 2, out, scratch);
             }),
             "decoded at their full size");
}

TEST_CASE("resize: impossible requests are refused") {
  const Image image = golden_picture(8, 8);
  Image out;
  ResizeScratch scratch;
  const auto error = [&](Box box, ResizeMethod method, std::int64_t side) {
    return input_error([&] { resize(image, box, method, side, 4, out, scratch); });
  };
  CHECK_SAYS(error({0, 0, 9, 8}, ResizeMethod::bilinear, 4), "are not a box inside 8x8 pixels");
  CHECK_SAYS(error({0, 0, 8, 8}, ResizeMethod::bilinear, 0), "to 4x0 pixels");
  CHECK_SAYS(error({0, 0, 8, 8}, ResizeMethod::random, 4), "must have been drawn");
}

TEST_CASE("eval_transform: sizes are rounded as by the chosen library") {
  CHECK(resized_size({375, 500}, 256, ResizeRounding::torchvision) == ImageSize{256, 341});
  CHECK(resized_size({500, 333}, 256, ResizeRounding::torchvision) == ImageSize{384, 256});
  CHECK(resized_size({101, 257}, 256, ResizeRounding::torchvision) == ImageSize{256, 651});
  CHECK(resized_size({101, 257}, 40, ResizeRounding::big_vision) == ImageSize{40, 102});
}

TEST_CASE("eval_transform: middles are rounded as by the chosen library") {
  CHECK(middle(9, 4, ResizeRounding::torchvision) == 2);   // 2.5 to even
  CHECK(middle(11, 4, ResizeRounding::torchvision) == 4);  // 3.5 to even
  CHECK(middle(11, 4, ResizeRounding::big_vision) == 3);
  CHECK(middle(10, 4, ResizeRounding::big_vision) == 3);
}

TEST_CASE("eval_transform: without a crop images of another size are refused") {
  ImageScratch scratch;
  Image out;
  const Image image = golden_picture(45, 61);
  CHECK_SAYS(input_error([&] {
               EvalTransform(EvalTransformConfig{}, {32, 32}).apply(image, "cat.jpg", out, scratch);
             }),
             "cat.jpg: is 61x45 pixels, but the model takes 32x32; set train.eval_transform.crop");
}

TEST_CASE("eval_transform: without a crop an image of the model's size stays") {
  ImageScratch scratch;
  Image out;
  const Image image = golden_picture(45, 61);
  EvalTransform(EvalTransformConfig{}, {45, 61}).apply(image, "cat.jpg", out, scratch);
  CHECK(out.pixels == image.pixels);
}

TEST_CASE("eval_transform: stretch resizes the whole image") {
  ImageScratch scratch;
  Image out, expected;
  const Image image = golden_picture(45, 61);
  EvalTransformConfig config;
  config.crop = EvalCrop::stretch;
  EvalTransform(config, {20, 30}).apply(image, "cat.jpg", out, scratch);
  resize(image, Box{0, 0, 45, 61}, ResizeMethod::bilinear, 20, 30, expected, scratch.resize);
  CHECK(out.pixels == expected.pixels);
}

TEST_CASE("eval_transform: center crops the middle of the resized image") {
  ImageScratch scratch;
  Image out, expected;
  const Image image = golden_picture(45, 61);
  EvalTransformConfig config;
  config.crop = EvalCrop::center;  // 28 / 0.875 = 32; 61 * 32 / 45 = 43.4
  EvalTransform(config, {28, 28}).apply(image, "cat.jpg", out, scratch);
  resize(image, Box{0, 0, 45, 61}, ResizeMethod::bilinear, 32, 43, expected, scratch.resize);
  REQUIRE(out.height == 28);
  REQUIRE(out.width == 28);
  for (std::int64_t y = 0; y < 28; ++y)  // from row 2 and column 7.5, to even
    CHECK(std::equal(out.row(y), out.row(y) + 28 * 3, expected.row(2 + y) + 8 * 3));
}

TEST_CASE("eval_transform: stretch_center resizes both sides to one length and crops the middle") {
  ImageScratch scratch;
  Image out, expected;
  const Image image = golden_picture(45, 61);
  EvalTransformConfig config;
  config.crop = EvalCrop::stretch_center;
  config.resize_to = 32;
  EvalTransform(config, {28, 24}).apply(image, "cat.jpg", out, scratch);
  resize(image, Box{0, 0, 45, 61}, ResizeMethod::bilinear, 32, 32, expected, scratch.resize);
  REQUIRE(out.height == 28);
  REQUIRE(out.width == 24);
  for (std::int64_t y = 0; y < 28; ++y) CHECK(std::equal(out.row(y), out.row(y) + 24 * 3, expected.row(2 + y) + 4 * 3));
}

TEST_CASE("eval_transform: center refuses to resize below the model's size") {
  ImageScratch scratch;
  Image out;
  const Image image = golden_picture(45, 61);
  EvalTransformConfig config;
  config.crop = EvalCrop::center;
  config.resize_to = 20;
  CHECK_SAYS(input_error([&] {
               EvalTransform(config, {28, 28}).apply(image, "cat.jpg", out, scratch);
             }),
             "smaller than the model's 28x28; raise train.eval_transform.resize_to");
}

TEST_CASE("eval_transform: a gray image in memory is read as colour") {
  ImageSet images;
  images.height = images.width = 4;
  images.channels = 1;
  images.labels = {0};
  for (std::uint8_t i = 0; i < 16; ++i) images.pixels.push_back(i);
  ImageScratch scratch;
  Image out;
  EvalTransform(EvalTransformConfig{}, {4, 4}).make(images, 0, out, scratch);
  CHECK(out.pixels[3 * 5 + 2] == 5);
}
