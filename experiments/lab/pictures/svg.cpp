#include "experiments/lab/pictures/svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/markup.h"

namespace normlab {
namespace {

/// Width of a character as a share of the font size, an upper estimate.
constexpr double kCharacterWidth = 0.58;

}  // namespace

std::string svg_number(double value) {
  if (!std::isfinite(value)) return "0";  // callers draw finite numbers only; this keeps the SVG valid
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

void SvgWriter::begin(std::string_view tag, SvgAttributes attributes) {
  out_ += '<';
  out_ += tag;
  for (const SvgAttribute& attribute : attributes) {
    if (attribute.value.empty()) continue;
    out_ += ' ';
    out_ += attribute.name;
    out_ += "=\"" + escaped(attribute.value) + '"';
  }
}

void SvgWriter::open(std::string_view tag, SvgAttributes attributes) {
  begin(tag, attributes);
  out_ += ">\n";
  open_.emplace_back(tag);
}

void SvgWriter::close() {
  out_ += "</" + open_.back() + ">\n";
  open_.pop_back();
}

void SvgWriter::element(std::string_view tag, SvgAttributes attributes, std::string_view hover) {
  begin(tag, attributes);
  if (hover.empty())
    out_ += "/>\n";
  else
    out_ += "><title>" + escaped(hover) + "</title></" + std::string(tag) + ">\n";
}

void SvgWriter::text(std::string_view tag, std::string_view content, SvgAttributes attributes) {
  begin(tag, attributes);
  out_ += '>' + escaped(content) + "</" + std::string(tag) + ">\n";
}

std::string SvgWriter::take() {
  open_.clear();
  return std::exchange(out_, {});
}

// Okabe and Ito's colours, which colour-blind readers can distinguish; shapes and dashes carry the same information.
// Without CSS variables and nesting, so that programs that only render SVG can read it.
std::string_view picture_style() {
  return R"css(
.picture{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-size:12px}
.picture text{fill:#1a1a1a}
.picture .p-back{fill:#ffffff}
.picture .p-soft{fill:#555555;font-size:11px}
.picture .p-head{font-weight:600;font-size:13px}
.picture .p-end{text-anchor:end}
.picture .p-mid{text-anchor:middle}
.picture .p-grid{stroke:#dddddd}
.picture .p-lane{stroke:#eeeeee}
.picture .p-zero{stroke:currentColor;stroke-width:1.5}
.picture .p-bar,.picture .p-many{stroke:currentColor;stroke-width:2;fill:none;stroke-linejoin:round}
.picture .p-dot{fill:currentColor;fill-opacity:.35;stroke:currentColor}
.picture .p-mean{fill:#ffffff;stroke:currentColor;stroke-width:2}
.picture .p-clear,.picture .p-band,.picture .p-point,.picture .p-pixel{fill:currentColor}
.picture .p-band{fill-opacity:.22}
.picture .p-cross{stroke:currentColor;stroke-width:2.5;fill:none}
.picture .p-note{fill:#a84300;font-size:11px}
.picture .p-mark{fill:none;stroke:currentColor;stroke-width:1.3}
.picture .p-dots{fill:none;stroke:currentColor;stroke-width:3;stroke-linecap:round;stroke-opacity:.7}
.picture .p-s0{color:#1a1a1a}.picture .p-s1{color:#0072b2}.picture .p-s2{color:#d55e00}.picture .p-s3{color:#009e73}
.picture .p-s4{color:#cc79a7}.picture .p-s5{color:#b98900}.picture .p-s6{color:#3f9fd0}.picture .p-s7{color:#777777}
.picture .p-f0,.picture .p-f1,.picture .p-f4,.picture .p-f7{fill:currentColor}
.picture .p-f2,.picture .p-f6{fill:#ffffff}
.picture .p-d1{stroke-dasharray:7 3}.picture .p-d2{stroke-dasharray:2 2}.picture .p-d3{stroke-dasharray:9 3 2 3}
.picture .p-d5{stroke-dasharray:5 5}.picture .p-d6{stroke-dasharray:12 4}.picture .p-d7{stroke-dasharray:3 2 9 2}
.picture .p-base{stroke-width:1.4;stroke-dasharray:5 3}
.picture .p-note,.picture .p-label{paint-order:stroke;stroke:#ffffff;stroke-width:3px}
@media screen and (prefers-color-scheme:dark){
.picture text{fill:#ececec}
.picture .p-back{fill:#15181c}
.picture .p-soft{fill:#b5bac0}
.picture .p-grid{stroke:#3a4048}
.picture .p-lane{stroke:#282d33}
.picture .p-mean,.picture .p-f2,.picture .p-f6{fill:#15181c}
.picture .p-clear{fill:currentColor}
.picture .p-s0{color:#ececec}.picture .p-s1{color:#56b4e9}.picture .p-s2{color:#f0a13c}.picture .p-s3{color:#2fce9f}
.picture .p-s4{color:#e39fc6}.picture .p-s5{color:#e6d04a}.picture .p-s6{color:#8fd0f5}.picture .p-s7{color:#a5a5a5}
.picture .p-note{fill:#f0a13c}
.picture .p-note,.picture .p-label{stroke:#15181c}
}
)css";
}

double text_width(std::string_view text, double font_size) {
  return kCharacterWidth * font_size * double(display_width(text));
}

std::string fitted(const std::string& text, double width, double font_size) {
  const auto columns = std::size_t(std::max(1.0, width / (kCharacterWidth * font_size)));
  return shorten_middle(text, columns);
}

}  // namespace normlab
