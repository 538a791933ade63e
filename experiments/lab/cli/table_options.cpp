#include "experiments/lab/cli/table_options.h"

#include "core/error.h"

namespace normlab {

Option add_selection(Command& command, TableOptions& options) {
  command.add_option("--metric", options.metric, "metric to show; of segmentation eval/miou").show_default();
  command.add_words(
      "--select", options.select,
      "evaluation that represents a run: the last, the one with the best minival/accuracy, or the mean of the last few "
      "(default: last)");
  const Option last =
      command.add_number("--last", options.last_k, "number of evaluations that mean_last_k averages", 1, 1'000'000);
  command.add_words(
      "--diverged", options.diverged,
      "leave diverged runs out (exclude, the default), or count them at the accuracy of guessing (chance)");
  return last;
}

void refuse_unread_last(const Option& last, const TableOptions& options) {
  if (last.given() && options.select != TableSelect::mean_last_k)
    throw InputError("--last: only --select mean_last_k averages evaluations; add it, or leave --last out");
}

void add_row_choice(Command& command, TableOptions& options) {
  command.add_option(
      "--where", options.where,
      "show only rows that match, by axes and columns: 'placement = dpn and (gain > 0.5 or lr != 1e-3)'");
  command.add_option("--sort", options.sort, "sort the rows by an axis or a column; -gain: in descending order");
}

void add_statistics(Command& command, TableOptions& options) {
  command.add_words("--family", options.family,
                    "rows whose intervals hold jointly: those of one baseline (strip, the default), or all (table)");
  command.add_option("--detect", options.detect, "show how many seeds a gain of this size needs, in the table's units");
  command.add_option("--equivalent", options.equivalent,
                     "test whether each row is within this margin of the baseline, in the table's units");
  command.add_option("--learned", options.learned,
                     "note rows whose training loss at the end is above this share of that of the first step");
  command.add_flag("--bootstrap", options.bootstrap,
                   "add intervals over new test images, and McNemar's test if the table is one pair of runs");
  command.add_flag(
      "--lr-sensitivity", options.lr_sensitivity,
      "show how much the training loss depends on the learning rate; the descriptor sweeps over train.optimizer.lr");
}

}  // namespace normlab
