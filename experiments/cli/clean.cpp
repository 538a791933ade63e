#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "core/error.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/descriptor_options.h"
#include "experiments/descriptor/words.h"
#include "experiments/results/terminal.h"
#include "experiments/train/keep.h"

namespace normlab {
namespace {

struct Clean {
  std::string file, out = "results", keep = "none";
  std::vector<std::string> sets;
  bool out_given = false, yes = false;

  std::vector<std::string> trial_ids(const ResultStore& store) const {
    if (file.empty()) return store.trial_ids();
    std::vector<std::string> ids;
    for (const Trial& trial : next_stage(load_experiment(file, sets), store).trials) ids.push_back(trial.id);
    return ids;
  }

  int operator()() const {
    if (file.empty() && !out_given)
      throw InputError("clean: name a descriptor, or with --out a folder whose trials are all meant");
    constexpr auto kWords = words_of<KeepCheckpoint>();
    const auto rule = KeepCheckpoint(std::find(kWords.begin(), kWords.end(), keep) - kWords.begin());
    const ResultStore store(out);
    std::uint64_t bytes = 0;
    std::size_t files = 0, trials = 0;
    for (const std::string& id : trial_ids(store)) {
      const TrialFolder trial = store.trial(id);
      const std::vector<Removal> removals = yes ? apply_keep(trial, rule) : superfluous_files(trial, rule);
      for (const Removal& removal : removals) {
        bytes += removal.bytes;
        print_text("{:>14}  {}\n", removal.bytes, removal.path.string());
      }
      files += removals.size();
      trials += removals.empty() ? 0 : 1;
    }
    print_text("{} bytes in {} files of {} finished trials {}\n", bytes, files, trials,
               yes ? "deleted" : "would be deleted");
    if (!yes && files > 0) print_text("nothing was deleted; add --yes to do it\n");
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
