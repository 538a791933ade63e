#include <fmt/format.h>

#include <memory>

#include "experiments/cli/commands.h"
#include "experiments/cli/descriptor_options.h"
#include "experiments/results/store.h"
#include "experiments/train/probes.h"
#include "nn/engine.h"

namespace normlab {
namespace {

int print_plan(const DescriptorOptions& options) {
  const Experiment experiment = options.load();
  const ResultStore store(options.out);
  std::size_t done = 0;
  fmt::print("{}\n{} trials", experiment.about, experiment.trials.size());
  if (experiment.duplicates > 0) fmt::print(", {} more were the same as another", experiment.duplicates);
  fmt::print("\n\n");
  std::string row;
  for (const Trial& trial : experiment.trials) {
    const TrialStatus status = store.trial(trial.id).status();
    done += status.state == TrialState::done || status.state == TrialState::diverged;
    const std::string name = experiment.rows[trial.row].label;
    if (name != row) {
      const ModelConfig& model = trial.config.model;
      const ModelCost cost = model_cost(model);
      const ShardPlan shards = plan_shards(model, trial.config.train.batch_size, cost.parameters,
                                           std::int64_t(size_of(dtype_of(trial.config.train.precision))));
      fmt::print("{}\n  {} parameters, {} macs an image, {} flops; with norms {} macs, {} flops\n", name,
                 cost.parameters, cost.macs, 2 * cost.macs, cost.macs_with_norms(), 2 * cost.macs_with_norms());
      fmt::print("  {} shards of {} images in {} lanes{}\n", shards.shards, shards.images, shards.lanes,
                 shards.lockstep ? ", in lockstep" : "");
      fmt::print("  threads beyond {} have nothing to do in one trial\n", shards.lanes);
      row = name;
    }
    fmt::print("    {}  seed {:<3} {}\n", trial.id.substr(0, 12), trial.config.seed, to_string(status.state));
  }
  fmt::print("\n{} of {} done\n{}", done, experiment.trials.size(), missing_probes_note(experiment, store));
  return 0;
}

int check(const DescriptorOptions& options) {
  const Experiment experiment = options.load();
  fmt::print("{}: fine, {} rows, {} trials\n", options.file, experiment.rows.size(), experiment.trials.size());
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Action& action) {
  auto options = std::make_shared<DescriptorOptions>();
  CLI::App& command =
      *app.add_subcommand("plan", "print the trials of a descriptor, what each costs and which are done");
  options->add_file(command);
  options->add_out(command);
  command.callback([options, &action] { action = [options] { return print_plan(*options); }; });
}

void add_check(CLI::App& app, Action& action) {
  auto options = std::make_shared<DescriptorOptions>();
  CLI::App& command = *app.add_subcommand("check", "read a descriptor and say everything that is wrong with it");
  options->add_file(command);
  command.callback([options, &action] { action = [options] { return check(*options); }; });
}

}  // namespace normlab
