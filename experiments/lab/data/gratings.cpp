#include "experiments/lab/data/generated.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "experiments/lab/data/canvas.h"

namespace normlab {
namespace {

// Sources of difficulty: noise, contrast, background, jitter. Amplitudes are in levels of 255, lengths in pixels.
constexpr int kNoise = 14;                           // standard deviation of each value's noise
constexpr int kContrastMin = 45, kContrastMax = 75;  // amplitude of a disc's stripes
constexpr int kGroundMin = 10, kGroundMax = 20;      // amplitude of each of the background's two gratings
constexpr int kTint = 24;                            // of a disc, up to this either way, per channel
constexpr int kRadiusMin = 6, kRadiusMax = 8, kApart = 13, kMargin = 7;
constexpr int kTiltJitter = 16;  // standard deviation of a direction, 1024 per turn
constexpr int kStrays = 6;       // one in this many images has coarse stripes along or across at random

constexpr int kSide = 32, kTurn = 1024, kDirections = 5;
// Stripes per pixel in units of 1/65536: 1/4, 1/7, and from 1/16 to 2/7 in the background. Disc stripes vary by 8%.
constexpr int kFine = 16384, kCoarse = 9362, kSlowest = 4096, kFastest = 18725;

/// 1024 sin(2 pi i / 1024), by the series, which all compilers evaluate alike.
constexpr auto kSine = [] {
  std::array<int, kTurn> table{};
  for (int i = 0; i < kTurn; ++i) {
    const double x = (i < kTurn / 2 ? i : i - kTurn) * 6.283185307179586 / kTurn;
    double term = x, sum = x;
    for (int k = 1; k < 16; ++k) sum += term *= -x * x / (2 * k * (2 * k + 1));
    table[static_cast<std::size_t>(i)] = static_cast<int>(sum * 1024 + (sum < 0 ? -0.5 : 0.5));
  }
  return table;
}();
constexpr int sine(int angle) { return kSine[static_cast<std::size_t>(angle & (kTurn - 1))]; }

using Colour = std::array<int, 3>;

/// Stripes with a random phase: an offset per pixel and channel.
class Grating {
 public:
  Grating(PictureDraws& draws, int angle, int frequency, int least, int most)
      : across_(frequency * sine(angle + kTurn / 4) / 1024),
        down_(frequency * sine(angle) / 1024),
        phase_(draws.between(0, 65535)) {
    for (int& each : amplitude_) each = draws.between(least, most);
  }
  int at(int x, int y, std::size_t channel) const {
    return amplitude_[channel] * sine((x * across_ + y * down_ + phase_) >> 6) / 1024;
  }

 private:
  int across_, down_, phase_;
  Colour amplitude_{};
};

struct Disc {
  int x, y, radius;
  Colour tint;
  Grating stripes;
  Disc(PictureDraws& draws, std::array<int, 2> place, int angle, int frequency)
      : x(place[0]),
        y(place[1]),
        radius(draws.between(kRadiusMin, kRadiusMax)),
        tint{draws.between(-kTint, kTint), draws.between(-kTint, kTint), draws.between(-kTint, kTint)},
        // Braces fix the order of the draws.
        stripes{draws, angle + draws.noise(kTiltJitter), frequency * draws.between(92, 108) / 100, kContrastMin,
                kContrastMax} {}
  bool covers(int px, int py) const { return (px - x) * (px - x) + (py - y) * (py - y) < radius * radius; }
};

std::array<int, 2> place(PictureDraws& draws) {
  const int x = draws.between(kMargin, kSide - kMargin);
  return {x, draws.between(kMargin, kSide - kMargin)};
}

bool near(const std::array<int, 2>& a, const std::array<int, 2>& b) {
  return (a[0] - b[0]) * (a[0] - b[0]) + (a[1] - b[1]) * (a[1] - b[1]) <= kApart * kApart;
}

}  // namespace

void draw_gratings(std::uint64_t seed, const std::string& split, std::int64_t index, std::uint8_t* rgb) {
  PictureDraws draws(stream_key(seed, "gratings", split), index);
  const auto ground = [&] {
    const int angle = draws.between(0, kTurn - 1);
    return Grating(draws, angle, draws.between(kSlowest, kFastest), kGroundMin, kGroundMax);
  };
  const Grating first_ground = ground(), second_ground = ground();
  const int label = static_cast<int>(index % (2 * kDirections));
  const int fine = label / 2 * kTurn / (2 * kDirections);
  const bool stray = draws.between(1, kStrays) == 1, crossed = stray ? draws.between(0, 1) == 1 : label % 2 == 1;
  std::array<int, 2> of_fine{}, of_coarse{};
  do {
    of_fine = place(draws);
    of_coarse = place(draws);
  } while (near(of_fine, of_coarse));
  const Disc fine_disc(draws, of_fine, fine, kFine);
  const Disc coarse_disc(draws, of_coarse, fine + (crossed ? kTurn / 4 : 0), kCoarse);
  for (int y = 0; y < kSide; ++y)
    for (int x = 0; x < kSide; ++x)
      for (std::size_t c = 0; c < 3; ++c) {
        int level = 128;
        if (const Disc* disc = coarse_disc.covers(x, y) ? &coarse_disc : fine_disc.covers(x, y) ? &fine_disc : nullptr)
          level += disc->tint[c] + disc->stripes.at(x, y, c);
        else
          level += first_ground.at(x, y, c) + second_ground.at(x, y, c);
        *rgb++ = static_cast<std::uint8_t>(std::clamp(level + draws.noise(kNoise), 0, 255));
      }
}

std::vector<std::string> gratings_classes() {
  std::vector<std::string> names;
  for (int label = 0; label < 2 * kDirections; ++label)
    names.push_back(concat(label / 2 * 180 / kDirections, label % 2 ? "_across" : "_along"));
  return names;
}

}  // namespace normlab
