// A descriptor's "claim": a statement of a publication, and the tests of this experiment's results that decide it.
// Not part of a trial or its id. docs/claims.md prints the verdicts; experiments/lab/ledger computes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/field.h"
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
constexpr auto stated_words(ClaimTestKind) {
  return words<ClaimTestKind>("gain", "interaction", "slope", "contrast", "difference", "probe", "trend", "diverged",
                              "best", "timing");
}

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
  std::string of, over;                    // names: metrics, probes ("grad_norm/blocks.*") or, for `over`, an axis
  std::string against_of;                  // probe: the measurement in the row of `against`; "": `of`
  std::optional<std::size_t> first, last;  // probe: only so many of the measured steps; none: all
  bool any = false;                        // one row suffices; otherwise all must agree
  bool chance = false;                     // diverged runs count with the accuracy of guessing
  ClaimRange range;
  /// The largest change of a gain between two lengths of training, one twice the other, that counts as none.
  std::optional<double> margin;
  std::string place;  // "file:line:column: /claim/tests/0"
};

template <ClaimTestKind... kinds>
inline constexpr When<ClaimTest> kOfTest{[](const ClaimTest& test) { return ((test.kind == kinds) || ...); },
                                         "a test of kind \"{kind}\" does not read this key"};
template <std::same_as<ClaimTest> T>
constexpr auto rows_of(const T*) {
  using enum ClaimTestKind;
  constexpr Range kNumber{.low = 1, .high = 999'999, .expected = "a whole number above 0"};
  return Fields{
      field("kind", &T::kind).needed(),
      field("where", &T::where, "", kNotEmpty)
          .when(kOfTest<gain, interaction, slope, contrast, difference, probe, trend, diverged, best>),
      field("against", &T::against, "", kNotEmpty).when(kOfTest<interaction, contrast, best, probe, diverged>),
      field("metric", &T::metric, "", kNotEmpty).when(kOfTest<gain, interaction, slope, contrast, best>),
      field("of", &T::of, "", kNotEmpty).when(kOfTest<difference, probe, trend, timing>),
      field("over", &T::over, "", kNotEmpty).when(kOfTest<slope, difference, best, timing, probe>),
      field("against_of", &T::against_of, "", kNotEmpty).when(kOfTest<probe>),
      field("margin", &T::margin, "", {.expected = "a number above 0"}).when(kOfTest<gain, interaction, contrast>),
      field("first", &T::first, "", kNumber).when(kOfTest<probe, trend>),
      field("last", &T::last, "", kNumber).when(kOfTest<probe, trend>),
      field("any", &T::any).when(kOfTest<gain, contrast, difference, probe, trend, diverged>),
      field("chance", &T::chance).when(kOfTest<gain>)};
}

/// Figures as the publication prints them.
enum class PrintedAs : std::uint8_t { value, difference, ratio };
constexpr auto stated_words(PrintedAs) { return words<PrintedAs>("value", "difference", "ratio"); }
struct PrintedFigures {
  std::string words{};  // such as "figure"; "" if there are values
  PrintedAs as = PrintedAs::value;
  std::string unit, where;                             // "points"; "Table 6"
  std::vector<std::pair<std::string, double>> values;  // a name such as "B/32", and what its cells amount to
  int decimals = 0;                                    // those of the cells; of a ratio two
};
template <std::same_as<PrintedFigures> T>
constexpr auto rows_of(const T*) {
  return Fields{field("as", &T::as).needed(), field("unit", &T::unit, "", {.expected = "a non-empty string"}),
                field("where", &T::where, "", kNotEmpty).needed()};
}

/// twin: a small version is trained here. timing: measured here. paper: only the published size can decide it.
enum class ClaimScale : std::uint8_t { twin, timing, paper };
constexpr auto stated_words(ClaimScale) { return words<ClaimScale>("twin", "timing", "paper"); }

struct TestedClaim {
  std::string source, says;  // publication and place; its words
  std::string brief;         // the statement in at most eight words; `says` if the descriptor has none
  bool paraphrase = false;   // `says` is not a quotation
  PrintedFigures printed;
  std::string reading;     // which meaning of the words is tested, and why
  std::string scale_note;  // why a small version may decide otherwise; "" if it cannot
  ClaimScale scale = ClaimScale::twin;
  std::vector<ClaimTest> tests;    // all must agree; empty only at the paper's scale
  std::vector<std::string> bench;  // timing: arguments of `bench`, "norms --table dyt"; several run in turns
  std::size_t repeat = 9;          // timing: how often they run
  bool empty() const { return source.empty(); }
};

template <std::same_as<TestedClaim> T>
constexpr auto rows_of(const T*) {
  return Fields{field("source", &T::source, "", kNotEmpty).needed(),
                field("short", &T::brief, "", kNotEmpty),
                field("says", &T::says, "", kNotEmpty).needed(),
                field("paraphrase", &T::paraphrase),
                field("printed", &T::printed),
                field("reading", &T::reading, "", kNotEmpty),
                field("scale", &T::scale).needed(),
                field("scale_note", &T::scale_note, "", kNotEmpty),
                field("bench", &T::bench, "",
                      {.low = 1, .expected = "a list of one string or more, each the arguments of a `bench`"}),
                field("repeat", &T::repeat, "", {.low = 2, .high = 1000, .expected = "a whole number from 2 to 1000"}),
                field("tests", &T::tests, "", kNotEmpty)};
}

// --- "paper": the publication that a descriptor reproduces, and known differences

/// Any JSON value, as value_text writes it.
struct JsonText : std::string {};

struct Deviation {
  std::string key;  // "train.precision"
  JsonText paper, here;
  std::string why;
  std::string where;  // "file:line:column: /paper/deviations/0"
};
template <std::same_as<Deviation> T>
constexpr auto rows_of(const T*) {
  return Fields{field("key", &T::key, "", kNotEmpty).needed(), field("paper", &T::paper).needed(),
                field("here", &T::here).needed(), field("why", &T::why, "", kNotEmpty).needed()};
}

struct PaperConfig {
  std::string source;  // publication, section or table; origin of settings from elsewhere
  std::vector<Deviation> deviations;
  bool empty() const { return source.empty(); }
};

template <std::same_as<PaperConfig> T>
constexpr auto rows_of(const T*) {
  return Fields{field("source", &T::source, "", kNotEmpty).needed(), field("deviations", &T::deviations)};
}

/// True for the dotted path of a trial's setting, or of an object of settings: "train.optimizer.lr", "model.placement".
bool is_setting(std::string_view path);

}  // namespace normlab
