#include "experiments/lab/tables/sweep_table.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/sweep.h"
#include "experiments/lab/tables/row_columns.h"

namespace normlab {
namespace {

class BenchmarkMeans {
 public:
  BenchmarkMeans(TableInput& input, const TableOptions& options)
      : input_(input),
        options_(options),
        axis_(static_cast<std::size_t>(std::find(input.axes.begin(), input.axes.end(), kBenchmarkAxis) -
                                       input.axes.begin())),
        planned_(input.rows.size()) {}

  void add(const BenchmarkGroup& group) {
    const std::string name = "mean of " + group.name;
    std::map<std::vector<std::string>, std::size_t> row_of;  // values of the axes -> mean
    for (std::size_t r = 0; r < planned_; ++r) {
      const std::vector<std::string> axes = with_benchmark(r, name);
      if (!is_of(group, r) || !row_of.try_emplace(axes, input_.rows.size()).second) continue;
      TableRow mean = mean_of(group, axes);
      input_.rows.push_back(std::move(mean));
    }
    for (const auto& [axes, r] : row_of) {
      TableRow& mean = input_.rows[r];
      std::vector<std::size_t> baselines;
      for (const std::size_t member : mean.mean_of)
        if (const auto& baseline = input_.rows[member].baseline) baselines.push_back(*baseline);
      if (baselines.size() < mean.mean_of.size()) continue;
      // The mean over exactly these rows, or the gain would be partly one between benchmarks.
      const auto found = row_of.find(with_benchmark(baselines.front(), name));
      if (found != row_of.end() && input_.rows[found->second].mean_of == baselines) mean.baseline = found->second;
    }
  }

 private:
  std::vector<std::string> with_benchmark(std::size_t row, const std::string& benchmark) const {
    std::vector<std::string> axes = input_.rows[row].axes;
    axes[axis_] = benchmark;
    return axes;
  }

  bool is_of(const BenchmarkGroup& group, std::size_t row) const {
    return std::find(group.benchmarks.begin(), group.benchmarks.end(), input_.rows[row].axes[axis_]) !=
           group.benchmarks.end();
  }

  TableRow mean_of(const BenchmarkGroup& group, const std::vector<std::string>& axes) const {
    TableRow mean;
    mean.axes = axes;
    AxisLabels labels;
    for (std::size_t a = 0; a < axes.size(); ++a)
      if (!axes[a].empty()) labels.emplace_back(input_.axes[a], axes[a]);
    mean.label = row_label(labels, input_.axes, input_.name);
    std::vector<std::string> absent;
    for (const std::string& benchmark : group.benchmarks) {
      std::vector<std::string> wanted = axes;
      wanted[axis_] = benchmark;
      std::size_t r = 0;
      while (r < planned_ && input_.rows[r].axes != wanted) ++r;
      if (r < planned_)
        mean.mean_of.push_back(r);
      else
        absent.push_back(benchmark);
    }
    if (!absent.empty()) mean.remarks.push_back("without " + joined(absent, ", "));
    add_seeds(mean);
    take_common_cost(mean, input_.rows, mean.mean_of);
    for (const std::size_t r : mean.mean_of) mean.apart = mean.apart || input_.rows[r].apart;
    double chance = 0;
    for (const std::size_t r : mean.mean_of)
      chance += input_.rows[r].chance.value_or(std::nan("")) / static_cast<double>(mean.mean_of.size());
    if (std::isfinite(chance)) mean.chance = chance;
    return mean;
  }

  /// A seed needs a value of every benchmark, and has diverged if one of its runs has, even if that counts as guessing.
  /// A row whose tuning has not ended has no seeds yet.
  void add_seeds(TableRow& mean) const {
    const auto planned = [&](std::size_t r) { return input_.rows[r].seeds.size(); };
    const std::size_t longest = *std::max_element(mean.mean_of.begin(), mean.mean_of.end(),
                                                  [&](auto a, auto b) { return planned(a) < planned(b); });
    std::vector<std::string> open;  // benchmarks that lack a value
    for (const std::size_t r : mean.mean_of)
      if (planned(r) == 0) open.push_back(input_.rows[r].axes[axis_]);
    for (const TableSeed& of_longest : input_.rows[longest].seeds) {
      TableSeed seed;
      seed.seed = of_longest.seed;
      double sum = 0;
      bool complete = true;
      for (const std::size_t r : mean.mean_of) {
        const TableSeed* run = input_.rows[r].run_of(seed.seed);
        const std::optional<double> value = run ? value_of(input_.rows[r], *run) : std::nullopt;
        const std::string& benchmark = input_.rows[r].axes[axis_];
        sum += value.value_or(0);
        complete = complete && value;
        if (!value && std::find(open.begin(), open.end(), benchmark) == open.end()) open.push_back(benchmark);
        if (run && run->state == SeedState::diverged) {
          seed.state = SeedState::diverged;
          seed.diverged_step = run->diverged_step;
          seed.diverged_site = run->diverged_site;
        }
      }
      if (complete) {
        if (seed.state != SeedState::diverged) seed.state = SeedState::done;
        seed.value = sum / static_cast<double>(mean.mean_of.size());
      }
      mean.seeds.push_back(std::move(seed));
    }
    if (!open.empty()) mean.remarks.push_back("no value of " + joined(open, ", "));
  }

  /// What counts for this run, as stored.
  std::optional<double> value_of(const TableRow& row, const TableSeed& run) const {
    if (run.state == SeedState::diverged && options_.diverged == TableDiverged::chance) return row.chance;
    if (run.state != SeedState::done || !run.value || !std::isfinite(*run.value)) return std::nullopt;
    return run.value;
  }

  TableInput& input_;
  const TableOptions& options_;
  std::size_t axis_, planned_;
};

}  // namespace

void add_benchmark_means(TableInput& input, const std::vector<BenchmarkGroup>& groups, const TableOptions& options) {
  if (std::find(input.axes.begin(), input.axes.end(), kBenchmarkAxis) == input.axes.end()) return;  // not swept
  BenchmarkMeans means(input, options);
  for (const BenchmarkGroup& group : groups) means.add(group);
  if (!groups.empty())
    input.remarks.push_back(
        "A row \"mean of\" is the mean over the benchmarks of a group, each weighing the same, taken seed by seed.");
}

}  // namespace normlab
