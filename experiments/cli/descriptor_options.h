// What every command that reads a descriptor takes.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "experiments/sweep/stages.h"

namespace normlab {

struct DescriptorOptions {
  std::string file;
  std::vector<std::string> sets;
  std::string out = "results";

  void add_file(CLI::App& command) {
    command.add_option("descriptor", file, "the experiment, a JSON file")->required();
    command.add_option("--set", sets, "path=value, as if the descriptor said so: --set train.epochs=2")
        ->allow_extra_args(false);
  }
  void add_out(CLI::App& command) { command.add_option("--out", out, "folder of the results")->capture_default_str(); }
  Experiment load() const { return load_experiment(file, sets); }
  /// With the trials that the results in `out` have brought up.
  Experiment load_staged() const { return next_stage(load(), ResultStore(out)); }
};

}  // namespace normlab
