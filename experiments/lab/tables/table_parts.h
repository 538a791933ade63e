// Parts of table_model(): notes on rows, footer, noise of the test set, and layout into columns and cells.
#pragma once

#include "experiments/lab/statistics/many_to_one.h"
#include "experiments/lab/tables/table_model.h"

namespace normlab {

inline bool is_finished(const TableSeed& seed) {
  return seed.state == SeedState::done || seed.state == SeedState::diverged;
}

/// The environment in which some runs were made, and their program.
struct TableEnvironment {
  std::string environment, program;  // as in TableSeed
  std::string words;                 // the environment; if several programs share it, also what distinguishes this one
};

/// The environments of all finished seeds, in the order of the rows.
std::vector<TableEnvironment> environments_of(const std::vector<TableRow>& rows);

/// Notes on a row: "2/3 diverged @1200 (12 to 95% diverge)", "1/3 running 43%", "failed: message", "missing", "stopped
/// early @400..700", its remarks, and "env 1+2", its environments by their index in `environments`, counted from 1.
std::vector<std::string> notes_of(const TableLine& line, const TableOptions& options,
                                  const std::vector<TableEnvironment>& environments);

/// Whether the mean training loss at the end is above this share of that at the start, over the done seeds that have
/// both. False if there are none.
bool has_not_learned(const std::vector<TableSeed>& seeds, double share);

/// A sentence for a table that shows the final training losses of done runs, some of which average the last steps and
/// some of which an older version averaged; "" if all are alike.
std::string mixed_train_losses(std::size_t last_steps, std::size_t older);

/// How far gains would move with other test images: the crossed bootstrap over seeds and images, and McNemar's test for
/// a table with a single pair of runs. Sets the lines' bootstrap_half_width and returns sentences for the footer.
/// `lines`: the whole plan, in its order. Runs without stored correctness are left out and counted in a sentence.
/// InputError if runs were evaluated on different images.
std::vector<std::string> judge_test_set(std::vector<TableLine>& lines, double scale);

/// The input of the footer, with all rows of the plan, including those that a filter hides.
struct FooterFacts {
  const TableInput& input;
  const TableOptions& options;
  const std::vector<TableLine>& lines;  // of the whole plan
  const std::vector<TableStrip>& strips;
  const std::vector<ManyToOne>& comparisons;  // one per strip
  std::vector<TableEnvironment> environments;
  Figure best_of_table;                 // expected best gain by chance over all strips, for --family table
  const std::vector<TableLine>& shown;  // those that --where keeps
};

/// How large each evaluated slice is, and what guessing reaches there: one sentence, or one for each of several slices;
/// and what the note "loss above guessing" means.
std::vector<TableSentence> guessing_sentences(const TableInput& input, const TableOptions& options,
                                              const std::vector<TableLine>& lines);

/// --order: how far the rows of each two strips are in the same order along the axis `options.order`. `values`: of each
/// line. InputError for an axis that does not exist, and if there are no two strips with three values of it in common.
std::vector<TableSentence> order_sentences(const TableInput& input, const TableOptions& options,
                                           const std::vector<TableStrip>& strips,
                                           const std::vector<SeedValues>& values);

std::vector<TableSentence> table_footer(const FooterFacts& facts);

/// --pairs all: each pair of rows that share a baseline, or of all rows if there is none, with its texts.
struct PairedRows {
  std::vector<TablePair> pairs;
  std::vector<TableSentence> sentences;
};
/// Sets the lines' letters for --letters. `rows`: the values of each line. Means over benchmarks have pairs only beside
/// their own baseline.
PairedRows compare_pairs(std::vector<TableLine>& lines, const std::vector<TableStrip>& strips,
                         const std::vector<StripRow>& rows, const TableOptions& options, ManyToOneOptions procedure);
/// The pairs of which both rows are among the lines.
std::vector<TablePair> shown_pairs(const std::vector<TablePair>& pairs, const std::vector<TableLine>& lines);

/// At least `decimals`: as many as it takes for a rounded interval that does not contradict its mark.
int honest_decimals(const Figure& gain, const Figure& half_width, bool cut, bool differs, int decimals);

/// "0.0123", "<0.0001".
std::string p_text(double p);
/// "0.3", "-0.3", never "-0.0"; "nan" and "inf" as such.
std::string fixed(double value, int decimals);
/// The same with a sign.
std::string signed_fixed(double value, int decimals);

/// Keeps only the axes that differ between the lines, and fills in the columns, the grid and, if axes are columns, the
/// notes in the footer. `axes` are the paths of the lines' axes. InputError if --rows or --cols names an axis that
/// does not exist.
void lay_out_table(TableModel& model, const std::vector<std::string>& axes, const TableOptions& options);

}  // namespace normlab
