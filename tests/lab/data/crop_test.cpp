#include "experiments/lab/data/random_boxes.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace normlab;

namespace {

using Sampler = Box (*)(std::int64_t, std::int64_t, const std::array<double, 2>&, const std::array<double, 2>&,
                        const AugmentDraws&);

/// Mean and deviation of height, width, top and left over 200,000 boxes, and the share of whole images: printed by
/// tests/reference/crop_twin.py, from torchvision itself and from a restatement of TensorFlow's sampler.
struct Case {
  Sampler sampler;
  std::int64_t height, width;
  std::array<double, 2> area, aspect;
  std::array<double, 8> expected;
  double whole;
};
constexpr double kTwinBoxes = 200000;
constexpr std::array<double, 2> kAspect{3.0 / 4, 4.0 / 3};
const Case kCases[] = {
    {crop_box_torchvision,
     375,
     500,
     {0.05, 1.0},
     kAspect,
     {263.59, 75.706, 274.72, 91.008, 55.789, 54.382, 112.77, 83.928},
     2e-05},
    {crop_box_tensorflow,
     375,
     500,
     {0.05, 1.0},
     kAspect,
     {235.59, 81.015, 244.7, 93.052, 69.004, 61.539, 127.05, 91.224},
     1e-05},
    {crop_box_torchvision,
     500,
     333,
     {0.08, 1.0},
     kAspect,
     {252.28, 75.204, 241.75, 60.847, 123.83, 83.87, 45.598, 44.154},
     0},
    {crop_box_tensorflow,
     500,
     333,
     {0.08, 1.0},
     kAspect,
     {221.41, 71.359, 225.12, 62.9, 138.91, 90.242, 53.414, 47.845},
     0},
    {crop_box_torchvision,
     32,
     32,
     {0.08, 1.0},
     kAspect,
     {21.694, 6.1502, 21.693, 6.1568, 5.1438, 4.8028, 5.1427, 4.8112},
     0.00204},
    {crop_box_tensorflow,
     32,
     32,
     {0.08, 1.0},
     kAspect,
     {19.225, 6.4317, 19.755, 6.5336, 5.9131, 5.2255, 5.6253, 5.1443},
     0.0022},
    {crop_box_torchvision,
     40,
     100,
     {0.3, 1.0},
     kAspect,
     {37.422, 2.5473, 42.943, 6.4435, 1.2815, 1.767, 28.459, 16.229},
     0},
    {crop_box_tensorflow,
     40,
     100,
     {0.3, 1.0},
     kAspect,
     {37.159, 2.4747, 38.735, 5.2215, 1.0207, 1.5477, 30.077, 17.952},
     0},
    {crop_box_torchvision,
     128,
     128,
     {0.8, 1.0},
     {0.75, 1.33},
     {119.37, 6.3366, 119.36, 6.3472, 4.3102, 4.5793, 4.3024, 4.5789},
     0.00722},
    {crop_box_tensorflow,
     128,
     128,
     {0.8, 1.0},
     {0.75, 1.33},
     {117.27, 8.0878, 119.03, 7.7986, 4.9113, 5.5503, 4.0366, 5.1263},
     0.00113},
};

AugmentDraws draws_of(std::int64_t epoch) { return {stream_key(11, "augment", "crop"), epoch}; }

}  // namespace

TEST_CASE("crop: boxes have the means and deviations of the libraries'") {
  constexpr int kBoxes = 40000;
  for (const Case& c : kCases) {
    CAPTURE(c.height);
    CAPTURE(c.width);
    CAPTURE((c.sampler == crop_box_tensorflow));
    std::array<double, 4> sum{}, squares{};
    double whole = 0;
    for (int i = 0; i < kBoxes; ++i) {
      const Box box = c.sampler(c.height, c.width, c.area, c.aspect, draws_of(i));
      REQUIRE(is_inside(box, {c.height, c.width}));
      whole += box.height == c.height && box.width == c.width;
      const std::array<double, 4> values{double(box.height), double(box.width), double(box.top), double(box.left)};
      for (std::size_t v = 0; v < 4; ++v) {
        sum[v] += values[v];
        squares[v] += values[v] * values[v];
      }
    }
    for (std::size_t v = 0; v < 4; ++v) {
      CAPTURE(v);
      const double mean = sum[v] / kBoxes, deviation = std::sqrt(std::max(squares[v] / kBoxes - mean * mean, 0.0));
      const double chance = c.expected[2 * v + 1] * std::sqrt(1.0 / kBoxes + 1 / kTwinBoxes);
      CHECK(std::abs(mean - c.expected[2 * v]) <= 4.5 * chance + 1e-4 * c.expected[2 * v]);
      CHECK(std::abs(deviation - c.expected[2 * v + 1]) <= 4.5 * chance + 1e-4 * c.expected[2 * v]);
    }
    const double share = std::max(c.whole, 1.0 / kTwinBoxes);
    CHECK(std::abs(whole / kBoxes - c.whole) <= 5 * std::sqrt(share * (1.0 / kBoxes + 1 / kTwinBoxes)));
  }
}

TEST_CASE("crop: areas and aspects stay in their ranges") {
  for (int i = 0; i < 20000; ++i) {
    const Box box = crop_box_tensorflow(60, 80, {0.1, 0.5}, {0.75, 1.33}, draws_of(i));
    const double area = double(box.height * box.width) / 4800, aspect = double(box.width) / double(box.height);
    REQUIRE((area >= 0.1 && area <= 0.5));
    REQUIRE((aspect >= 0.7 && aspect <= 1.4));
  }
}

TEST_CASE("crop: TensorFlow never draws the last row, torchvision does") {
  std::int64_t last_row = 0, last_row_torchvision = 0;
  for (int i = 0; i < 20000; ++i) {
    const Box box = crop_box_tensorflow(60, 80, {0.1, 0.5}, {0.75, 1.33}, draws_of(i));
    last_row += box.top + box.height == 60 && box.height < 60;
    const Box other = crop_box_torchvision(60, 80, {0.1, 0.5}, {0.75, 1.33}, draws_of(i));
    last_row_torchvision += other.top + other.height == 60 && other.height < 60;
  }
  CHECK(last_row == 0);
  CHECK(last_row_torchvision > 100);
}

TEST_CASE("crop: if nothing fits, torchvision takes the largest allowed box in the middle") {
  const Box middle = crop_box_torchvision(40, 200, {0.9, 1.0}, kAspect, draws_of(0));
  CHECK(middle == Box{0, 73, 40, 53});
  CHECK(crop_box_torchvision(200, 40, {0.9, 1.0}, kAspect, draws_of(0)) == Box{73, 0, 53, 40});
}

TEST_CASE("crop: if nothing fits, TensorFlow takes the whole image") {
  CHECK(crop_box_tensorflow(40, 200, {0.9, 1.0}, kAspect, draws_of(0)) == Box{0, 0, 40, 200});
}

TEST_CASE("crop: boxes of the smallest images lie inside them") {
  for (const std::int64_t side : {1, 2, 3})
    for (int i = 0; i < 200; ++i) {
      CHECK(is_inside(crop_box_torchvision(side, 1, {0.05, 1.0}, kAspect, draws_of(i)), {side, 1}));
      CHECK(is_inside(crop_box_tensorflow(1, side, {0.05, 1.0}, kAspect, draws_of(i)), {1, side}));
    }
}

TEST_CASE("crop: a box is a function of its draws") {
  for (const Sampler sampler : {&crop_box_tensorflow, &crop_box_torchvision}) {
    const auto box = [&](std::int64_t epoch, std::int64_t repeat) {
      return sampler(375, 500, {0.05, 1.0}, kAspect, {stream_key(1, "augment", "x"), epoch, repeat});
    };
    CHECK(box(3, 0) == box(3, 0));
    CHECK(!(box(3, 0) == box(4, 0)));
    CHECK(!(box(3, 0) == box(3, 1)));
  }
}
