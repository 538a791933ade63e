#include <algorithm>

#include "experiments/lab/data/ops/tone.h"

namespace normlab {
namespace {

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
