#include "experiments/data/shapes.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/random.h"

namespace normlab {
namespace {

// What makes the task hard. Lengths are in eighths of a pixel, colours in levels of 255.
constexpr int kNoise = 14;  // standard deviation of each value's noise
constexpr int kContrastMin = 48,
              kContrastMax = 110;                    // of a part against the background, brighter or darker, by channel
constexpr int kClutter = 2;                          // bars that mean nothing
constexpr int kPlaceJitter = 36;                     // of the pair's middle, either way
constexpr int kAngleJitter = 12;                     // of the cross, across its direction
constexpr int kDistanceMin = 72, kDistanceMax = 96;  // between ring and cross

constexpr int kUnit = 8;  // coordinates to a pixel
constexpr int kSide = static_cast<int>(kShapesSide);
constexpr std::array<std::array<int, 2>, 8> kDirections{
    // x, y (down); eighths of a unit vector in 1/64
    {{64, 0}, {45, 45}, {0, 64}, {-45, 45}, {-64, 0}, {-45, -45}, {0, -64}, {45, -45}}};
constexpr const char* kClassNames[] = {"right",      "below_right", "below",       "below_left", "left",
                                       "above_left", "above",       "above_right", "inside",     "behind"};

/// Words of one picture, taken one after another: the position counts them, so each picture stands alone.
class Draws {
 public:
  Draws(StreamKey key, std::int64_t index) : key_(key), index_(static_cast<std::uint64_t>(index)) {}
  std::uint32_t word() {
    if (used_ == 4) {
      words_ = draw(key_, position_++, index_);
      used_ = 0;
    }
    return words_[used_++];
  }
  /// Uniform in [low, high].
  int between(int low, int high) {
    return low + static_cast<int>(below(word(), static_cast<std::uint32_t>(high - low + 1)));
  }

 private:
  StreamKey key_;
  std::uint64_t index_, position_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
};

using Colour = std::array<int, 3>;

/// Brighter or darker than `ground` in all three channels, each by an amount of its own.
Colour part_colour(Draws& draws, const Colour& ground) {
  const int sign = draws.between(0, 1) * 2 - 1;
  Colour colour{};
  for (std::size_t c = 0; c < 3; ++c) colour[c] = ground[c] + sign * draws.between(kContrastMin, kContrastMax);
  return colour;
}

class Canvas {
 public:
  explicit Canvas(const Colour& ground) {
    for (auto& pixel : pixels_) pixel = ground;
  }

  /// Paints where inside(x, y) holds, relative to the centre (cx, cy), by 4x4 samples a pixel; nothing lies beyond
  /// `reach`.
  template <class Inside>
  void paint(int cx, int cy, int reach, const Colour& colour, Inside inside) {
    const int top = std::clamp((cy - reach) / kUnit, 0, kSide), bottom = std::clamp((cy + reach) / kUnit + 1, 0, kSide);
    const int left = std::clamp((cx - reach) / kUnit, 0, kSide), right = std::clamp((cx + reach) / kUnit + 1, 0, kSide);
    for (int y = top; y < bottom; ++y) {
      for (int x = left; x < right; ++x) {
        int covered = 0;
        for (int sample = 0; sample < 16; ++sample) {
          covered += inside(x * kUnit + sample % 4 * 2 + 1 - cx, y * kUnit + sample / 4 * 2 + 1 - cy) ? 1 : 0;
        }
        Colour& pixel = pixels_[static_cast<std::size_t>(y * kSide + x)];
        for (std::size_t c = 0; c < 3; ++c) pixel[c] += (colour[c] - pixel[c]) * covered / 16;
      }
    }
  }

  /// Adds noise: the four bytes of a word sum to nearly a normal number, of deviation 147.8.
  void write(Draws& draws, std::uint8_t* rgb) const {
    for (const Colour& pixel : pixels_) {
      for (const int value : pixel) {
        const std::uint32_t w = draws.word();
        const int noise = static_cast<int>((w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24)) - 510;
        *rgb++ = static_cast<std::uint8_t>(std::clamp(value + noise * kNoise / 148, 0, 255));
      }
    }
  }

 private:
  std::array<Colour, static_cast<std::size_t>(kSide* kSide)> pixels_{};
};

void paint_ring(Canvas& canvas, int x, int y, int radius, int width, const Colour& colour) {
  const int inner = (radius - width) * (radius - width), outer = radius * radius;
  canvas.paint(x, y, radius, colour, [=](int dx, int dy) {
    const int square = dx * dx + dy * dy;
    return square >= inner && square <= outer;
  });
}

void paint_cross(Canvas& canvas, int x, int y, int arm, int half_width, const Colour& colour) {
  canvas.paint(x, y, arm, colour, [=](int dx, int dy) {
    const int across = std::min(std::abs(dx), std::abs(dy)), along = std::max(std::abs(dx), std::abs(dy));
    return across <= half_width && along <= arm;
  });
}

void paint_bar(Canvas& canvas, Draws& draws, const Colour& colour) {
  const int x = draws.between(0, kSide * kUnit), y = draws.between(0, kSide * kUnit), length = draws.between(20, 40);
  const auto [ux, uy] = kDirections[static_cast<std::size_t>(draws.between(0, 3))];
  canvas.paint(x, y, length, colour, [=, ux = ux, uy = uy](int dx, int dy) {
    return std::abs(dx * ux + dy * uy) <= 64 * length && std::abs(dx * uy - dy * ux) <= 64 * 8;
  });
}

}  // namespace

void draw_shapes(std::uint64_t shapes_seed, const std::string& split, std::int64_t index, std::uint8_t* rgb) {
  Draws draws(stream_key(shapes_seed, "shapes", split), index);
  const Colour ground{draws.between(80, 175), draws.between(80, 175), draws.between(80, 175)};
  Canvas canvas(ground);
  for (int bar = 0; bar < kClutter; ++bar) paint_bar(canvas, draws, part_colour(draws, ground));

  const int middle = kSide * kUnit / 2;
  const int x = middle + draws.between(-kPlaceJitter, kPlaceJitter),
            y = middle + draws.between(-kPlaceJitter, kPlaceJitter);
  const Colour ring = part_colour(draws, ground), cross = part_colour(draws, ground);
  const auto relation = static_cast<std::size_t>(index % kShapesClasses);
  const int across = draws.between(-kAngleJitter, kAngleJitter), along = draws.between(kDistanceMin, kDistanceMax);
  if (relation < kDirections.size()) {
    const auto [ux, uy] = kDirections[relation];
    const int dx = (along * ux - across * uy) / 128, dy = (along * uy + across * ux) / 128;  // half of the way
    paint_ring(canvas, x - dx, y - dy, draws.between(30, 36), 14, ring);
    paint_cross(canvas, x + dx, y + dy, draws.between(30, 36), 8, cross);
  } else if (relation == 8) {
    paint_ring(canvas, x, y, draws.between(66, 78), 14, ring);
    paint_cross(canvas, x, y, draws.between(30, 36), 8, cross);
  } else {
    paint_cross(canvas, x, y, draws.between(66, 78), 8, cross);
    paint_ring(canvas, x, y, draws.between(30, 36), 14, ring);
  }
  canvas.write(draws, rgb);
}

ImageSet make_shapes(const DatasetConfig& config, const Slice& slice) {
  if (slice.split != "train" && slice.split != "test") {
    throw InputError(concat("dataset \"shapes\", slice \"", slice.text, "\": its splits are \"train\" and \"test\""));
  }
  const bool train = slice.split == "train";
  const std::int64_t count = train ? config.train_images : config.eval_images;
  if (count < 1 || count > 1000000) {
    throw InputError(concat("dataset \"shapes\": ", train ? "train_images" : "eval_images", " is ", count,
                            "; it is from 1 to 1000000"));
  }
  const std::vector<std::int64_t> chosen = slice_indices(slice, config.name, count);
  ImageSet images;
  images.height = images.width = kShapesSide;
  images.channels = 3;
  images.num_classes = kShapesClasses;
  images.class_names.assign(std::begin(kClassNames), std::end(kClassNames));
  images.pixels.resize(chosen.size() * static_cast<std::size_t>(images.image_bytes()));
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    draw_shapes(config.shapes_seed, slice.split, chosen[i],
                images.pixels.data() + i * static_cast<std::size_t>(images.image_bytes()));
    images.labels.push_back(static_cast<std::int32_t>(chosen[i] % kShapesClasses));
    const std::string number = std::to_string(chosen[i]);
    images.keys.push_back(std::string(6 - std::min<std::size_t>(6, number.size()), '0') + number);
  }
  images.provenance = concat("shapes made from seed ", config.shapes_seed, ", ", slice.text, ": ", chosen.size(),
                             " of ", count, " images");
  return images;
}

}  // namespace normlab
