#include "experiments/cli/table_options.h"

namespace normlab {

void add_selection(Command& command, TableOptions& options) {
  command.add_option("--metric", options.metric, "which number of a result").show_default();
  command.add_words(
      "--select", options.select,
      "which evaluation stands for a run: its last, the one with the best minival/accuracy, or the mean of its "
      "last ones (default: last)");
  command.add_number("--last", options.last_k, "how many evaluations mean_last_k takes", 1, 1'000'000);
  command.add_words("--diverged", options.diverged,
                    "diverged runs count nowhere (exclude, the default), or as ones that guess (chance)");
}

void add_row_choice(Command& command, TableOptions& options) {
  command.add_option("--where", options.where,
                     "rows to show, by axes and columns: 'placement = dpn and (gain > 0.5 or lr != 1e-3)'");
  command.add_option("--sort", options.sort, "an axis or a column; -gain: from large to small");
}

void add_statistics(Command& command, TableOptions& options) {
  command.add_words("--family", options.family,
                    "rows whose intervals hold together: those of one baseline (strip, the default), or all (table)");
  command.add_option("--detect", options.detect, "a gain, as the table shows it: how many seeds would show it");
  command.add_option("--equivalent", options.equivalent,
                     "a margin, as the table shows it: is each row shown to be within it of the baseline?");
  command.add_flag("--bootstrap", options.bootstrap,
                   "also intervals over new test images; McNemar's test where the table is one pair of runs");
}

}  // namespace normlab
