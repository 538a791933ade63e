#include "experiments/lab/data/preview_sheet.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/ignored_label.h"
#include "experiments/lab/data/bitmap_font.h"
#include "experiments/lab/data/resize.h"

namespace normlab {
namespace {

constexpr std::int64_t kTile = 128, kGap = 2, kMargin = 8, kCaption = kGlyphHeight + 6;
constexpr std::int64_t kCellWidth = 2 * kTile + kGap + kMargin, kCellHeight = kTile + kCaption + kMargin;
constexpr std::uint8_t kPaper[3] = {255, 255, 255}, kInk[3] = {0, 0, 0};

Image fitted(const Image& in) {
  const std::int64_t side = std::max(in.height, in.width), times = kTile / side;
  Image out;
  if (times >= 1) {
    out.resize(in.height * times, in.width * times);
    for (std::int64_t y = 0; y < out.height; ++y) {
      for (std::int64_t x = 0; x < out.width; ++x)
        std::copy_n(in.row(y / times) + 3 * (x / times), 3, out.row(y) + 3 * x);
    }
    return out;
  }
  const auto scaled = [&](std::int64_t n) { return std::max<std::int64_t>(1, n * kTile / side); };
  ResizeScratch scratch;
  resize(in, {0, 0, in.height, in.width}, ResizeMethod::bilinear, scaled(in.height), scaled(in.width), out, scratch);
  return out;
}

/// Centred in the tile whose corner is (top, left).
void place(const Image& in, std::int64_t top, std::int64_t left, Image& sheet) {
  const Image tile = fitted(in);
  top += (kTile - tile.height) / 2;
  left += (kTile - tile.width) / 2;
  for (std::int64_t y = 0; y < tile.height; ++y)
    std::copy_n(tile.row(y), 3 * tile.width, sheet.row(top + y) + 3 * left);
}

/// Hues are spread by the golden ratio, so that neighbouring classes differ.
std::array<std::uint8_t, 3> tint_of(std::int32_t label) {
  const double turn = 6 * std::fmod(0.618033988749895 * double(label), 1.0);
  std::array<std::uint8_t, 3> out{};
  for (std::size_t c = 0; c < 3; ++c) {
    const double from = std::fmod(turn + 6 - 2 * double(c), 6.0);
    out[c] = static_cast<std::uint8_t>(255 * std::clamp(std::abs(from - 3) - 1, 0.0, 1.0));
  }
  return out;
}

}  // namespace

void tint(Image& image, std::span<const std::int32_t> classes) {
  for (std::size_t p = 0; p < classes.size(); ++p) {
    const auto colour = classes[p] == kIgnoredLabel ? std::array<std::uint8_t, 3>{} : tint_of(classes[p]);
    for (std::size_t c = 0; c < 3; ++c) {
      std::uint8_t& value = image.pixels[3 * p + c];
      value = static_cast<std::uint8_t>((value + colour[c]) / 2);
    }
  }
}

std::string mask_caption(std::span<const std::int32_t> classes, const std::vector<std::string>& class_names) {
  std::vector<std::int64_t> counts(class_names.size());
  for (const std::int32_t label : classes)
    if (label != kIgnoredLabel) ++counts[static_cast<std::size_t>(label)];
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
  std::string out;
  for (const std::size_t c : order)
    if (counts[c] > 0) out += (out.empty() ? "" : " ") + class_names[c];
  return out;
}

Image preview_sheet(std::span<const PreviewCell> cells, std::int64_t columns) {
  const auto count = static_cast<std::int64_t>(cells.size());
  columns = std::max<std::int64_t>(1, std::min(columns, count));
  const std::int64_t rows = (count + columns - 1) / columns;
  Image sheet;
  sheet.resize(kMargin + rows * kCellHeight, kMargin + columns * kCellWidth);
  for (std::size_t i = 0; i < sheet.pixels.size(); ++i) sheet.pixels[i] = kPaper[i % 3];
  constexpr std::size_t kLetters = (kCellWidth - kMargin) / kGlyphWidth;
  for (std::int64_t i = 0; i < count; ++i) {
    const PreviewCell& cell = cells[static_cast<std::size_t>(i)];
    const std::int64_t top = kMargin + i / columns * kCellHeight, left = kMargin + i % columns * kCellWidth;
    place(cell.stored, top, left, sheet);
    place(cell.seen, top, left + kTile + kGap, sheet);
    std::string caption = cell.caption;
    if (caption.size() > kLetters) caption.replace(kLetters - 2, std::string::npos, "..");
    draw_text(sheet, top + kTile + 4, left, caption, kInk);
  }
  return sheet;
}

std::string target_caption(std::span<const float> target, const std::vector<std::string>& class_names, double least) {
  std::vector<std::size_t> order(target.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return target[a] > target[b]; });
  const auto name = [&](std::size_t c) { return c < class_names.size() ? class_names[c] : std::to_string(c); };
  std::string caption;
  std::size_t named = 0;
  for (const std::size_t c : order) {
    if (static_cast<double>(target[c]) <= least) break;
    caption += fmt::format("{}{} {:.2g}", named == 0 ? "" : " ", name(c), target[c]);
    ++named;
  }
  return named == 1 && target[order[0]] > 0.995f ? name(order[0]) : caption;
}

}  // namespace normlab
