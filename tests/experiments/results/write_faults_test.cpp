// A disk that is full from one moment on, that moment being each call in turn by which a trial writes anything.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <fstream>

#include "core/error.h"
#include "experiments/results/files.h"
#include "tests/experiments/results/child_process.h"
#include "tests/experiments/train/small_trial.h"

namespace {

/// Calls until the disk is full; negative: it never is.
std::atomic<long> calls_left{-1};
std::atomic<bool> full{false};

/// True where this call finds no space.
bool refuse() {
  if (full) {
    errno = ENOSPC;
    return true;
  }
  if (calls_left < 0 || calls_left-- > 0) return false;
  full = true;
  calls_left = -1;
  errno = ENOSPC;
  return true;
}

}  // namespace

// The test program's own definitions stand before those of the C library, for the standard library too. Only writers in
// this process are counted, and only while a test says so.
extern "C" {
ssize_t write(int descriptor, const void* bytes, std::size_t size) {
  const bool was_full = full;
  if (refuse()) {
    if (was_full || size < 2) return -1;
    size /= 2;  // a part goes through first, as on a real disk
  }
  return ::syscall(SYS_write, descriptor, bytes, size);
}
int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  if ((flags & O_CREAT) != 0 && refuse()) return -1;
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int fsync(int descriptor) { return refuse() ? -1 : static_cast<int>(::syscall(SYS_fsync, descriptor)); }
int mkdir(const char* path, mode_t mode) noexcept {
  return refuse() ? -1 : static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int link(const char* from, const char* to) noexcept {
  return refuse() ? -1 : static_cast<int>(::syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int rename(const char* from, const char* to) noexcept {
  return refuse() ? -1 : static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
}

using namespace normlab;

namespace {

struct Attempt {
  bool refused = false;  // some call found no space
  std::string error;     // what was said; empty where the trial finished
};

/// In a process of its own, as the claim ends with its process.
Attempt run_on_full_disk(const SmallTrial& trial, const std::filesystem::path& out, const TrialOptions& options,
                         long calls) {
  const std::filesystem::path words = out.parent_path() / "words";
  std::filesystem::remove(words);
  const int code = wait_for_child(start_child([&] {
    std::string error;
    calls_left = calls;
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
      CHECK_MESSAGE(attempt.error.find("free some space; finished results are untouched") != std::string::npos,
                    attempt.error);
    }
    // Nothing half: a result is whole or not there, and the same command goes on.
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

TEST_CASE("write faults: a disk that is full at any call costs no finished work and no bit, and says what to do") {
  check_full_at_each_write(KeepCheckpoint::last, true);
  check_full_at_each_write(KeepCheckpoint::weights, false);
}
