#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "core/ranks/mpi_ranks.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/device_option.h"
#include "experiments/lab/cli/trial_by_id.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/sweep/runner.h"
#include "experiments/lab/sweep/start_weights.h"
#include "experiments/lab/sweep/verify_files.h"
#include "experiments/lab/train/verify.h"
#include "experiments/lab/trials/store.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

struct Verify {
  std::string run, out = "results", from, start_file;
  std::optional<std::string> data;
  std::int64_t from_step = -1;
  Option steps_option{}, from_step_option{}, different_bits_option{};
  VerifyOptions options;
  DeviceKind device = DeviceKind::cpu;
  ProductAlgorithms algorithms{};
  bool files = false;

  int operator()() {
    if (files != run.empty())
      throw InputError("verify: give either a trial, or --files to check the files in --out without training");
    return files ? check_files() : from.empty() ? train_again() : compare_with_archive();
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

  void refuse_unfit() const {
    if (const auto launch = find_launch())
      throw InputError(fmt::format(
          "verify: {} has started several processes, and each would do the same; start it without, with --ranks for "
          "ranks on this machine",
          launch->by));
    if (device != DeviceKind::cpu && options.team.forked > 1)
      throw InputError("--ranks: with --device cuda, one GPU repeats the bits of several; give their --gpu-shards");
  }

  void prepare(const ComputeDevice& computer) {
    options.backend = &computer.backend();
    if (from_step >= 0) options.from = from_step;
    if (options.threads == 0) options.threads = std::max(1, available_cores() / options.team.forked);
  }

  /// The weights that the trial starts from: of --start, or of `results`.
  std::function<std::filesystem::path()> start_of(const TrialConfig& config,
                                                  const std::filesystem::path& results) const {
    return [this, start = config.start, results]() -> std::filesystem::path {
      return start_file.empty() ? start_weights(start, ResultStore(results)) : std::filesystem::path(start_file);
    };
  }

  int train_again() {
    refuse_unfit();
    const ComputeDevice computer(device, algorithms);
    prepare(computer);
    const TrialFolder trial = trial_named(run, out);
    const TrialConfig config = read_trial_config(trial);
    const DataPair pair = load_dataset(config.dataset, data, available_cores());
    options.start = start_of(config, trial.path().parent_path().parent_path());
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

  int compare_with_archive() {
    for (const Option& option : {steps_option, from_step_option, different_bits_option})
      if (option.given())
        throw InputError(fmt::format(
            "{}: a trial of an archive is trained from its first step to its end; leave it out", option.name()));
    refuse_unfit();
    const ComputeDevice computer(device, algorithms);
    prepare(computer);
    const ResultStore archive = ResultStore::exported(from);
    const std::string id = id_that_begins(archive, run), name = id.substr(0, 12);
    const TrialConfig config = read_trial_config(archive.trial(id));
    const DataPair pair = load_dataset(config.dataset, data, available_cores());
    options.start = start_of(config, out);
    options.report = [said = std::chrono::steady_clock::now()](const TrialProgress& progress) mutable {
      const auto now = std::chrono::steady_clock::now();
      if (now - said < std::chrono::seconds(10)) return;
      said = now;
      tell("step {} of {}\n", progress.step, progress.steps);
    };
    const ArchivedReport report = verify_archived(*archive.exported(), id, pair, options);
    print_text("{}: trained from its first step to its end; settings and data are the archive's\n", name);
    return report.same_program() ? tell_bits(report) : tell_expected(report);
  }

  static int tell_bits(const ArchivedReport& report) {
    print_text("same program, libraries and arithmetic, so every bit must be equal\n");
    if (!report.bit_difference.empty()) {
      print_text("DIFFERENT: {}\n", report.bit_difference);
      return static_cast<int>(ExitCode::trials_failed);
    }
    if (report.lines > 0)
      print_text("{} of metrics {} bit-identical\n", plural(report.lines, "line"), report.lines == 1 ? "is" : "are");
    print_text("the result is bit-identical{}\n", report.images ? ", and the same images are answered correctly" : "");
    return 0;
  }

  static int tell_expected(const ArchivedReport& report) {
    print_text("not the archive's program, so bits may differ:\n");
    for (const std::string& difference : report.differences) print_text("  {}\n", difference);
    const double scale = is_share(report.metric) ? 100 : 1;
    const auto shown = [&](const std::optional<double>& value, const std::string& end) {
      return value ? fmt::format("{:.4g}", *value * scale) : end;
    };
    print_text("{}{}: {} in the archive, {} now\n", report.metric, scale == 100 ? " [%]" : "",
               shown(report.there, report.end_there), shown(report.here, report.end_here));
    const ExpectedResult& row = report.expected;
    if (row.half_width)
      print_text("expected: {:.4g} ±{:.2g}, the 95% prediction interval of the row's {} archived seeds{}\n",
                 row.mean * scale, *row.half_width * scale, row.seeds,
                 row.diverged > 0 ? fmt::format("; {} more diverged", row.diverged) : "");
    const std::optional<bool> within = report.within();
    if (!within) {
      print_text("whether this is expected cannot be said: {}\n",
                 report.here ? "the archive has fewer than two seeds of this row that ended"
                             : "seeds of this row diverged in the archive too");
      return 0;
    }
    print_text("{}\n", *within ? "WITHIN" : "OUTSIDE");
    return static_cast<int>(*within ? ExitCode::done : ExitCode::trials_failed);
  }
};

}  // namespace

void add_verify(Command& app) {
  auto [command, verify] = app.add_command<Verify>(
      "verify",
      "train a trial again, or some of its steps, and compare with the record; or check all files for damage");
  command.add_option("run", verify.run, "a trial's folder, or its id or the first digits of it");
  command.add_flag("--files", verify.files,
                   "compare all files in --out with their recorded hashes and with each other; trains nothing");
  command.add_option("--out", verify.out, "folder of the results").show_default().path();
  command
      .add_option("--from", verify.from,
                  "an archive of `normlab export` that holds the trial: train all of it and compare the result")
      .path();
  verify.steps_option = command.add_number("--steps", verify.options.steps, "number of steps to train", std::int64_t{1},
                                           std::int64_t{1} << 50);
  verify.from_step_option =
      command
          .add_option(
              "--from-step", verify.from_step,
              "step of the checkpoint to start from; 0: the initial values (default: the last that can be compared)")
          .range(std::int64_t{0}, std::int64_t{1} << 50);
  command.add_option("--start", verify.start_file, "the file of weights that the trial starts from, if it does");
  command.add_option("--data", verify.data, "folder of the data sets (default: NORMLAB_DATA, else ./data)");
  command.add_bounded("--threads", verify.options.threads,
                      "how many cores to use; does not change results (default: all)", 0, 1024);
  command.add_number("--ranks", verify.options.team.forked,
                     "processes that train together, on this machine; does not change results", 1, Team::kMostForked);
  add_device(command, verify.device);
  add_gpu_algorithms(command, verify.algorithms);
  add_gpu_shards(command, verify.options.gpu_shards, "shards of a batch on GPUs, as in the training");
  verify.different_bits_option = command.add_flag("--allow-different-bits", verify.options.allow_different_bits,
                                                  "also compare with a record of another binary or BLAS core");
  verify.options.threads = 0;
  command.footer(
      "With --from and the program, libraries and arithmetic of the archive, every bit is compared. With others, the "
      "command says what differs, and whether the result lies in the 95% prediction interval of the row's archived "
      "seeds.\n"
      "Exit code 1: the training gives other bits, or a result outside that interval. 2: a file is damaged. The "
      "command changes no files.");
  command.examples({"normlab verify 3f53cbbd --steps 50",
                    "normlab verify 019dd4bfde --from docs/results/cifar10.jsonl --data ~/data"});
}

}  // namespace normlab
