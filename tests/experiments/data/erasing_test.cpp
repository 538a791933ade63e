#include "experiments/data/erasing.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace normlab;

namespace {
AugmentDraws draws_of(std::int64_t epoch) { return {stream_key(3, "augment", "a"), epoch}; }
}  // namespace

TEST_CASE("erasing: as often as asked, and the box lies within the image and its ranges") {
  const ErasingConfig config{.dialect = ErasingDialect::timm, .probability = 0.25};
  double boxes = 0, area = 0, log_aspect = 0, first_rows = 0, last_rows = 0;
  constexpr std::int64_t kImages = 20000;
  for (std::int64_t i = 0; i < kImages; ++i) {
    const Box box = erasing_box(config, 64, 48, draws_of(i));
    if (box.height == 0) continue;
    REQUIRE((box.top >= 0 && box.left >= 0 && box.top + box.height <= 64 && box.left + box.width <= 48));
    REQUIRE((box.height < 64 && box.width < 48));
    ++boxes;
    area += double(box.height * box.width) / (64 * 48);
    log_aspect += std::log(double(box.height) / double(box.width));
    first_rows += box.top == 0;
    last_rows += box.top + box.height == 64;
  }
  CHECK(boxes / kImages == doctest::Approx(0.25).epsilon(0.04));
  // Uniform in [0.02, 1/3] has mean 0.177; large narrow boxes do not fit and are drawn anew.
  CHECK(area / boxes == doctest::Approx(0.17).epsilon(0.05));
  CHECK(std::abs(log_aspect / boxes) < 0.15);
  CHECK(first_rows > 0);
  CHECK(last_rows > 0);
  CHECK(erasing_box({}, 64, 48, draws_of(0)).height == 0);  // no dialect
  CHECK(erasing_box({.dialect = ErasingDialect::timm, .probability = 1.0, .area = {1, 1}}, 9, 9, draws_of(0)).height ==
        0);  // no box is smaller than the image
}

TEST_CASE("erasing: one value, a normal number a channel, or one a value") {
  const Box box{1, 2, 40, 50};
  ErasingConfig config{.dialect = ErasingDialect::timm, .value = 0.5};
  std::vector<double> patch;
  draw_patch(config, box, 3, draws_of(0), patch);
  CHECK(patch == std::vector<double>(6000, 0.5));

  config.fill = ErasingFill::color;
  draw_patch(config, box, 3, draws_of(0), patch);
  CHECK(patch[0] != patch[1]);
  CHECK(patch[1] != patch[2]);
  for (std::size_t i = 3; i < patch.size(); ++i) REQUIRE(patch[i] == patch[i - 3]);

  config.fill = ErasingFill::pixel;
  draw_patch(config, box, 3, draws_of(0), patch);
  double sum = 0, squares = 0;
  for (const double v : patch) {
    sum += v;
    squares += v * v;
  }
  CHECK(std::abs(sum / 6000) < 4 / std::sqrt(6000.0));
  CHECK(squares / 6000 == doctest::Approx(1).epsilon(0.08));
  std::vector<double> again, other;
  draw_patch(config, box, 3, draws_of(0), again);
  draw_patch(config, box, 3, draws_of(1), other);
  CHECK(again == patch);
  CHECK(other != patch);
  std::vector<float> narrow;  // the same numbers, rounded once
  draw_patch(config, box, 3, draws_of(0), narrow);
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
