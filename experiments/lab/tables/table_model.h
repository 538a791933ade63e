// The contents of a table as data. The model is built once (table_model(), or sweep_table_model() for a descriptor) and
// only laid out afterwards (table.h), so a number has the same digits wherever it is printed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/words.h"
#include "experiments/lab/descriptor/metric_names.h"
#include "experiments/lab/metrics/correctness.h"

namespace normlab {

/// The metric of tables that --lr-sensitivity makes (lr_sensitivity.h).
inline constexpr std::string_view kLrSensitivity = "lr sensitivity";

/// True for losses and their sensitivity. A gain in such a metric is how far a row lies below its baseline, so a
/// positive gain is always an improvement.
inline bool lower_is_better(std::string_view metric) { return is_loss(metric) || metric == kLrSensitivity; }

/// Options of a table, named as on the command line.
enum class TableSelect : std::uint8_t { last, best_minival, mean_last_k };
constexpr auto stated_words(TableSelect) { return words<TableSelect>("last", "best_minival", "mean_last_k"); }
enum class TableFamily : std::uint8_t { strip, table };
constexpr auto stated_words(TableFamily) { return words<TableFamily>("strip", "table"); }
enum class TableDiverged : std::uint8_t { exclude, chance };
constexpr auto stated_words(TableDiverged) { return words<TableDiverged>("exclude", "chance"); }
enum class TableCellContent : std::uint8_t { mean, gain };
constexpr auto stated_words(TableCellContent) { return words<TableCellContent>("mean", "gain"); }
/// The unit of --to-match.
enum class TableMatch : std::uint8_t { off, epochs, steps };
constexpr auto stated_words(TableMatch) { return words<TableMatch>("off", "epochs", "steps"); }
enum class TableSd : std::uint8_t { none, beside, instead };
constexpr auto stated_words(TableSd) { return words<TableSd>("none", "beside", "instead"); }
enum class TablePairs : std::uint8_t { none, all };
constexpr auto stated_words(TablePairs) { return words<TablePairs>("none", "all"); }
enum class TableBold : std::uint8_t { none, best };
constexpr auto stated_words(TableBold) { return words<TableBold>("none", "best"); }

struct TableOptions {
  std::string metric = "eval/accuracy";
  TableSelect select = TableSelect::last;
  std::size_t last_k = 5;                           // number of evaluations for mean_last_k
  std::vector<std::string> rows, cols;              // axes, not both empty; each value of the `cols` axes is a column
  TableCellContent cells = TableCellContent::mean;  // contents of such columns
  std::string where;                                // table_filter.h; "": every row
  std::string sort;                                 // a column or an axis, "-gain" descending; "": the plan's order
  TableFamily family = TableFamily::strip;          // the rows over which intervals hold simultaneously
  TableDiverged diverged = TableDiverged::exclude;  // chance: a diverged run counts with the accuracy of guessing
  std::optional<double> detect;                     // a gain in the table's unit: how many seeds does it need?
  std::optional<double> equivalent;                 // a margin, in the table's unit, for two one-sided tests
  double level = 0.95;                              // of the gains' intervals
  std::string order;                                // an axis: does the order of its rows agree between strips?
  bool bootstrap = false;                           // intervals over seeds and test images
  bool lr_sensitivity = false;                      // the table of lr_sensitivity.h
  TableMatch to_match = TableMatch::off;            // when the baseline is as good as a row (to_match.h)
  std::vector<std::string> columns;                 // row_columns.h
  TableSd sd = TableSd::none;                       // beside the interval of a mean, or instead of it
  bool effect_size = false;                         // paired_effect_size() of each row
  TablePairs pairs = TablePairs::none;              // all: a table of all pairs of rows, or with `letters` of rows
  bool letters = false;                             // letter_groups() of all pairs, as a column
  TableBold bold = TableBold::none;                 // best: the best mean of the rows that are compared
  std::optional<double> learned;  // the largest final training loss, as a share of that at the start, of a row that
                                  // learned
};

enum class SeedState : std::uint8_t { missing, stopped, running, failed, unreadable, diverged, done };
constexpr auto stated_words(SeedState) {
  return words<SeedState>("missing", "stopped", "running", "failed", "unreadable", "diverged", "done");
}

struct TableSeed {
  std::uint64_t seed = 0;
  std::string trial;  // its id
  SeedState state = SeedState::missing;
  std::optional<double> value;  // the metric as stored, without the table's scale, for a run that counts
  std::optional<double> gain;  // over the same seed of the baseline, in the table's unit; positive if the row is better
  std::optional<double> first_loss, final_loss;  // training loss of the first step, and of a done run at its end
  double progress = 0;                           // 0 to 1, of a running or stopped trial
  std::string message;                           // why it failed or cannot be read
  ExitCode fault = ExitCode::done;               // of an unreadable trial: whether the file or the machine is at fault
  std::int64_t diverged_step = 0;
  std::string diverged_site;  // "" if not known
  std::optional<std::int64_t> early_stopped_step;
  std::string early_stop_rule;  // in words
  std::int64_t images = 0;      // of the slice that the metric is of; 0: not known
  std::optional<double> guess;  // the metric of the same answer to every image, as stored
  bool above_guessing = false;  // the last eval/loss is above that of the best constant answer
  std::size_t bad_images = 0;   // images left out because they could not be decoded
  std::string jpeg_copy;        // jpeg_copy_of()
  std::string environment;      // device, version and similar, as text
  std::string arithmetic;       // the order of additions (kArithmetic); "" if not recorded
  std::string program;          // the conditions under which bits are reproducible, joined by " | "; "" if not known
  bool sealed = true;           // false: written by a version whose results carry no hashes
  double loss_smoothing = 0;    // smoothing_in_losses()
  bool last_steps = true;       // averages_last_steps()
  std::optional<Correctness> correctness{};  // --bootstrap: of a done run that has stored it
  // Of a done run; 0, and "": not recorded.
  double wall_seconds = 0, images_per_second = 0, peak_mb = 0;
  std::string machine;  // what its times depend on: processor, GPU and threads
};

/// A number in the table's unit and its text; both empty if there is none.
struct Figure {
  std::optional<double> value;  // with all digits
  std::string text;             // "79.1", "+0.4"
};

/// One rate of a row over which --lr-sensitivity is taken.
struct TableRate {
  std::string label;  // "0.003"
  double rate = 0;    // 0: none, in a row that has no rate
  struct Run {
    std::uint64_t seed = 0;
    double loss = 0;  // as counted_loss()
    bool diverged = false;
  };
  std::vector<Run> runs;  // those with a result and a loss
};

/// What the runs of a row reach at the best of its rates, in the unit of their metric.
struct BestRate {
  Figure mean, half_width;
  std::size_t n = 0;  // seeds that count
  std::string count;  // as in TableLine
  std::string rate;   // label; "" if no rate has a mean
};

/// When the baseline is as good as a row, in the unit of --to-match.
struct BaselineMatch {
  Figure mean, half_width;             // none unless every pair gets there
  std::size_t reached = 0, pairs = 0;  // seeds of the baseline that get there, of those that both have
};

/// A row before statistics are computed.
struct TableRow {
  std::string label;
  std::vector<std::string> axes;        // values of TableInput::axes, for display; "" if the row has none
  std::optional<std::size_t> baseline;  // index of the row that the gain refers to; the row's own index for a baseline
  std::vector<TableSeed> seeds;         // one per planned seed, in the plan's order
  bool apart = false;                   // Cell::apart
  std::optional<double> chance;         // the metric of a run that guesses, as stored; none if not known
  std::vector<std::string> remarks;     // additional notes: "lr=0.001, tuned"
  std::vector<std::size_t> mean_of{};   // rows whose seeds are averaged here (table_groups.h)
  std::vector<TableRate> rates{};       // ascending, whose runs are summed up here (lr_sensitivity.h)
  BestRate best{};                      // of `rates`
  BaselineMatch match{};                // with TableInput::match_heading
  std::string external{};               // label of numbers that were not trained here (external_rows.h); "": ours
  std::optional<std::size_t> same_named{};  // our row that an external one is compared with
  std::string experiment{}, name{};         // of a table of folders: the plan, and its name for the row; "" if in none
  std::optional<std::int64_t> params{}, macs{};  // of the row's network; none if its runs have different ones
  /// The run of a seed; null if there is none.
  const TableSeed* run_of(std::uint64_t seed) const {
    const auto is = [&](const TableSeed& run) { return run.seed == seed; };
    const auto found = std::find_if(seeds.begin(), seeds.end(), is);
    return found == seeds.end() ? nullptr : &*found;
  }
  /// False for a row whose seeds stand for runs of others.
  bool has_runs() const { return mean_of.empty() && rates.empty() && external.empty(); }
  /// Whether it is a row of the descriptor.
  bool is_planned() const { return mean_of.empty() && external.empty(); }
};

struct TableInput {
  std::string about, name;        // name: the experiment's file name without folder and extension
  std::vector<std::string> axes;  // paths
  std::string unit = "%";         // "": none
  double scale = 100;             // factor from stored values to this unit
  std::vector<TableRow> rows;
  std::vector<std::string> remarks;             // sentences for the footer: tuned and fixed settings, stages of seeds
  std::set<std::uint64_t> first_stage;          // seeds of the first of two stages; empty: one stage
  std::string definition;                       // a sentence on values that are not those of an evaluation
  std::string best_heading;                     // of a column with TableRow::best; "": none
  std::string match_heading{};                  // of a column with TableRow::match; "": none
  std::map<std::string, std::string> labels{};  // Experiment::labels
};

/// TableLine::procedure.
inline constexpr std::string_view kSharedNoise = "moderated t, Holm", kOwnNoise = "paired t, Holm";

struct TableLine : TableRow {
  std::size_t plan_index = 0;  // index of the row in the plan; lines may be sorted and filtered
  std::size_t strip = 0;       // index into TableModel::strips
  bool is_baseline = false;
  Figure mean, half_width;  // Student-t interval of the mean at 95%
  std::size_t n = 0;        // seeds that count
  std::string count;        // "5", or "2/3" if fewer seeds count than were planned
  Figure gain, gain_half_width;
  Figure gain_low, gain_high;      // gain -+ half width, unless `cut`
  bool cut = false;                // Holm's procedure rejects although the interval contains zero: it ends there
  std::size_t pairs = 0;           // seeds that row and baseline share
  std::string procedure = "none";  // source of interval and mark: kSharedNoise or kOwnNoise
  Figure p;                        // adjusted for the family
  bool differs = false;            // the gain's interval excludes zero; marked with "*"
  bool partial = false;  // the row or its baseline has diverged runs, and the gain is over the others; marked with "†"
  /// --equivalent: whether the gain lies within the margin, and the p value of the two tests.
  std::optional<bool> equivalent;
  Figure equivalent_p;
  /// --bootstrap: half width over seeds and test images, of the gain or, without a gain, of the mean.
  Figure bootstrap_half_width;
  Figure sd;           // --sd: of the values, over n - 1
  Figure effect_size;  // --effect-size
  std::string letters;
  bool is_best = false;            // --bold best
  std::vector<Figure> measured;    // of TableModel::row_columns
  std::vector<std::string> notes;  // "2/3 diverged @1200", "1/3 running 43%"
};

/// --pairs all: `row` minus `other`, or how much better it is if lower is better; plan indices.
struct TablePair {
  std::size_t row = 0, other = 0, pairs = 0;
  Figure difference, half_width, low, high, p;
  bool cut = false, differs = false;  // as in TableLine
};

/// Rows that are compared with one baseline.
struct TableStrip {
  std::string label;                                   // what its rows share: "variant=Ti/4"; "" for the only strip
  std::optional<std::size_t> baseline;                 // plan index
  std::vector<std::size_t> rows;                       // plan indices, without the baseline
  std::size_t detectable_seeds = 0;                    // of the row with most pairs
  Figure best_by_chance;                               // expected best gain if no row differs from the baseline
  Figure detectable, detectable_low, detectable_high;  // smallest gain found four times in five; range by the sd's
};

/// Part of a cell's text: "79.1" "0.3" "(5)" -> "79.1 ±0.3 (5)".
struct TableCell {
  std::string value, half_width, tail;
  std::optional<double> sort;             // with all digits; none for words
  std::optional<double> half_width_full;  // half width with all digits
  bool bold = false;                      // the value
  bool absent = false, diverged = false;  // no mean; as all runs that ended diverged
  std::string note{};                     // the line's notes
  std::string text() const;
};

/// A value with its interval, which is in the tail where it is `cut`: "+0.4 ±1.3 *", "-1.0 [-2.0, -0.1] *".
TableCell interval_cell(const Figure& value, const Figure& half_width, const Figure& low, const Figure& high, bool cut,
                        const std::string& marks);
/// The gain as all tables and pictures print it: "+0.4 ±1.3 *", "-1.0 [-2.0, -0.1] *", "baseline", or empty.
TableCell gain_cell(const TableLine& line);

enum class ColumnKind : std::uint8_t { label, number, words };

struct TableColumn {
  std::string key;      // "model.placement", "mean", "gain", "notes", "col:2"
  std::string heading;  // "placement", "eval/accuracy [%]"
  ColumnKind kind = ColumnKind::number;
  std::string half_width = "half_width";  // what the ± of its cells is, in CSV
};

/// A row of the table layout, with one cell per column.
struct TableGridRow {
  std::vector<TableCell> cells;
  std::vector<std::size_t> lines;  // indices into TableModel::lines; several if axes are columns
  bool is_baseline = false;
};

/// One statement below the table; `key` names its subject ("interval", "selection", "gain", "chance", ...).
struct TableSentence {
  std::string key, text;
};

struct TableModel {
  std::string about, name, metric, unit;
  std::string best_heading, match_heading;  // as in TableInput
  std::map<std::string, std::string> labels;
  double scale = 100;
  std::vector<std::string> axes;  // paths of those that differ between rows
  std::vector<TableLine> lines;   // those shown, in display order
  std::vector<TableStrip> strips;
  std::vector<TablePair> pairs;          // of the shown lines
  std::vector<std::string> row_columns;  // keys of --columns
  std::vector<TableColumn> columns;
  std::vector<TableGridRow> grid;
  std::vector<TableSentence> footer;
  std::vector<std::string> problems;  // results that cannot be read, one per line, for standard error
  ExitCode outcome = ExitCode::done;  // exit code of a command that shows the table: the most serious fault
  /// The label of the metric, or its name.
  const std::string& shown_metric() const {
    const auto found = labels.find(metric);
    return found == labels.end() ? metric : found->second;
  }
  /// "eval/accuracy [%]", "eval/loss (lower is better)", "lr sensitivity"
  std::string metric_heading() const {
    return metric + (unit.empty() ? "" : " [" + unit + "]") +
           (lower_is_better(metric) && metric != kLrSensitivity ? " (lower is better)" : "");
  }
};

/// InputError for a wrong filter, sort key or axis, with a suggestion.
TableModel table_model(const TableInput& input, const TableOptions& options);

/// Decimals at which a half width shows one digit, or two if the first is 1: 0.41 -> 1, 0.14 -> 2.
int decimals_for(double half_width);

}  // namespace normlab
