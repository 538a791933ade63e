#include <algorithm>
#include <cmath>

#include "experiments/lab/data/ops/tone.h"

namespace normlab {
namespace {

constexpr std::int64_t kChannels = Image::kChannels;

std::uint8_t blend(int degenerate, int value, float factor) {
  const float mixed = static_cast<float>(degenerate) + factor * static_cast<float>(value - degenerate);
  const float low = mixed > 0 ? mixed : 0;
  return static_cast<std::uint8_t>(static_cast<int>(low < 255 ? low : 255));
}

/// For a degenerate image of one value.
void blend_all(Image& image, int degenerate, float factor) {
  std::uint8_t* p = image.pixels.data();
  const auto values = static_cast<std::int64_t>(image.pixels.size());
  for (std::int64_t i = 0; i < values; ++i) p[i] = blend(degenerate, p[i], factor);
}

struct PillowGrey {
  int operator()(int red, int green, int blue) const {
    return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16;
  }
};

/// In float, as tf.image.rgb_to_grayscale between its two 8-bit conversions.
struct TensorflowGrey {
  int operator()(int red, int green, int blue) const {
    const auto part = [](int value, float weight) { return static_cast<float>(value) / 255.0f * weight; };
    const float grey = part(red, 0.2989f) + part(green, 0.5870f) + part(blue, 0.1140f);
    return static_cast<int>(grey * 255.5f);
  }
};

template <class Grey>
std::int64_t sum_of_grey(const Image& image, Grey grey) {
  const std::uint8_t* p = image.pixels.data();
  const std::int64_t pixels = image.height * image.width;
  std::int64_t sum = 0;
  for (std::int64_t begin = 0; begin < pixels; begin += 1 << 20) {  // a block's sum fits 32 bits
    std::int32_t part = 0;
    const std::int64_t end = std::min<std::int64_t>(pixels, begin + (1 << 20));
    for (std::int64_t i = begin; i < end; ++i) part += grey(p[3 * i], p[3 * i + 1], p[3 * i + 2]);
    sum += part;
  }
  return sum;
}

template <class Grey>
void blend_grey(Image& image, float factor, Grey grey) {
  std::uint8_t* p = image.pixels.data();
  const std::int64_t pixels = image.height * image.width;
  for (std::int64_t i = 0; i < pixels; ++i) {
    const int red = p[3 * i], green = p[3 * i + 1], blue = p[3 * i + 2], g = grey(red, green, blue);
    p[3 * i] = blend(g, red, factor);
    p[3 * i + 1] = blend(g, green, factor);
    p[3 * i + 2] = blend(g, blue, factor);
  }
}

/// The sum over 13, rounded: (sum + 6) / 13; this multiplication is exact for sums up to 13 * 255.
struct PillowSmooth {
  int operator()(const std::uint8_t* up, const std::uint8_t* here, const std::uint8_t* down, std::int64_t i) const {
    const int ring = up[i - 3] + up[i] + up[i + 3] + here[i - 3] + here[i + 3] + down[i - 3] + down[i] + down[i + 3];
    return ((ring + 5 * here[i] + 6) * 5042) >> 16;
  }
};

/// In float by fused multiply-adds in row order, truncated: exact integers may come out one too small.
struct TensorflowSmooth {
  int operator()(const std::uint8_t* up, const std::uint8_t* here, const std::uint8_t* down, std::int64_t i) const {
    constexpr float kOne = 1.0f / 13, kFive = 5.0f / 13;
    float sum = kOne * static_cast<float>(up[i - 3]);
    for (const std::uint8_t* v : {up + i, up + i + 3, here + i - 3}) sum = std::fma(kOne, static_cast<float>(*v), sum);
    sum = std::fma(kFive, static_cast<float>(here[i]), sum);
    for (const std::uint8_t* v : {here + i + 3, down + i - 3, down + i, down + i + 3})
      sum = std::fma(kOne, static_cast<float>(*v), sum);
    return static_cast<int>(sum < 255 ? sum : 255);
  }
};

template <class Smooth>
void sharpen(Image& image, float factor, OpScratch& scratch, Smooth smooth) {
  // Copies of the original rows above and at y, used alternately; the row below is still unchanged in the image.
  const std::int64_t bytes = image.width * kChannels;
  scratch.bytes.resize(static_cast<std::size_t>(2 * bytes));
  std::uint8_t *up = scratch.bytes.data(), *here = up + bytes;
  std::copy_n(image.row(0), bytes, up);
  for (std::int64_t y = 1; y + 1 < image.height; ++y) {
    std::copy_n(image.row(y), bytes, here);
    const std::uint8_t* down = image.row(y + 1);
    std::uint8_t* out = image.row(y);
    for (std::int64_t i = kChannels; i < bytes - kChannels; ++i)
      out[i] = blend(smooth(up, here, down, i), here[i], factor);
    std::swap(up, here);
  }
}

struct Hsv {
  std::uint8_t hue, saturation, value;
};

Hsv to_hsv(int red, int green, int blue) {
  const int high = std::max({red, green, blue}), low = std::min({red, green, blue});
  if (high == low) return {0, 0, static_cast<std::uint8_t>(high)};
  const auto range = static_cast<float>(high - low);
  const auto part = [&](int value) { return static_cast<float>(high - value) / range; };
  const float r = part(red), g = part(green), b = part(blue);
  const float sector = red == high     ? b - g
                       : green == high ? static_cast<float>(2.0 + r - b)
                                       : static_cast<float>(4.0 + g - r);
  double turned = sector / 6.0 + 1.0;
  if (turned >= 1.0) turned -= 1.0;
  const auto hue = static_cast<float>(turned);
  const float saturation = range / static_cast<float>(high);
  return {static_cast<std::uint8_t>(hue * 255.0), static_cast<std::uint8_t>(saturation * 255.0),
          static_cast<std::uint8_t>(high)};
}

void from_hsv(Hsv in, std::uint8_t* out) {
  const std::uint8_t v = in.value;
  if (in.saturation == 0) {
    out[0] = out[1] = out[2] = v;
    return;
  }
  const double turned = static_cast<float>(in.hue) * 6.0 / 255.0;
  const int sector = static_cast<int>(turned);
  const auto f = static_cast<float>(turned - static_cast<double>(static_cast<float>(sector)));
  const auto s = static_cast<float>(static_cast<float>(in.saturation) / 255.0);
  const auto level = [&](double share) {  // halves away from zero; share is in [0, 1]
    const double exact = static_cast<float>(v) * share;
    const int whole = static_cast<int>(exact);
    return static_cast<std::uint8_t>(whole + (exact - whole >= 0.5 ? 1 : 0));
  };
  const std::uint8_t p = level(1.0 - static_cast<double>(s));
  const std::uint8_t q = level(1.0 - static_cast<double>(s * f));
  const std::uint8_t t = level(1.0 - static_cast<double>(s) * (1.0 - static_cast<double>(f)));
  const std::uint8_t colors[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
  std::copy_n(colors[sector % 6], 3, out);
}

}  // namespace

void brightness(Image& image, float factor) { blend_all(image, 0, factor); }

void color(Image& image, float factor, PixelArithmetic arithmetic) {
  if (factor == 1) return;
  if (arithmetic == PixelArithmetic::pillow)
    blend_grey(image, factor, PillowGrey{});
  else
    blend_grey(image, factor, TensorflowGrey{});
}

void contrast(Image& image, float factor, PixelArithmetic arithmetic) {
  if (factor == 1) return;
  const auto pixels = static_cast<double>(image.height * image.width);
  if (arithmetic == PixelArithmetic::pillow)
    blend_all(image, static_cast<int>(static_cast<double>(sum_of_grey(image, PillowGrey{})) / pixels + 0.5), factor);
  else
    blend_all(image, static_cast<int>(static_cast<double>(sum_of_grey(image, TensorflowGrey{})) / pixels), factor);
}

void contrast_by_size(Image& image, float factor) {
  blend_all(image, static_cast<int>(std::min<std::int64_t>(image.height * image.width / 256, 255)), factor);
}

void sharpness(Image& image, float factor, PixelArithmetic arithmetic, OpScratch& scratch) {
  if (factor == 1 || image.height < 3 || image.width < 3) return;
  if (arithmetic == PixelArithmetic::pillow)
    sharpen(image, factor, scratch, PillowSmooth{});
  else
    sharpen(image, factor, scratch, TensorflowSmooth{});
}

void hue(Image& image, double share) {
  const auto turn = static_cast<std::uint8_t>(static_cast<int>(share * 255));
  std::uint8_t* p = image.pixels.data();
  for (const std::uint8_t* end = p + image.pixels.size(); p != end; p += Image::kChannels) {
    Hsv hsv = to_hsv(p[0], p[1], p[2]);
    hsv.hue = static_cast<std::uint8_t>(hsv.hue + turn);
    from_hsv(hsv, p);
  }
}

}  // namespace normlab
