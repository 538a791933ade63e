// The result table: a row a setting, its mean over seeds and its gain over the baseline, with the intervals that this
// many seeds allow, and in words what the numbers mean. All formats show the same digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/results/store.h"

namespace normlab {

enum class TableFormat : std::uint8_t { text, markdown, csv, json };

/// "text", "markdown", ...; none for another word.
std::optional<TableFormat> table_format(std::string_view name);

/// One trial of a row.
struct TableCellInput {
  std::uint64_t seed = 0;
  TrialState state = TrialState::missing;
  std::optional<double> value;     // the metric, of a done trial
  double progress = 0;             // 0 to 1, of a running trial or one that was stopped
  std::string message;             // why it failed
  std::int64_t diverged_step = 0;  // of a diverged trial
  std::string environment;         // device, version and the like, as words; equal words are equal environments
};

struct TableRow {
  std::string label;
  bool is_baseline = false;
  std::optional<std::size_t> baseline_row;  // index of the row its gain is taken over
  std::vector<TableCellInput> cells;        // one a planned seed
};

struct TableSpec {
  std::string about;
  std::string metric = "eval/accuracy";
  std::string unit = "%";  // "": none
  double scale = 100;      // what a value is multiplied by to be in this unit
  std::vector<TableRow> rows;
};

/// Text fits 80 columns. CSV has the rows alone; JSON also has the value of each seed in full, without the scale.
std::string render_table(const TableSpec& spec, TableFormat format);

}  // namespace normlab
