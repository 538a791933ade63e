#include "experiments/lab/cli/paper_text.h"

#include <fmt/core.h>

#include "core/visible_text.h"
#include "experiments/lab/base/text_layout.h"

namespace normlab {
namespace {

constexpr std::size_t kColumns = 80, kIndent = 2;

std::string paragraph(const std::string& text, std::size_t indent) {
  std::string out;
  for (const std::string& line : wrapped(visible(text), kColumns - indent))
    out += fmt::format("{:{}}{}\n", "", out.empty() ? 0 : indent, line);
  return out;
}

}  // namespace

std::string paper_text(const PaperConfig& paper) {
  if (paper.empty()) return {};
  std::string out = paragraph("Source: " + paper.source, kIndent);
  for (const Deviation& d : paper.deviations)
    out += paragraph(
        fmt::format("Differs from the source: {} is {} there and {} here: {}", d.key, d.paper, d.here, d.why), kIndent);
  return out;
}

}  // namespace normlab
