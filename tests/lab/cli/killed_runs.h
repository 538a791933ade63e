// A descriptor in a folder of its own, runs that are killed again and again, and runs that must have equal bits.
#pragma once

#include <doctest/doctest.h>

#include "tests/lab/cli/small_sweep.h"

namespace normlab {

inline std::string out_option(const TemporaryFolder& folder, const std::string& name = "r") {
  return " --out " + in_folder(folder, name);
}

/// A run of the descriptor at `path` that is killed six times gives the results of an undisturbed one.
inline void check_killed_run(const TemporaryFolder& folder, const std::string& path, const std::string& options) {
  REQUIRE(run_program(folder, "run " + path + " --workers 1" + out_option(folder, "whole")).code == 0);
  const auto whole = whole_results(folder / "whole");
  const std::string slow = "run " + path + options + " --set checkpoint.steps=1" + out_option(folder);
  for (int kills = 0; kills < 6; ++kills) {
    const Program program(folder, slow);
    pause_ms(150 + 130 * kills);
    program.signal_all(SIGKILL);
    program.wait();
  }
  REQUIRE(run_program(folder, slow).code == 0);
  CHECK(whole_results(folder / "r") == whole);
}

/// A descriptor and its results, in a folder that goes when the test ends.
struct SweepFiles {
  TemporaryFolder folder;
  std::string descriptor = in_folder(folder, "d.json");
  explicit SweepFiles(const std::string& text) { std::ofstream(descriptor) << text; }
  Finished call(const std::string& command, const std::string& more = "") const {
    return run_program(folder, command + " " + descriptor + " " + more);
  }
  Finished run(const std::string& out, const std::string& more = "") const {
    return call("run", more + out_option(folder, out));
  }
  /// The loss that `eval` prints for these weights.
  double loss(const std::string& weights) const {
    const Finished done = run_program(folder, "eval --weights " + weights + " --data shapes");
    REQUIRE_MESSAGE(done.code == 0, done.err);
    return std::stod(done.out.substr(done.out.find("loss ") + 5));
  }
};

/// So many trials have the same bits for any threads, workers and ranks, and `verify` agrees. `set`: more options.
inline void check_equal_bits(const SweepFiles& files, std::size_t trials, const std::string& set = "") {
  const Finished first = files.run("1", set + " --threads 1 --workers 1");
  REQUIRE_MESSAGE(first.code == 0, first.err);
  const auto whole = whole_results(files.folder / "1");
  REQUIRE(whole.size() == trials);
  int run = 1;
  for (const std::string more : {" --threads 3 --workers 1", " --workers 2", " --ranks 2 --threads 1 --workers 1"}) {
    CAPTURE(more);
    const std::string out = std::to_string(++run);
    const Finished ended = files.run(out, set + more);
    REQUIRE_MESSAGE(ended.code == 0, ended.err);
    CHECK(whole_results(files.folder / out) == whole);
  }
  for (const auto& [id, state] : whole) {
    const Finished verified = run_program(files.folder, "verify " + id + out_option(files.folder, "1"));
    CHECK_MESSAGE(verified.code == 0, verified.out << verified.err);
    CHECK(verified.out.find("the result is bit-identical") != std::string::npos);
  }
}

}  // namespace normlab
