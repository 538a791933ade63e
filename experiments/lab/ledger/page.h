// The ledger as text, as a page, as a picture, and as data.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiments/lab/ledger/ledger.h"

namespace normlab {

/// A summary and a table per publication, within `width` columns; with `details` also what is known about each claim.
std::string ledger_text(const std::vector<LedgerLine>& lines, std::size_t width, bool details);
/// A summary, a table of at most 100 columns per publication, and a section per claim.
std::string ledger_markdown(const std::vector<LedgerLine>& lines);
/// The same on one page, with a forest plot on top and a table that can be sorted and filtered.
std::string ledger_html(const std::vector<LedgerLine>& lines);
/// For each judged claim the estimate that decides it, as the distance from the bound of its range: positive where the
/// claim holds, in units of the test's margin, or without one of the interval's half width. SVG, coloured by verdict.
/// As part of a page it has a wide and a narrow form; `standalone` gives a file.
std::string forest_plot(const std::vector<LedgerLine>& lines, bool standalone);
/// All estimates with all digits.
nlohmann::ordered_json ledger_json(const std::vector<LedgerLine>& lines);

}  // namespace normlab
