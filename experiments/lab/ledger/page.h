// The ledger as text, as a page, as a picture, and as data; and a judged claim in words.
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

/// The text that a claim is from: its source up to the first comma or semicolon.
std::string text_of(const TestedClaim& claim);

/// The printed figures: "-0.4, -1.1", of more than two "-1.1 to -0.4"; or the words in their place.
std::string printed_text(const TestedClaim& claim);

/// "23", or "23 on NVIDIA H200".
std::string number_text(const LedgerLine& line);

/// "-3.2 [-4.0, -2.5] points"; "-" for an estimate without an interval.
std::string estimate_text(const Estimate& estimate);
/// An interval may be a single value, such as the difference of two best rates.
inline bool has_interval(const Estimate& e) { return e.high > e.low || e.verdict < Verdict::undecided; }

/// What the results say: the deciding estimate, or why there is none.
std::string finding(const LedgerLine& line);

/// "undecided: about 34 seeds would decide it".
std::string verdict_text(const LedgerLine& line);

/// "3 of 5 runs in a.jsonl, trained on NVIDIA H200."
std::string runs_text(const RunOrigins& origins, std::string_view one);

/// Columns as wide as their widest cell; column `cut` is cut where a line would be wider than `width`.
std::string text_table(const std::vector<std::vector<std::string>>& rows, std::size_t width, std::size_t cut);

/// The widest table, and the widest line of Markdown.
inline constexpr std::size_t kWidestTable = 100, kWidestMarkdown = 120;

/// A sentence of a test: "Each gain of placement = dpn is at least 0 points."
std::string test_sentence(const ClaimTest& test);

/// "at this length only", with the verdicts of several lengths; "" for claims that train nothing or are not judged.
std::string where_it_ends(const LedgerLine& line);

/// A heading and what it says, for each thing that is known about a claim, but for its estimates.
std::vector<std::pair<std::string, std::string>> claim_facts(const LedgerLine& line);

/// The estimate that decides a line, of those with its verdict. Where one suffices for the verdict, the clearest: the
/// furthest from a bound, relative to its interval, or of undecided ones that which needs fewest seeds. Where all are
/// needed, the least clear. Null if there is none.
const Estimate* deciding(const LedgerLine& line);

}  // namespace normlab
