#include <fmt/core.h>

#include "core/error.h"
#include "experiments/base/files.h"
#include "experiments/base/terminal.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/descriptor_options.h"
#include "experiments/cli/output_file.h"
#include "experiments/results/exported.h"

namespace normlab {
namespace {

struct Export {
  DescriptorOptions descriptor;
  std::filesystem::path file;
  bool full = false;

  int operator()() const {
    const bool folder = std::filesystem::is_directory(descriptor.file);
    const ResultStore store(folder ? descriptor.file : descriptor.out);
    if (folder && !descriptor.sets.empty())
      throw InputError("--set: changes a descriptor, and this is a folder of results");
    std::vector<std::string> ids, stems;
    if (folder) {
      ids = store.trial_ids();
      for (const auto& path : list_folder(store.out() / "experiments")) stems.push_back(path.filename().string());
    } else {
      const Experiment experiment = descriptor.load_staged(store);
      for (const Trial& trial : experiment.trials) ids.push_back(trial.id);
      stems.push_back(experiment.stem);
    }
    std::string lines;
    std::size_t trials = 0;
    for (const std::string& id : ids) {
      const TrialFolder trial = store.trial(id);
      if (!trial.result_text()) continue;
      lines += export_line(trial, full);
      ++trials;
    }
    for (const std::string& stem : stems)
      for (const char* kind : {"/fixed", "/tabled"})
        for (const std::string& name : store.note_names(stem + kind)) lines += export_note(store, stem + kind, name);
    if (trials == 0)
      throw InputError(
          fmt::format("{}: has results of none of {} trials; run them first, or name their folder by --out",
                      store.out().string(), ids.size()));
    write_output(file, lines);
    if (file != "-")
      tell("wrote {}: {} of {} trials{}\n", file.string(), trials, ids.size(),
           trials < ids.size() ? "; the others have no result" : "");
    return 0;
  }
};

}  // namespace

void add_export(Command& app) {
  auto [command, options] = app.add_command<Export>(
      "export", "write results into one file, a line a trial, which table, report and curves read by --from");
  command
      .add_option("what", options.descriptor.file,
                  "the experiment, a JSON file, whose results --out has; or a folder with results, for all in it")
      .required();
  options.descriptor.add_reading(command);
  options.descriptor.add_out(command);
  command.add_flag("--full", options.full, "also the curve of each trial, which curves, report and --select need");
  command.add_option("-o,--output", options.file, "the file to write: NAME.jsonl").required();
  command.footer(
      "Each line has the settings, the result with its seal, and a seal of its own. Checkpoints, states and "
      "correct.bits are not in it. A damaged result is named, and nothing written.");
  command.examples({"normlab export experiments/placements_gratings.json --full -o gratings.jsonl"});
}

}  // namespace normlab
