// A disk that is full from some moment on: from each call in turn by which a trial writes anything.
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <fstream>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "tests/lab/base/child_process.h"
#include "tests/lab/train/small_trial.h"
#include "tests/system_calls.h"

using namespace normlab;

namespace {

/// Calls until the disk is full; negative: it never becomes full.
std::atomic<long> calls_left{-1};
std::atomic<bool> full{false};

/// Counts only calls that write in this process, and only while a test has set calls_left.
int refuse(Call call) {
  if (call == Call::pwrite || call == Call::unlink || call == Call::ftruncate || call == Call::close ||
      call == Call::send)
    return 0;
  if (full) return ENOSPC;
  if (calls_left < 0 || calls_left-- > 0) return 0;
  full = true;
  calls_left = -1;
  return call == Call::write ? kShort : ENOSPC;  // a part is written first, as on a real disk
}

struct Attempt {
  bool refused = false;  // some call found no space
  std::string error;     // the message; empty if the trial finished
};

/// Runs in a child, because a claim ends with its process.
Attempt run_on_full_disk(const SmallTrial& trial, const std::filesystem::path& out, const TrialOptions& options,
                         long calls) {
  const std::filesystem::path words = out.parent_path() / "words";
  std::filesystem::remove(words);
  const int code = wait_for_child(start_child([&] {
    std::string error;
    calls_left = calls;
    answer = refuse;  // in the child alone
    try {
      trial.run(out, options);
    } catch (const EnvironmentError& problem) {
      error = problem.what();
    }
    calls_left = -1;
    const bool refused = full.exchange(false);
    std::ofstream(words) << error;
    return refused ? 1 : 0;
  }));
  REQUIRE((code == 0 || code == 1));
  return {code == 1, read_file(words)};
}

void check_full_at_each_write(KeepCheckpoint keep, bool tensorboard) {
  TrialConfig config = SmallTrial::settings();
  config.train.epochs = 1;  // 6 steps
  const SmallTrial trial(config);
  config.seed = 1;
  const SmallTrial other(config);
  const TemporaryFolder folder;
  TrialOptions options;
  options.checkpoint.steps = 4;
  options.checkpoint.keep = keep;
  if (tensorboard) options.tensorboard = folder / "tensorboard";
  REQUIRE(trial.run(folder / "undisturbed", options) == TrialOutcome::done);
  const TrialResult expected = *trial.folder(folder / "undisturbed").load_result();
  const std::string metrics = read_file(trial.folder(folder / "undisturbed").metrics(1));
  REQUIRE(other.run(folder / "out", options) == TrialOutcome::done);
  const std::string finished = read_file(other.folder(folder / "out").path() / "result.json");

  const auto result = trial.folder(folder / "out").path() / "result.json";
  long calls = 0, said = 0;
  for (;; ++calls) {
    CAPTURE(calls);
    REQUIRE(calls < 1000);
    std::filesystem::remove_all(trial.folder(folder / "out").path());
    const Attempt attempt = run_on_full_disk(trial, folder / "out", options, calls);
    CHECK(read_file(other.folder(folder / "out").path() / "result.json") == finished);
    if (!attempt.error.empty()) {
      ++said;
      CHECK_MESSAGE(attempt.error.find("No space left on device") != std::string::npos, attempt.error);
      CHECK_MESSAGE(attempt.error.find("free some space, then run the same command again") != std::string::npos,
                    attempt.error);
    }
    // A result is whole or missing, and the same command resumes.
    if (!trial.folder(folder / "out").finished()) {
      CHECK(!attempt.error.empty());
      CHECK(trial.run(folder / "out", options) == TrialOutcome::done);
    }
    const TrialResult now = *trial.folder(folder / "out").load_result();
    CHECK(now.metrics == expected.metrics);
    CHECK(read_file(trial.folder(folder / "out").metrics(now.attempt)) == metrics);
    if (!attempt.refused) break;
  }
  MESSAGE(calls << " calls that write, " << said << " errors");
  CHECK(said > 20);
}

}  // namespace

TEST_CASE("write faults: a full disk costs no work if the last checkpoint is kept") {
  check_full_at_each_write(KeepCheckpoint::last, true);
}

TEST_CASE("write faults: a full disk costs no work if the weights are kept") {
  check_full_at_each_write(KeepCheckpoint::weights, false);
}
