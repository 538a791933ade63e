#include <algorithm>

#include "experiments/lab/base/terminal.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/pictures/curve_data.h"

namespace normlab {
namespace {

struct Curves {
  DescriptorOptions descriptor;
  std::string metric = "eval/accuracy", format = "csv";
  bool seeds = false;

  int operator()() const {
    const ResultStore store = descriptor.store();
    const Experiment experiment = descriptor.load_staged(store);
    const std::string wanted =
        metric_for(task_of(first_trial(experiment, experiment.rows.front()).config.model), metric);
    const ExperimentCurves curves = read_curves(experiment, store, {wanted});
    require_metric(curves, wanted, "--metric");
    print_bytes(curves_csv(curves.metrics.front(), seeds));
    for (const CurveProblem& problem : curves.problems) tell("{}\n", problem.text());
    const std::string without = curves.without_words();
    if (without.empty()) return static_cast<int>(curves.outcome());
    tell("{}\n", without);
    return static_cast<int>(std::max(curves.outcome(), ExitCode::bad_input));
  }
};

}  // namespace

void add_curves(Command& app) {
  auto [command, curves] = app.add_command<Curves>(
      "curves", "print a metric by step for each row: mean, minimum, maximum and number of the seeds");
  curves.descriptor.add_file(command);
  curves.descriptor.add_out_or_from(command);
  command
      .add_option("--metric", curves.metric,
                  "metric to print, one of those in metrics.jsonl; of segmentation eval/miou")
      .show_default();
  command.add_choice("--format", curves.format, "output format", {"csv"});
  command.add_flag("--seeds", curves.seeds, "print each seed separately: row, seed, step, value");
  command.footer(
      "Means leave out values that are not finite; --seeds prints them as nan and inf. Values are as stored, so "
      "accuracies range from 0 to 1.");
  command.examples({"normlab curves experiments/placements_gratings.json --metric train/loss > loss.csv",
                    "normlab curves experiments/placements_gratings.json --seeds > seeds.csv"});
}

}  // namespace normlab
