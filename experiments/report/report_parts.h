// Parts of the page; report.cpp puts them together.
#pragma once

#include <string>
#include <string_view>

#include "experiments/report/report.h"

namespace normlab {

/// Rules of the page without those of the pictures.
std::string_view page_style();

/// Sorts and filters the table, opens and closes the trials. Everything can be read without it.
std::string_view page_script();

/// The pictures of gains, each with its numbers as a table.
std::string gains_section(const ReportInput& input);

/// A group of panels a metric, each with its numbers as a table.
std::string curves_section(const ReportInput& input);

/// A row each: its differences to the baseline, its config, its trials with provenance.
std::string trials_section(const ReportInput& input);

/// One for each metric of input.curves that some shown row has.
std::vector<CurvePlot> curve_plots(const ReportInput& input);

/// "79.1 ±0.3", or the value alone where it has no interval.
inline std::string with_interval(const Figure& value, const Figure& half_width) {
  return half_width.text.empty() ? value.text : value.text + " ±" + half_width.text;
}

/// <tag class="name">escaped text</tag>
std::string html_element(std::string_view tag, std::string_view text, std::string_view name = "");

/// Values as compact JSON; "" where that side has no such setting.
struct SettingDifference {
  std::string path;  // "model.placement.stem.patch_in"
  std::string base, other;
};

/// In the order of the field tables, seeds aside.
std::vector<SettingDifference> config_differences(const TrialConfig& base, const TrialConfig& other);

}  // namespace normlab
