#include <fmt/core.h>

#include "core/error.h"
#include "experiments/base/terminal.h"
#include "experiments/base/text_layout.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/device_option.h"
#include "experiments/cli/trial_by_id.h"
#include "experiments/results/store.h"
#include "experiments/results/trial_files.h"
#include "experiments/sweep/runner.h"
#include "experiments/sweep/verify_files.h"
#include "experiments/train/verify.h"

namespace normlab {
namespace {

struct Verify {
  std::string run, out = "results", data;
  std::int64_t from = -1;
  VerifyOptions options;
  DeviceKind device = DeviceKind::cpu;
  bool files = false;

  int operator()() {
    if (files != run.empty())
      throw InputError("verify: name a trial, or give --files to check what lies in --out without training");
    return files ? check_files() : train_again();
  }

  int check_files() const {
    if (!std::filesystem::is_directory(std::filesystem::path(out) / "trials"))
      throw InputError(fmt::format("--out {}: holds no trials; it is no folder of results", out));
    const FilesReport report = verify_files(ResultStore(out));
    for (const std::string& problem : report.problems) print_text("{}\n", problem);
    print_text("{}: {}, {}: {} sealed, {} unsealed, {} without a result{}\n", out, plural(report.trials, "trial"),
               plural(report.files, "file"), plural(report.sealed, "result"), report.unsealed,
               plural(report.unfinished, "trial"),
               report.running > 0 ? fmt::format(", {} of them running and passed over", report.running) : "");
    if (report.unsealed > 0) print_text("unsealed: {}\n", kUnsealedWords);
    if (report.removed > 0) print_text("taken away by `normlab clean`: {}\n", plural(report.removed, "file"));
    if (report.problems.empty()) return print_text("nothing is damaged\n"), 0;
    print_text("{}\n", plural(report.problems.size(), "problem"));
    return static_cast<int>(ExitCode::bad_input);
  }

  int train_again() {
    const TrialFolder trial = trial_named(run, out);
    const TrialConfig config = read_trial_config(trial);
    const ComputeDevice computer(device);
    options.backend = &computer.backend();
    if (from >= 0) options.from = from;
    if (options.threads == 0) options.threads = available_cores();
    const DataPair pair = load_dataset(
        config.dataset, data.empty() ? std::nullopt : std::optional<std::filesystem::path>(data), available_cores());
    const VerifyReport report = verify_trial(config, trial, pair, options);
    const std::string id = trial.path().filename().string().substr(0, 12);
    print_text("{}: from {} at step {} to step {}\n", id, report.start, report.from, report.to);
    if (report.states > 0)
      print_text("{} on record {} the same to the bit: SHA-256 over {} (weights, moments, buffers, averages)\n",
                 plural(report.states, "state"), report.states == 1 ? "is" : "are", plural(report.tensors, "tensor"));
    if (report.metrics > 0)
      print_text("{} of metrics {} the same to the bit\n", plural(report.metrics, "line"),
                 report.metrics == 1 ? "is" : "are");
    if (report.result) print_text("the result is the same to the bit\n");
    if (!report.difference) return 0;
    print_text("DIFFERENT at {}\n", *report.difference);
    return static_cast<int>(ExitCode::trials_failed);
  }
};

}  // namespace

void add_verify(Command& app) {
  auto [command, verify] = app.add_command<Verify>(
      "verify", "run some steps of a trial again and compare all bits with what is on record, or check all files");
  command.add_option("run", verify.run, "a trial's folder, or the beginning of its id");
  command.add_flag("--files", verify.files,
                   "compare all files in --out with the hashes that results and checkpoints keep of them, and with "
                   "each other; trains nothing");
  command.add_option("--out", verify.out, "folder of the results").show_default();
  command.add_number("--steps", verify.options.steps, "how many steps", std::int64_t{1}, std::int64_t{1} << 50);
  command
      .add_option("--from", verify.from,
                  "step of the checkpoint to start from, 0: initial values (default: the last that can be compared)")
      .not_negative();
  command.add_option("--data", verify.data, "folder of the data sets (otherwise NORMLAB_DATA, then ./data)");
  command.add_option("--threads", verify.options.threads, "cores (default: all); changes no bit").range(0, 1024);
  add_device(command, verify.device);
  command.add_flag("--allow-different-bits", verify.options.allow_different_bits,
                   "compare also what another binary or BLAS core has computed");
  verify.options.threads = 0;
  command.footer("Exit code 1 where a training gives other bits, 2 where a file is damaged. Nothing is changed.");
  command.examples({"normlab verify 3f53cbbd --steps 50", "normlab verify --files --out results"});
}

}  // namespace normlab
