#include "experiments/base/terminal.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/descriptor_options.h"
#include "experiments/report/curve_data.h"

namespace normlab {
namespace {

struct Curves {
  DescriptorOptions descriptor;
  std::string metric = "eval/accuracy", format = "csv";
  bool seeds = false;

  int operator()() const {
    const ResultStore store = descriptor.store();
    const ExperimentCurves curves = read_curves(descriptor.load_staged(store), store, {metric});
    require_metric(curves, metric, "--metric");
    print_bytes(curves_csv(curves.metrics.front(), seeds));
    for (const CurveProblem& problem : curves.problems) tell("{}\n", problem.text());
    return static_cast<int>(curves.outcome());
  }
};

}  // namespace

void add_curves(Command& app) {
  auto [command, curves] = app.add_command<Curves>(
      "curves", "print a metric by step for each row: mean, lowest and highest value over the seeds, and their number");
  curves.descriptor.add_file(command);
  curves.descriptor.add_out_or_from(command);
  command.add_option("--metric", curves.metric, "which metric of metrics.jsonl").show_default();
  command.add_choice("--format", curves.format, "how it is written", {"csv"});
  command.add_flag("--seeds", curves.seeds, "each seed by itself: row, seed, step, value");
  command.footer(
      "Values that are not finite count in no mean; --seeds prints them as nan and inf. Values are as stored, "
      "accuracies from 0 to 1.");
  command.examples({"normlab curves experiments/placements_gratings.json --metric train/loss > loss.csv"});
}

}  // namespace normlab
