// "benchmarks": named parts of a descriptor, in groups, which the axis "benchmark" lays over the rest.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/descriptor/json_tree.h"
#include "experiments/lab/descriptor/problems.h"
#include "experiments/lab/descriptor/sweep.h"

namespace normlab {

class Benchmarks {
 public:
  Benchmarks() = default;
  /// An object {name: {"group", "dataset", "model", ...}}; null: none. Gives the values of each axis "benchmark" of the
  /// grids the settings that they name. Reports invalid entries, unknown names, and an axis before it.
  Benchmarks(const JsonMember* member, std::vector<Grid>& grids, Problems& problems);

  /// Why --set cannot set this path: a benchmark would overwrite it. "" if none does.
  std::string conflict(const std::string& path) const;
  /// In the order of their first members, then all benchmarks; empty if no benchmark has a group.
  std::vector<BenchmarkGroup> groups() const;

 private:
  struct Benchmark {
    std::string name, group;
    JsonNode settings;
  };
  void read(const JsonNode& node, Problems& problems);
  void resolve(Axis& axis, Problems& problems) const;
  std::vector<Benchmark> benchmarks_;
};

}  // namespace normlab
