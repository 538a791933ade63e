// A judged claim in words.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/ledger/ledger.h"

namespace normlab {

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
