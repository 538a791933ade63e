// A descriptor's "claim": a statement of a publication, and the tests of this experiment's results that decide it.
// Not part of a trial or its id. docs/claims.md prints the verdicts; experiments/lab/ledger computes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/lab/descriptor/problems.h"

namespace normlab {

/// What a test estimates:
/// - gain: each row's gain over its baseline
/// - interaction: the gain of one row minus that of another
/// - slope: the change of the gain per unit of an axis
/// - contrast: a metric of one row minus that of another
/// - difference: one metric of a run minus another
/// - probe: a measurement of the training, or the ratio of two
/// - trend: Spearman's rank correlation of a measurement with the position in the network of what it measures
/// - diverged: the share of diverged runs, or its difference between rows
/// - best: the best value of an axis in one group of rows, minus that in another
/// - timing: the ratio of two times that `bench` measured
enum class ClaimTestKind : std::uint8_t {
  gain,
  interaction,
  slope,
  contrast,
  difference,
  probe,
  trend,
  diverged,
  best,
  timing
};

/// A test agrees with the claim if the whole interval of its estimate lies within the range, and contradicts it if
/// none of it does. `outside` reverses this.
struct ClaimRange {
  std::optional<double> low, high;  // none: unbounded
  bool outside = false;
};

struct ClaimTest {
  ClaimTestKind kind = ClaimTestKind::gain;
  std::string where, against;  // filters of rows, as --where
  std::string metric = "eval/accuracy";
  std::string of, over;                     // names: metrics, probes ("grad_norm/blocks.*") or, for `over`, an axis
  std::string against_of;                   // probe: the measurement in the row of `against`; "": `of`
  std::optional<std::int64_t> first, last;  // probe: only so many of the measured steps; none: all
  bool any = false;                         // one row suffices; otherwise all must agree
  bool chance = false;                      // diverged runs count with the accuracy of guessing
  ClaimRange range;
  /// The largest change of a gain between two lengths of training, one twice the other, that counts as none.
  std::optional<double> margin;
  std::string place;  // "file:line:column: /claim/tests/0"
};

/// Figures as the publication prints them.
enum class PrintedAs : std::uint8_t { value, difference, ratio };
struct PrintedFigures {
  PrintedAs as = PrintedAs::value;
  std::string unit, where;                             // "points"; "Table 6"
  std::vector<std::pair<std::string, double>> values;  // a name such as "B/32", and what its cells amount to
  int decimals = 0;                                    // those of the cells; of a ratio two
};

/// twin: a small version is trained here. timing: measured here. paper: only the published size can decide it.
enum class ClaimScale : std::uint8_t { twin, timing, paper };

struct TestedClaim {
  std::string source, says;  // publication and place; its words
  std::string brief;         // the statement in at most eight words; `says` if the descriptor has none
  bool paraphrase = false;   // `says` is not a quotation
  std::string printed;       // words such as "figure"; "" if there are `figures`
  PrintedFigures figures;
  std::string reading;     // which meaning of the words is tested, and why
  std::string scale_note;  // why a small version may decide otherwise; "" if it cannot
  ClaimScale scale = ClaimScale::twin;
  std::vector<ClaimTest> tests;    // all must agree; empty only at the paper's scale
  std::vector<std::string> bench;  // timing: arguments of `bench`, "norms --table dyt"; several run in turns
  std::size_t repeat = 9;          // timing: how often they run
  bool empty() const { return source.empty(); }
};

/// {"source", "short", "says", "paraphrase", "printed", "reading", "scale", "scale_note", "bench", "repeat", "tests":
/// [{"kind", "where", ...}]}. "printed" is a word or {"as", "unit", "where", "cells": {"B/32": [63.8, 61.2]}}: pairs of
/// a baseline and a value, of which the difference or the ratio is printed, or with "as": "value" single numbers.
/// Reports and omits invalid entries: an unknown or missing key, a key that the test's kind does not read, a range
/// without a bound.
TestedClaim read_claim_block(const JsonNode& node, Problems& problems);

/// A key of a test, and the kinds that need it or may have it.
struct ClaimTestKey {
  std::string_view key;
  std::vector<ClaimTestKind> needed, optional;
};
const std::vector<ClaimTestKey>& claim_test_keys();

}  // namespace normlab
