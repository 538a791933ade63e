#include <fmt/core.h>

#include <algorithm>

#include "core/error.h"
#include "core/forked_ranks.h"
#include "core/mpi_ranks.h"
#include "experiments/base/terminal.h"
#include "experiments/base/text_layout.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/device_option.h"
#include "experiments/cli/trial_by_id.h"
#include "experiments/results/store.h"
#include "experiments/results/trial_files.h"
#include "experiments/sweep/runner.h"
#include "experiments/sweep/start_weights.h"
#include "experiments/sweep/verify_files.h"
#include "experiments/train/verify.h"

namespace normlab {
namespace {

struct Verify {
  std::string run, out = "results", data, start_file;
  std::int64_t from = -1;
  VerifyOptions options;
  DeviceKind device = DeviceKind::cpu;
  bool files = false;

  int operator()() {
    if (files != run.empty())
      throw InputError("verify: give either a trial, or --files to check the files in --out without training");
    return files ? check_files() : train_again();
  }

  int check_files() const {
    if (!std::filesystem::is_directory(std::filesystem::path(out) / "trials"))
      throw InputError(
          fmt::format("--out {}: is not a folder of results, because it contains no trials; give another folder", out));
    const FilesReport report = verify_files(ResultStore(out));
    for (const std::string& problem : report.problems) print_text("{}\n", problem);
    print_text("{}: {}, {}: {} sealed, {} unsealed, {} without a result{}\n", out, plural(report.trials, "trial"),
               plural(report.files, "file"), plural(report.sealed, "result"), report.unsealed,
               plural(report.unfinished, "trial"),
               report.running > 0 ? fmt::format(", {} of them running and skipped", report.running) : "");
    if (report.unsealed > 0) print_text("unsealed: {}\n", kUnsealedWords);
    if (report.removed > 0)
      print_text("deleted by `normlab clean`, or left out of an archive: {}\n", plural(report.removed, "file"));
    if (report.problems.empty()) return print_text("nothing is damaged\n"), 0;
    print_text("{}\n", plural(report.problems.size(), "problem"));
    return static_cast<int>(ExitCode::bad_input);
  }

  int train_again() {
    if (const auto launch = find_launch())
      throw InputError(
          fmt::format("verify: {} has started several processes, and each would do the same; start it "
                      "without, with --ranks for ranks on this machine",
                      launch->by));
    if (device != DeviceKind::cpu && options.ranks > 1)
      throw InputError("--ranks: with --device cuda, one GPU repeats the bits of several; give their --gpu-shards");
    const TrialFolder trial = trial_named(run, out);
    const TrialConfig config = read_trial_config(trial);
    const ComputeDevice computer(device);
    options.backend = &computer.backend();
    if (from >= 0) options.from = from;
    if (options.threads == 0) options.threads = std::max(1, available_cores() / options.ranks);
    const DataPair pair = load_dataset(
        config.dataset, data.empty() ? std::nullopt : std::optional<std::filesystem::path>(data), available_cores());
    options.start = [&]() -> std::filesystem::path {
      return start_file.empty() ? start_weights(config.start, ResultStore(trial.path().parent_path().parent_path()))
                                : std::filesystem::path(start_file);
    };
    const VerifyReport report = verify_trial(config, trial, pair, options);
    const std::string id = trial.path().filename().string().substr(0, 12);
    if (report.to > report.from)
      print_text("{}: from {} at step {} to step {}\n", id, report.start, report.from, report.to);
    if (report.states > 0)
      print_text("{} on record {} bit-identical: SHA-256 over {} (weights, moments, buffers, averages)\n",
                 plural(report.states, "state"), report.states == 1 ? "is" : "are", plural(report.tensors, "tensor"));
    if (report.metrics > 0)
      print_text("{} of metrics {} bit-identical\n", plural(report.metrics, "line"),
                 report.metrics == 1 ? "is" : "are");
    if (report.result) print_text("the result is bit-identical\n");
    if (report.older)
      print_text(
          "losses of the record are not compared where the older version that wrote it measured them otherwise\n");
    if (!report.difference) return 0;
    print_text("DIFFERENT at {}\n", *report.difference);
    return static_cast<int>(ExitCode::trials_failed);
  }
};

}  // namespace

void add_verify(Command& app) {
  auto [command, verify] = app.add_command<Verify>(
      "verify",
      "train some steps of a trial again and compare every bit with the record, or check all files for damage");
  command.add_option("run", verify.run, "a trial's folder, or its id or the first digits of it");
  command.add_flag("--files", verify.files,
                   "compare all files in --out with their recorded hashes and with each other; trains nothing");
  command.add_option("--out", verify.out, "folder of the results").show_default().path();
  command.add_number("--steps", verify.options.steps, "number of steps to train", std::int64_t{1},
                     std::int64_t{1} << 50);
  command
      .add_option(
          "--from", verify.from,
          "step of the checkpoint to start from; 0: the initial values (default: the last that can be compared)")
      .not_negative();
  command.add_option("--start", verify.start_file, "the file of weights that the trial starts from, if it does");
  command.add_option("--data", verify.data, "folder of the data sets (default: NORMLAB_DATA, else ./data)");
  command
      .add_option("--threads", verify.options.threads, "how many cores to use; does not change results (default: all)")
      .range(0, 1024);
  command
      .add_option("--ranks", verify.options.ranks,
                  "processes that train together, on this machine; does not change results")
      .range(1, kMostForkedRanks)
      .show_default();
  add_device(command, verify.device);
  add_gpu_shards(command, verify.options.gpu_shards, "shards of a batch on GPUs, as in the training");
  command.add_flag("--allow-different-bits", verify.options.allow_different_bits,
                   "also compare with a record of another binary or BLAS core");
  verify.options.threads = 0;
  command.footer("Exit code 1: the training gives other bits. 2: a file is damaged. The command changes no files.");
  command.examples({"normlab verify 3f53cbbd --steps 50", "normlab verify --files --out results"});
}

}  // namespace normlab
