#include <fmt/core.h>

#include "core/error.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/sweep/merge.h"

namespace normlab {
namespace {

struct Merge {
  std::vector<std::string> sources;
  std::string out;

  int operator()() const {
    const Merged merged = merge_results({sources.begin(), sources.end()}, out);
    if (!merged.notice.empty()) tell("{}\n", merged.notice);
    print_text("{} copied to {}{}, {} there already\n", plural(merged.copied, "result"), out,
               merged.completed > 0 ? fmt::format(", {} completed", merged.completed) : "", merged.there);
    if (merged.timings > 0) print_text("{} copied to {}/bench\n", plural(merged.timings, "timing file"), out);
    if (merged.unfinished > 0)
      print_text("{} without a result left out; run the share again to finish them\n",
                 plural(merged.unfinished, "trial"));
    for (const std::string& problem : merged.problems) tell("{}\n", problem);
    return merged.problems.empty() ? 0 : static_cast<int>(ExitCode::bad_input);
  }
};

}  // namespace

void add_merge(Command& app) {
  auto [command, merge] =
      app.add_command<Merge>("merge", "copy the results of several folders and archives into one folder");
  command
      .add_option(
          "sources", merge.sources,
          "folders of results, such as those of `normlab run --share`; archives of `normlab export`, or folders of "
          "archives")
      .required();
  command.add_output(Output::folder, "--out", merge.out, "folder to copy to; it may have results already").required();
  command.footer(
      "Nothing is copied if equal trials have different results, if the sources record different decisions about an "
      "experiment, or if a file of a source is damaged. For that, every file of the results is read and hashed. What "
      "several sources and --out have of one trial is joined: weights, states and curves that any of them has. A trial "
      "that a process works on is left out, with exit code 2. If later trials follow from the results, run the "
      "descriptor again in the merged folder. Trials from an archive have no checkpoints, and curves only if it was "
      "written with --full.");
  command.examples(
      {"normlab merge share-1 share-2 share-3 --out results", "normlab merge ~/from-another-machine --out results"});
}

}  // namespace normlab
