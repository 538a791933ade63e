#include "experiments/lab/data/ops/color_jitter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "experiments/lab/data/ops/tone.h"

using namespace normlab;

namespace {

Image colors() {
  Image image;
  image.resize(4, 5);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = std::uint8_t(i * 53 % 256);
  return image;
}

/// colors() after hue, contrast, brightness and saturation in this order, from torchvision on Pillow's images.
const std::vector<std::uint8_t> kKnown = {136, 34,  187, 0,   255, 122, 195, 91,  243, 255, 240, 0,   251, 147, 255,
                                          162, 58,  211, 19,  255, 150, 218, 114, 255, 255, 255, 6,   0,   255, 114,
                                          188, 82,  236, 255, 233, 0,   244, 140, 255, 154, 50,  205, 7,   255, 139,
                                          212, 105, 255, 255, 255, 0,   255, 166, 255, 179, 75,  228, 255, 227, 0};

constexpr int kDraws = 24000;

const std::vector<DrawnJitter>& drawn() {
  static const std::vector<DrawnJitter> kDrawn = [] {
    const ColorJitterConfig config{0.4, 2.0, 0.0, 0.1};
    std::vector<DrawnJitter> all;
    for (int i = 0; i < kDraws; ++i)
      all.push_back(draw_jitter(config, {stream_key(1, "augment", std::to_string(i)), 0}));
    return all;
  }();
  return kDrawn;
}

}  // namespace

TEST_CASE("color_jitter: every order is drawn equally often") {
  std::map<std::array<JitterStep, 4>, double> orders;
  for (const DrawnJitter& d : drawn()) ++orders[d.order];
  REQUIRE(orders.size() == 24);
  double chi = 0;
  for (const auto& [order, count] : orders) chi += (count - 1000) * (count - 1000) / 1000;
  CHECK(chi < 49.73);  // 0.1% of a chi-square with 23 degrees of freedom lies above
}

TEST_CASE("color_jitter: factors fill their ranges") {
  double least = 9, most = 0, sum = 0, hue_sum = 0, contrast_most = 0, contrast_least = 9;
  for (const DrawnJitter& d : drawn()) {
    least = std::min(least, d.brightness);
    most = std::max(most, d.brightness);
    sum += d.brightness;
    hue_sum += std::abs(d.hue);
    contrast_least = std::min(contrast_least, d.contrast);
    contrast_most = std::max(contrast_most, d.contrast);
    REQUIRE(d.saturation == 1);
    REQUIRE(std::abs(d.hue) <= 0.1);
  }
  CHECK(least == doctest::Approx(0.6).epsilon(1e-3));
  CHECK(most == doctest::Approx(1.4).epsilon(1e-3));
  CHECK(sum / kDraws == doctest::Approx(1).epsilon(0.005));
  CHECK(hue_sum / kDraws == doctest::Approx(0.05).epsilon(0.02));
  CHECK(contrast_least < 0.01);  // never below 0
  CHECK(contrast_least >= 0);
  CHECK(contrast_most == doctest::Approx(3).epsilon(1e-3));
}

TEST_CASE("color_jitter: a part that is off changes no draw of the others") {
  const AugmentDraws draws(stream_key(1, "augment", "x"), 4);
  const DrawnJitter all = draw_jitter({0.4, 0.4, 0.4, 0.1}, draws), one = draw_jitter({0, 0, 0.4, 0}, draws);
  CHECK(one.saturation == all.saturation);
  CHECK(one.order == all.order);
}

TEST_CASE("color_jitter: a part that is off leaves its step out") {
  const DrawnJitter one = draw_jitter({0, 0, 0.4, 0}, {stream_key(1, "augment", "x"), 4});
  Image image = colors(), expected = colors();
  jitter(image, one);
  color(expected, static_cast<float>(one.saturation), PixelArithmetic::pillow);
  CHECK(image.pixels == expected.pixels);
}

TEST_CASE("color_jitter: nothing changes if every part is off") {
  const AugmentDraws draws(stream_key(1, "augment", "x"), 4);
  Image same = colors();
  color_jitter(same, {}, draws);
  CHECK(same.pixels == colors().pixels);
}

TEST_CASE("color_jitter: values are torchvision's on Pillow's images") {
  Image image = colors();
  jitter(image,
         {{JitterStep::hue, JitterStep::contrast, JitterStep::brightness, JitterStep::saturation}, 1.3, 0.7, 1.6, 0.2});
  REQUIRE(image.pixels.size() == kKnown.size());
  CHECK(image.pixels == kKnown);
}

TEST_CASE("color_jitter: the order of the steps matters") {
  Image other = colors();
  jitter(other,
         {{JitterStep::contrast, JitterStep::hue, JitterStep::brightness, JitterStep::saturation}, 1.3, 0.7, 1.6, 0.2});
  CHECK(other.pixels != kKnown);
}
