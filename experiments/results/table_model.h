// Everything that a table says, as data. It is made once (table_model(), or sweep_table_model() for a descriptor) and
// then only laid out (table.h), so a number has the same digits wherever it is printed.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/words.h"
#include "experiments/statistics/correctness.h"

namespace normlab {

/// Of losses. A gain in such a metric is how far a row lies below its baseline, so that a gain above zero is an
/// improvement in every table.
inline bool lower_is_better(std::string_view metric) { return metric.ends_with("loss"); }

/// What a table is asked for. The names are those of the command line.
enum class TableSelect : std::uint8_t { last, best_minival, mean_last_k };
enum class TableFamily : std::uint8_t { strip, table };
enum class TableDiverged : std::uint8_t { exclude, chance };
enum class TableCellContent : std::uint8_t { mean, gain };

struct TableOptions {
  std::string metric = "eval/accuracy";
  TableSelect select = TableSelect::last;
  std::size_t last_k = 5;                           // evaluations that mean_last_k takes
  std::vector<std::string> rows, cols;              // axes; not both empty: a value of `cols` is a column of its own
  TableCellContent cells = TableCellContent::mean;  // what stands in such a column
  std::string where;                                // table_filter.h; "": every row
  std::string sort;                         // a column or an axis, "-" before it for descending; "": the plan's order
  TableFamily family = TableFamily::strip;  // rows for which intervals hold together
  TableDiverged diverged = TableDiverged::exclude;  // chance: a diverged run counts as one that guesses
  std::optional<double> detect;                     // a gain, in the table's unit, whose number of seeds is asked for
  std::optional<double> equivalent;                 // a margin, in the table's unit, for two one-sided tests
  bool p_values = true;                             // a tenth of a millisecond a row, for formats that show them
  bool bootstrap = false;                           // intervals over seeds and test images
};

enum class SeedState : std::uint8_t { missing, stopped, running, failed, unreadable, diverged, done };

/// One trial of a row.
struct TableSeed {
  std::uint64_t seed = 0;
  std::string trial;  // its id
  SeedState state = SeedState::missing;
  std::optional<double> value;  // the metric as stored, without the table's scale; of a run that counts
  std::optional<double>
      gain;             // over the same seed of the baseline, in the table's unit, above 0 where the row is better
  double progress = 0;  // 0 to 1, of a running trial or one that was stopped
  std::string message;  // why it failed or cannot be read
  ExitCode fault = ExitCode::done;  // of one that cannot be read: the file's, or the machine's
  std::int64_t diverged_step = 0;
  std::string diverged_site;  // "" where it is not known
  std::optional<std::int64_t> early_stopped_step;
  std::string early_stop_rule;  // in words
  std::size_t bad_images = 0;   // that could not be decoded and were left out
  std::string environment;      // device, version and the like, as words
  std::string arithmetic;       // the order of additions (kArithmetic); "" where none is recorded
  std::string program;          // what equal bits are promised for, its parts apart by " | "; "" where it is not known
  bool sealed = true;           // false: of a version whose results carry no hashes
};

/// A row before any number is taken from it.
struct TableRow {
  std::string label;
  std::vector<std::string> axes;        // values at TableInput::axes, for people; "" where the row has none
  std::optional<std::size_t> baseline;  // index of the row its gain is taken over; itself for a baseline
  std::vector<TableSeed> seeds;         // one a planned seed, in the plan's order
  std::optional<double> chance;         // the metric of a run that guesses, as stored; none where nobody can say
  std::vector<std::string> remarks;     // more notes: "lr=0.001, tuned"
};

/// Which images done runs get right, for --bootstrap and McNemar's test: by row, then by place in TableRow::seeds.
using TableCorrectness = std::vector<std::vector<std::optional<Correctness>>>;

struct TableInput {
  std::string about, name;        // name: of the experiment's file, without folder and ending
  std::vector<std::string> axes;  // paths
  std::string unit = "%";         // "": none
  double scale = 100;             // what a stored value is multiplied by to be in this unit
  std::vector<TableRow> rows;
  std::vector<std::string> remarks;     // sentences for the footer: tuned and fixed settings, stages of seeds
  std::set<std::uint64_t> first_stage;  // seeds of the first of two stages; empty: one stage
  TableCorrectness correctness;         // empty unless asked for
};

/// A number in the table's unit and its digits; both empty where there is none.
struct Figure {
  std::optional<double> value;  // in full
  std::string text;             // "79.1", "+0.4"
};

/// A row with its numbers.
struct TableLine : TableRow {
  std::size_t plan_index = 0;  // of the row in the plan; lines may be sorted and filtered
  std::size_t strip = 0;       // index into TableModel::strips
  bool is_baseline = false;
  Figure mean, half_width;  // Student-t interval of the mean at 95%
  std::size_t n = 0;        // seeds that count
  std::string count;        // "5", or "2/3" where fewer count than were planned
  Figure gain, gain_half_width;
  Figure gain_low, gain_high;      // gain -+ half width, unless `cut`
  bool cut = false;                // Holm's steps reject though gain -+ half width holds zero: the interval ends there
  std::size_t pairs = 0;           // seeds that row and baseline share
  std::string procedure = "none";  // "simultaneous" or "paired t, Holm": where the interval and its mark come from
  Figure p;                        // adjusted for the family
  bool differs = false;            // the gain's interval leaves out zero: marked with "*"
  bool partial = false;  // runs of the row or its baseline diverged, the gain is over the others: marked with "†"
  /// --equivalent: whether the gain is shown to lie within the margin, and the p of the two tests.
  std::optional<bool> equivalent;
  Figure equivalent_p;
  /// --bootstrap: half width over seeds and test images, of the gain, or of the mean where there is none.
  Figure bootstrap_half_width;
  std::vector<std::string> notes;  // "2/3 diverged @1200", "1/3 running 43%"
};

/// Rows that are compared with one baseline.
struct TableStrip {
  std::string label;                                   // what its rows share: "variant=Ti/4"; "" for the only one
  std::optional<std::size_t> baseline;                 // plan index
  std::vector<std::size_t> rows;                       // plan indices, without the baseline
  std::size_t detectable_seeds = 0;                    // of the row that has most pairs
  Figure best_by_chance;                               // expected best gain if no row differed from the baseline
  Figure detectable, detectable_low, detectable_high;  // smallest gain seen four times in five; by the sd's interval
};

/// Part of a cell's text: "79.1" "0.3" "(5)" -> "79.1 ±0.3 (5)".
struct TableCell {
  std::string value, half_width, tail;
  std::optional<double> sort;             // the full number behind it; none for words
  std::optional<double> half_width_full;  // and behind its half width
  std::string text() const;
};

/// The gain as every table and picture prints it: "+0.4 ±1.3 *", "-1.0 [-2.0, -0.1] *", "baseline"; empty without one.
TableCell gain_cell(const TableLine& line);

enum class ColumnKind : std::uint8_t { label, number, words };

struct TableColumn {
  std::string key;      // "model.placement", "mean", "gain", "notes", "col:2"
  std::string heading;  // "placement", "eval/accuracy [%]"
  ColumnKind kind = ColumnKind::number;
};

/// The table as it is laid out: a cell a column.
struct TableGridRow {
  std::vector<TableCell> cells;
  std::vector<std::size_t> lines;  // of TableModel::lines: one, or several where axes stand in columns
  bool is_baseline = false;
};

/// One statement below the table; `key` names what it is about ("interval", "selection", "gain", "chance", ...).
struct TableSentence {
  std::string key, text;
};

struct TableModel {
  std::string about, name, metric, unit;
  double scale = 100;
  std::vector<std::string> axes;  // paths of those that differ between rows
  std::vector<TableLine> lines;   // that are shown, in the order they are shown
  std::vector<TableStrip> strips;
  std::vector<TableColumn> columns;
  std::vector<TableGridRow> grid;
  std::vector<TableSentence> footer;
  std::vector<std::string> problems;  // results that cannot be read, one a line, for standard error
  ExitCode outcome = ExitCode::done;  // what a command that shows the table ends with: the gravest fault
  /// "eval/accuracy [%]", "eval/loss (lower is better)"
  std::string metric_heading() const {
    return metric + (unit.empty() ? "" : " [" + unit + "]") + (lower_is_better(metric) ? " (lower is better)" : "");
  }
};

/// InputError for a filter, a sort key or an axis that is wrong, with what was meant.
TableModel table_model(const TableInput& input, const TableOptions& options);

/// Digits after the point at which a half width shows its first digit, or two where that is a 1: 0.41 -> 1, 0.14 -> 2.
int decimals_for(double half_width);

}  // namespace normlab
