#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/error.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/descriptor_options.h"
#include "experiments/descriptor/words.h"
#include "experiments/results/files.h"
#include "experiments/train/keep.h"

namespace normlab {
namespace {

struct Clean {
  std::string file, out = "results", keep = "none";
  std::vector<std::string> sets;
  bool out_given = false, yes = false;

  /// What is meant: trials by their ids, and the experiments' folders.
  struct Scope {
    std::vector<std::string> trials;
    std::vector<std::filesystem::path> experiments;
  };
  Scope scope(const ResultStore& store) const {
    Scope scope;
    const std::filesystem::path experiments = store.out() / "experiments";
    if (file.empty()) {
      std::error_code none;
      for (const auto& entry : std::filesystem::directory_iterator(experiments, none))
        scope.experiments.push_back(entry.path());
      scope.trials = store.trial_ids();
      return scope;
    }
    const Experiment experiment = next_stage(load_experiment(file, sets), store);
    for (const Trial& trial : experiment.trials) scope.trials.push_back(trial.id);
    scope.experiments = {experiments / experiment.stem};
    return scope;
  }

  int operator()() const {
    if (file.empty() && !out_given)
      throw InputError("clean: name a descriptor, or with --out a folder whose trials are all meant");
    constexpr auto kWords = words_of<KeepCheckpoint>();
    const auto rule = KeepCheckpoint(std::find(kWords.begin(), kWords.end(), keep) - kWords.begin());
    const ResultStore store(out);
    std::uint64_t bytes = 0;
    std::size_t files = 0, trials = 0;
    const auto list = [&](const std::vector<Removal>& removals) {
      for (const Removal& removal : removals) {
        bytes += removal.bytes;
        fmt::print("{:>14}  {}\n", removal.bytes, removal.path.string());
      }
      files += removals.size();
    };
    const Scope meant = scope(store);
    for (const std::filesystem::path& experiment : meant.experiments) {
      list(temporary_files(experiment));
      if (yes) remove_temporaries(experiment);
    }
    for (const std::string& id : meant.trials) {
      const TrialFolder trial = store.trial(id);
      const std::vector<Removal> removals = yes ? apply_keep(trial, rule) : superfluous_files(trial, rule);
      list(removals);
      trials += removals.empty() ? 0 : 1;
    }
    fmt::print("{} bytes in {} files of {} finished trials {}\n", bytes, files, trials,
               yes ? "deleted" : "would be deleted");
    if (!yes && files > 0) fmt::print("nothing was deleted; add --yes to do it\n");
    return 0;
  }
};

}  // namespace

void add_clean(CLI::App& app, Action& action) {
  auto clean = std::make_shared<Clean>();
  CLI::App& command =
      *app.add_subcommand("clean", "say which checkpoints finished trials no longer need, or delete them");
  command.add_option("descriptor", clean->file, "the experiment, a JSON file; without it all trials in --out");
  command.add_option("--set", clean->sets, "path=value, as for run")->allow_extra_args(false);
  CLI::Option* out = command.add_option("--out", clean->out, "folder of the results")->capture_default_str();
  command
      .add_option("--keep", clean->keep,
                  "none of a finished trial's checkpoints; the weights of the last one; or the whole last one")
      ->check(CLI::IsMember({"none", "weights", "last"}))
      ->capture_default_str();
  command.add_flag("--yes", clean->yes, "delete; without it the files are only listed");
  command.footer(
      "Example: normlab clean sweep.json --keep weights --yes\nResults, metrics and logs always stay, as do all files "
      "of "
      "a trial that is running or has no result yet.");
  command.callback([clean, out, &action] {
    clean->out_given = out->count() > 0;
    action = [clean] { return (*clean)(); };
  });
}

}  // namespace normlab
