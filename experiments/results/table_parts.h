// Parts of table_model(): the words about rows, the sentences below them, the test set's noise, columns and cells.
#pragma once

#include "experiments/results/table_model.h"
#include "experiments/statistics/many_to_one.h"

namespace normlab {

/// "2/3 diverged @1200 (12 to 95% diverge)", "1/3 running 43%", "failed: message", "missing".
std::vector<std::string> state_notes(const std::vector<TableSeed>& seeds, const std::string& metric);

/// Where some runs were made, and by which program.
struct TableEnvironment {
  std::string environment, program;  // of TableSeed
  std::string words;                 // environment, and where several programs share it what tells this one apart
};

/// Those of all finished seeds, in the order of the rows.
std::vector<TableEnvironment> environments_of(const std::vector<TableRow>& rows);

/// "env 1+2": those of a row, by their place in `environments`, counted from 1. "" for none.
std::string environment_note(const TableRow& row, const std::vector<TableEnvironment>& environments);

/// "stopped early @400..700": of the finished seeds whose rule ended them; "" for none.
std::string early_stop_note(const std::vector<TableSeed>& seeds);

/// How far gains would move with other test images: the crossed bootstrap over seeds and images, McNemar's test for a
/// table that is one pair of runs.
struct TableTestSet {
  std::vector<std::optional<double>> half_widths;  // by row, as shares: of the gain, or of the mean without a baseline
  std::vector<std::string> sentences;              // for the footer
};

/// `lines`: the whole plan, in its order. Runs without stored correctness are left out and counted in a sentence.
/// InputError where runs were evaluated on different images.
TableTestSet table_test_set(const TableInput& input, const std::vector<TableLine>& lines);

/// What the footer is written from; all rows of the plan, also those that a filter hides.
struct FooterFacts {
  const TableInput& input;
  const TableOptions& options;
  const std::vector<TableLine>& lines;  // of the whole plan
  const std::vector<TableStrip>& strips;
  const std::vector<ManyToOne>& comparisons;  // one a strip
  std::vector<TableEnvironment> environments;
  std::optional<double> correlation;  // of the values of one seed, pooled over rows
  Figure best_of_table;               // best gain by chance over all strips; for --family table
  std::size_t shown = 0;              // lines that are left by --where
};

std::vector<TableSentence> table_footer(const FooterFacts& facts);

/// "0.0123", "<0.0001".
std::string p_text(double p);
/// "0.3", "-0.3" without "-0.0"; "nan" and "inf" as such.
std::string fixed(double value, int decimals);
/// The same with a sign.
std::string signed_fixed(double value, int decimals);

/// Keeps of each line's axes those that differ between the lines, and fills columns, grid and, where axes stand in
/// columns, the notes in the footer. `axes` are the paths that the lines' axes stand for. InputError for an axis of
/// --rows or --cols that is not there.
void lay_out_table(TableModel& model, const std::vector<std::string>& axes, const TableOptions& options);

}  // namespace normlab
