#include <fmt/core.h>

#include <map>

#include "core/visible_text.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/tables/stage_notes.h"

namespace normlab {
namespace {

struct Missing {
  DescriptorOptions descriptor;
  bool ids = false;

  int operator()() const {
    const Experiment experiment = descriptor.load_staged();
    const ResultStore store(descriptor.out);
    std::map<std::string_view, std::size_t> counts;
    std::size_t missing = 0;
    for (const Trial& trial : experiment.trials) {
      const TrialStatus status = store.trial(trial.id).status();
      if (status.finished()) continue;
      ++missing;
      ++counts[word_of(status.state)];
      if (ids) {
        print_text("{}\n", trial.id);
        continue;
      }
      std::string state(word_of(status.state));
      if (status.progress > 0) state += " " + percent_done(status.progress);
      print_text("{:<12} {}  {}{}\n", state, trial.id.substr(0, 12), trial.label,
                 status.message.empty() ? "" : ": " + visible_line(status.message));
    }
    std::string by_state;
    for (const auto& [state, count] : counts)
      by_state += fmt::format("{}{} {}", by_state.empty() ? ": " : ", ", count, state);
    tell("{} of {} without a result{}\n", missing, plural(experiment.trials.size(), "trial"), by_state);
    if (experiment.more_to_come) tell("More trials follow when these have finished: {}\n", trials_to_come(experiment));
    return 0;
  }
};

}  // namespace

void add_missing(Command& app) {
  auto [command, missing] =
      app.add_command<Missing>("missing", "list the trials of a descriptor that have no result yet");
  missing.descriptor.add_file(command);
  missing.descriptor.add_out(command);
  command.add_flag("--ids", missing.ids, "print only the full ids, for scripts");
  command.examples({"normlab missing experiments/placements_gratings.json --out results",
                    "normlab missing experiments/placements_gratings.json --ids"});
}

}  // namespace normlab
