#include "experiments/lab/pictures/preview_sheet.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/ignored_label.h"
#include "experiments/lab/data/png.h"
#include "experiments/lab/data/resize.h"
#include "experiments/lab/pictures/page.h"
#include "experiments/lab/tables/markup.h"

namespace normlab {
namespace {

constexpr std::int64_t kShown = 128, kMost = 2 * kShown;  // side of a shown image, and of one in the file

/// An image in the page. Pixels of small ones stay squares.
std::string embedded(const Image& image, const char* words) {
  const std::int64_t side = std::max(image.height, image.width);
  const auto scaled = [&](std::int64_t n) { return std::max<std::int64_t>(1, n * kMost / side); };
  Image smaller;
  ResizeScratch scratch;
  if (side > kMost)
    resize(image, Box{0, 0, image.height, image.width}, ResizeMethod::bilinear, scaled(image.height),
           scaled(image.width), smaller, scratch);
  const std::vector<std::uint8_t> png = png_bytes(side > kMost ? smaller : image);
  return fmt::format("<img{} alt=\"{}\" src=\"data:image/png;base64,{}\">", side < kShown ? " class=\"pixels\"" : "",
                     words, base64({reinterpret_cast<const char*>(png.data()), png.size()}));
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

std::vector<std::size_t> largest_first(std::span<const float> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  return order;
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
  std::vector<float> counts(class_names.size());
  for (const std::int32_t label : classes)
    if (label != kIgnoredLabel) ++counts[static_cast<std::size_t>(label)];
  std::string out;
  for (const std::size_t c : largest_first(counts))
    if (counts[c] > 0) out += (out.empty() ? "" : " ") + class_names[c];
  return out;
}

std::string preview_sheet(std::span<const PreviewCell> cells, std::int64_t columns, const std::string& title) {
  std::string html = page_start(title);
  html += fmt::format(
      "<style>body{{max-width:{}px}}main{{display:flex;flex-wrap:wrap;gap:12px}}figure{{margin:0;width:{}px}}"
      "img{{width:{}px;height:{}px;object-fit:contain}}img+img{{margin-left:2px}}"
      ".pixels{{image-rendering:pixelated}}</style>\n",
      columns * (2 * kShown + 14) + 40, 2 * kShown + 2, kShown, kShown);
  html += html_element("h1", "Training images") + html_element("p", title) + "\n<main>\n";
  for (const PreviewCell& cell : cells)
    html += "<figure>" + embedded(cell.stored, "as stored") + embedded(cell.seen, "as the network sees it") +
            html_element("figcaption", cell.caption) + "</figure>\n";
  return html + "</main>\n</body>\n</html>\n";
}

std::string target_caption(std::span<const float> target, const std::vector<std::string>& class_names, double least) {
  const std::vector<std::size_t> order = largest_first(target);
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
