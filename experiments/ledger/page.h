// The ledger as text, as a page, and as data.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiments/ledger/ledger.h"

namespace normlab {

/// A few lines per claim, within `width` columns.
std::string ledger_text(const std::vector<LedgerLine>& lines, std::size_t width);
/// A table, and the notes below it. Markdown and HTML hold the same.
std::string ledger_markdown(const std::vector<LedgerLine>& lines);
std::string ledger_html(const std::vector<LedgerLine>& lines);
/// All estimates with all digits.
nlohmann::ordered_json ledger_json(const std::vector<LedgerLine>& lines);

/// "-3.2 [-4.0, -2.5] points"; "-" for an estimate without an interval.
std::string estimate_text(const Estimate& estimate);

/// The estimate that decides a line, of those with its verdict: the one nearest to a bound, relative to its interval,
/// or where one suffices the furthest; for "undecided" the one that needs most seeds. Null if there is none.
const Estimate* deciding(const LedgerLine& line);

}  // namespace normlab
