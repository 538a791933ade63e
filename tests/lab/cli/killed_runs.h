// Runs that are killed again and again, for tests of trials that start from other trials.
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

}  // namespace normlab
