#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/first_wins.h"
#include "experiments/lab/base/folders.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/train/keep.h"
#include "experiments/lab/trials/trial_copies.h"

namespace normlab {
namespace {

struct Clean {
  DescriptorOptions descriptor;
  KeepCheckpoint keep = KeepCheckpoint::none;
  Option out_option;
  bool yes = false;

  int operator()() const {
    if (descriptor.file.empty() && !out_option.given())
      throw InputError("clean: give a descriptor, or --out FOLDER for all trials in that folder");
    ResultStore store(descriptor.out);
    std::uint64_t bytes = 0;
    std::size_t files = 0, trials = 0;
    const auto list = [&](const std::vector<Removal>& removals) {
      for (const Removal& removal : removals) {
        bytes += removal.bytes;
        print_text("{:>14}  {}\n", removal.bytes, removal.path.string());
      }
      files += removals.size();
    };
    if (yes && std::filesystem::is_directory(store.out() / "trials")) {
      store = ResultStore(store.out(), choose_first_wins(store.out()));
      if (const std::string& notice = store.first_wins().notice; !notice.empty()) tell("{}\n", notice);
      put_back_set_aside(store);
    }
    const std::filesystem::path folder = store.out() / "experiments";
    std::vector<std::filesystem::path> experiments, parts;  // parts: what interrupted merges left
    std::vector<std::string> ids;
    if (descriptor.file.empty()) {
      experiments = list_folder(folder);
      ids = store.trial_ids();
      parts = abandoned_parts(store);
    } else {
      const Experiment experiment = descriptor.load_staged();
      for (const Trial& trial : experiment.trials) ids.push_back(trial.id);
      experiments = {folder / experiment.stem};
    }
    for (const std::filesystem::path& part : parts) {
      std::vector<Removal> removals;
      for (const std::filesystem::path& file : files_below(part))
        if (std::filesystem::is_regular_file(file)) removals.push_back({file, std::filesystem::file_size(file)});
      list(removals);
      if (yes) remove_folder(part);
    }
    for (const std::filesystem::path& experiment : experiments) {
      list(temporary_files(experiment));
      if (yes) remove_temporaries(experiment);
    }
    for (const std::string& id : ids) {
      const TrialFolder trial = store.trial(id);
      const std::vector<Removal> removals = yes ? apply_keep(trial, keep) : superfluous_files(trial, keep);
      list(removals);
      trials += removals.empty() ? 0 : 1;
    }
    print_text("{} in {} of {} {}\n", plural(bytes, "byte"), plural(files, "file"), plural(trials, "finished trial"),
               yes ? "deleted" : "would be deleted");
    if (!yes && files > 0) print_text("nothing was deleted; add --yes to delete these files\n");
    return 0;
  }
};

}  // namespace

void add_clean(Command& app) {
  auto [command, clean] =
      app.add_command<Clean>("clean", "list the checkpoints that finished trials no longer need, or delete them");
  command.add_option("descriptor", clean.descriptor.file,
                     "JSON file that describes the experiment; without it, all trials in a given --out");
  clean.descriptor.add_reading(command);
  clean.out_option = clean.descriptor.add_out(command);
  command.add_choice(
      "--keep", clean.keep,
      "what to keep of a finished trial's checkpoints: nothing, the weights of the last one, or the whole last one",
      {"none", "weights", "last"});
  command.add_flag("--yes", clean.yes, "delete the files; without this option they are only listed");
  command.footer(
      "Results, metrics and logs are always kept, and so are all files of a trial that is running or has no result "
      "yet.");
  command.examples({"normlab clean experiments/placements_gratings.json --keep weights",
                    "normlab clean experiments/placements_gratings.json --keep weights --yes"});
}

}  // namespace normlab
