// Parts of the page, assembled in report.cpp.
#pragma once

#include <string>
#include <string_view>

#include "experiments/lab/pictures/report.h"

namespace normlab {

/// The style sheet of the page, without the rules for pictures.
std::string_view page_style();

/// Sorts and filters the table and expands the trials. The page is readable without it.
std::string_view page_script();

/// The plots of gains, each with its numbers as a table.
std::string gains_section(const ReportInput& input);

/// A table that scrolls, without its question and with its footer as a list below.
std::string table_part(const TableModel& table, const std::string& name);

/// One group of panels per metric, each with its numbers as a table.
std::string curves_section(const ReportInput& input);

/// Per row: its differences from the baseline, its config, and its trials with provenance.
std::string trials_section(const ReportInput& input);

/// One plot for each metric of input.curves that some shown row has.
std::vector<CurvePlot> curve_plots(const ReportInput& input);

/// "79.1 ±0.3", or only the value if there is no interval.
inline std::string with_interval(const Figure& value, const Figure& half_width) {
  return half_width.text.empty() ? value.text : value.text + " ±" + half_width.text;
}

/// <tag class="name">escaped text</tag>
std::string html_element(std::string_view tag, std::string_view text, std::string_view name = "");

}  // namespace normlab
