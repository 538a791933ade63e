#include "experiments/lab/data/random_boxes.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace normlab;

namespace {
AugmentDraws draws_of(std::int64_t epoch) { return {stream_key(3, "augment", "a"), epoch}; }

constexpr std::int64_t kImages = 20000;

/// The boxes drawn for kImages images of 64x48 with probability 1/4.
const std::vector<Box>& drawn_boxes() {
  static const std::vector<Box> kBoxes = [] {
    const ErasingConfig config{.dialect = ErasingDialect::timm, .probability = 0.25};
    std::vector<Box> boxes;
    for (std::int64_t i = 0; i < kImages; ++i) {
      const Box box = erasing_box(config, 64, 48, draws_of(i));
      if (box.height != 0) boxes.push_back(box);
    }
    return boxes;
  }();
  return kBoxes;
}

const Box kBox{1, 2, 40, 50};

std::vector<double> patch_of(ErasingFill fill, std::int64_t epoch = 0) {
  const ErasingConfig config{.dialect = ErasingDialect::timm, .fill = fill, .value = 0.5};
  std::vector<double> patch;
  draw_patch(config, kBox, 3, draws_of(epoch), patch);
  return patch;
}
}  // namespace

TEST_CASE("erasing: a box is drawn as often as asked") {
  CHECK(double(drawn_boxes().size()) / kImages == doctest::Approx(0.25).epsilon(0.04));
}

TEST_CASE("erasing: boxes lie within the image and are smaller") {
  for (const Box& box : drawn_boxes()) {
    REQUIRE((box.top >= 0 && box.left >= 0 && box.top + box.height <= 64 && box.left + box.width <= 48));
    REQUIRE((box.height < 64 && box.width < 48));
  }
}

TEST_CASE("erasing: areas and aspects have the means of their ranges") {
  double area = 0, log_aspect = 0;
  for (const Box& box : drawn_boxes()) {
    area += double(box.height * box.width) / (64 * 48);
    log_aspect += std::log(double(box.height) / double(box.width));
  }
  const double boxes = double(drawn_boxes().size());
  // Uniform in [0.02, 1/3] has mean 0.177; large narrow boxes do not fit and are drawn anew.
  CHECK(area / boxes == doctest::Approx(0.17).epsilon(0.05));
  CHECK(std::abs(log_aspect / boxes) < 0.15);
}

TEST_CASE("erasing: boxes reach the first and the last row") {
  double first_rows = 0, last_rows = 0;
  for (const Box& box : drawn_boxes()) {
    first_rows += box.top == 0;
    last_rows += box.top + box.height == 64;
  }
  CHECK(first_rows > 0);
  CHECK(last_rows > 0);
}

TEST_CASE("erasing: nothing is erased without a dialect") { CHECK(erasing_box({}, 64, 48, draws_of(0)).height == 0); }

TEST_CASE("erasing: nothing is erased if no box is smaller than the image") {
  CHECK(erasing_box({.dialect = ErasingDialect::timm, .probability = 1.0, .area = {1, 1}}, 9, 9, draws_of(0)).height ==
        0);
}

TEST_CASE("erasing: a patch has the given value") {
  CHECK(patch_of(ErasingFill::constant) == std::vector<double>(6000, 0.5));
}

TEST_CASE("erasing: a patch of a color has one number for each channel") {
  const std::vector<double> patch = patch_of(ErasingFill::color);
  CHECK(patch[0] != patch[1]);
  CHECK(patch[1] != patch[2]);
  for (std::size_t i = 3; i < patch.size(); ++i) REQUIRE(patch[i] == patch[i - 3]);
}

TEST_CASE("erasing: a patch of pixels has a normal number for each value") {
  const std::vector<double> patch = patch_of(ErasingFill::pixel);
  double sum = 0, squares = 0;
  for (const double v : patch) {
    sum += v;
    squares += v * v;
  }
  CHECK(std::abs(sum / 6000) < 4 / std::sqrt(6000.0));
  CHECK(squares / 6000 == doctest::Approx(1).epsilon(0.08));
}

TEST_CASE("erasing: a patch is a function of its draws") {
  const std::vector<double> patch = patch_of(ErasingFill::pixel);
  CHECK(patch_of(ErasingFill::pixel) == patch);
  CHECK(patch_of(ErasingFill::pixel, 1) != patch);
}

TEST_CASE("erasing: a patch of floats is that of doubles rounded once") {
  const std::vector<double> patch = patch_of(ErasingFill::pixel);
  std::vector<float> narrow;
  draw_patch({.dialect = ErasingDialect::timm, .fill = ErasingFill::pixel, .value = 0.5}, kBox, 3, draws_of(0), narrow);
  REQUIRE(narrow.size() == patch.size());
  for (std::size_t i = 0; i < patch.size(); ++i) REQUIRE(narrow[i] == static_cast<float>(patch[i]));
}

TEST_CASE("erasing: a patch covers its box and nothing else") {
  const Box box{1, 2, 2, 3};
  std::vector<float> image(4 * 6 * 2, 0.0f), patch;
  for (int i = 0; i < 12; ++i) patch.push_back(static_cast<float>(i + 1));
  put_patch(patch, box, 6, 2, image.data());
  std::size_t next = 0;
  for (std::int64_t y = 0; y < 4; ++y)
    for (std::int64_t x = 0; x < 6; ++x)
      for (std::int64_t c = 0; c < 2; ++c) {
        const bool inside = y >= 1 && y < 3 && x >= 2 && x < 5;
        CHECK(image[static_cast<std::size_t>((y * 6 + x) * 2 + c)] == (inside ? patch[next++] : 0.0f));
      }
}
