#include "experiments/lab/data/ops/affine.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "core/error.h"
#include "experiments/lab/data/ops/gather.h"

namespace normlab {
namespace {

/// Fixed-point coordinates and offsets must fit 32 bits.
void require_side(const Image& image) {
  constexpr std::int64_t kSide = 16384;
  if (image.height > kSide || image.width > kSide)
    throw InputError(concat("geometric operations take images of up to ", kSide, " pixels per side; this one is ",
                            image.height, " x ", image.width));
}

/// Through decimal digits, like Python's round(value, 15).
double round_to_15_decimals(double value) {
  char digits[32];
  const auto written = std::to_chars(digits, digits + sizeof digits, value, std::chars_format::fixed, 15);
  double out = 0;
  std::from_chars(digits, written.ptr, out);
  return out;
}

/// If b = d = 0, Pillow steps along each axis separately, in double.
void nearest_scaled(Image& image, const AffineMap& m, const Fill& fill, OpScratch& scratch) {
  const std::int64_t height = image.height, width = image.width;
  NearestRows rows(image, fill, scratch);
  scratch.columns.resize(static_cast<std::size_t>(width));
  const auto position = [](double v, std::int64_t size) {
    return v < 0 || v >= static_cast<double>(size) ? -1 : static_cast<std::int32_t>(v);
  };
  double x = m.c + m.a * 0.5, y = m.f + m.e * 0.5;
  for (std::int32_t& column : scratch.columns) {
    column = position(x, width);
    x += m.a;
  }
  for (std::int64_t row = 0; row < height; ++row, y += m.e) {
    const std::int32_t from = position(y, height);
    rows.write(row, [&](std::int64_t i) { return std::pair(scratch.columns[static_cast<std::size_t>(i)], from); });
  }
}

void nearest_fixed(Image& image, const AffineMap& m, const Fill& fill, OpScratch& scratch) {
  const auto fixed = [](double v) { return static_cast<std::int32_t>(std::floor(v * 65536.0 + 0.5)); };
  const std::int32_t a = fixed(m.a), b = fixed(m.b), d = fixed(m.d), e = fixed(m.e);
  std::int32_t x = fixed(m.c + m.a * 0.5 + m.b * 0.5);
  std::int32_t y = fixed(m.f + m.d * 0.5 + m.e * 0.5);
  NearestRows rows(image, fill, scratch);
  for (std::int64_t row = 0; row < image.height; ++row, x += b, y += e) {
    rows.write(row, [=](std::int64_t i) {
      const auto column = static_cast<std::int32_t>(i);
      return std::pair((x + a * column) >> 16, (y + d * column) >> 16);
    });
  }
}

}  // namespace

void pillow_affine(Image& image, const AffineMap& m, ResizeMethod method, const Fill& fill, OpScratch& scratch) {
  require_side(image);
  if (image.pixels.empty()) return;
  if (method != ResizeMethod::nearest)
    sample_pillow(image, m, method, fill, scratch);
  else if (m.b == 0 && m.d == 0)
    nearest_scaled(image, m, fill, scratch);
  else
    nearest_fixed(image, m, fill, scratch);
}

AffineMap pillow_rotation(double degrees, std::int64_t height, std::int64_t width) {
  double turn = std::fmod(degrees, 360.0);
  if (turn < 0) turn += 360.0;
  const double angle = -(turn * (std::numbers::pi / 180.0));
  const double cosine = round_to_15_decimals(std::cos(angle)), sine = round_to_15_decimals(std::sin(angle));
  const double x = static_cast<double>(width) / 2, y = static_cast<double>(height) / 2;
  return {cosine, sine, cosine * -x + sine * -y + x, -sine, cosine, -sine * -x + cosine * -y + y};
}

void tensorflow_affine(Image& image, const AffineMap& m, const Fill& fill, OpScratch& scratch) {
  require_side(image);
  if (image.pixels.empty()) return;
  const auto a = static_cast<float>(m.a), b = static_cast<float>(m.b), c = static_cast<float>(m.c);
  const auto d = static_cast<float>(m.d), e = static_cast<float>(m.e), f = static_cast<float>(m.f);
  const auto nearest = [](float v) {  // halves away from zero
    const float whole = std::trunc(v), rest = v - whole;
    return static_cast<std::int32_t>(whole) + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0);
  };
  NearestRows rows(image, fill, scratch);
  for (std::int64_t row = 0; row < image.height; ++row) {
    const float by = b * static_cast<float>(row), ey = e * static_cast<float>(row);
    rows.write(row, [=](std::int64_t i) {
      const auto column = static_cast<float>(static_cast<std::int32_t>(i));
      return std::pair(nearest(a * column + by + c), nearest(d * column + ey + f));
    });
  }
}

AffineMap tensorflow_rotation(double degrees, std::int64_t height, std::int64_t width) {
  const auto angle = static_cast<float>(degrees * (std::numbers::pi / 180.0));
  const auto cosine = static_cast<float>(std::cos(static_cast<double>(angle)));
  const auto sine = static_cast<float>(std::sin(static_cast<double>(angle)));
  const auto w = static_cast<float>(width - 1), h = static_cast<float>(height - 1);
  const float x = (w - (cosine * w - sine * h)) / 2;
  const float y = (h - (sine * w + cosine * h)) / 2;
  return {cosine, -sine, x, sine, cosine, y};
}

}  // namespace normlab
