// Parts of the report, assembled in report.cpp.
#pragma once

#include <string>

#include "experiments/lab/pictures/page.h"
#include "experiments/lab/pictures/report.h"

namespace normlab {

inline constexpr std::size_t kReportNumbers = 20;  // of a line of a picture, in the table of its numbers

/// The metrics of input.curves that some shown row has, by step; `caption` says why rows are not drawn.
std::vector<Chart> curve_charts(const ReportInput& input);

/// Per row: its differences from the baseline, its config, and its trials with provenance.
std::string trials_section(const ReportInput& input);

/// "79.1 ±0.3", or only the value if there is no interval.
inline std::string with_interval(const Figure& value, const Figure& half_width) {
  return half_width.text.empty() ? value.text : value.text + " ±" + half_width.text;
}

}  // namespace normlab
