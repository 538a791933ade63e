#include "experiments/lab/descriptor/experiment.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/design.h"
#include "experiments/lab/descriptor/draws.h"
#include "experiments/lab/descriptor/merge.h"
#include "experiments/lab/descriptor/sweep.h"
#include "experiments/lab/descriptor/tasks.h"

namespace normlab {
namespace {

/// The number of seeds must not depend on what else a descriptor measures.
void require_two_stage_metric(const Design& design, const std::vector<GridRow>& rows, Problems& problems) {
  const auto request = design.two_stage ? requested_by(design.two_stage->metric) : std::nullopt;
  if (request &&
      !std::all_of(rows.begin(), rows.end(), [&](const auto& row) { return measures(row.config, *request); }))
    problems.add(design.root.find("seeds")->value.at,
                 concat(design.two_stage->metric, " is not measured; add \"", word_of(*request), "\" to eval.metrics"));
  problems.throw_if_any_or_unused();
}

/// In the order of their first members, then all benchmarks; empty if no benchmark has a group.
std::vector<BenchmarkGroup> groups_of(const std::vector<Benchmark>& benchmarks) {
  std::vector<BenchmarkGroup> groups;
  BenchmarkGroup all{std::string(kAllBenchmarks), {}};
  for (const Benchmark& benchmark : benchmarks) {
    all.benchmarks.push_back(benchmark.name);
    if (benchmark.group.empty()) continue;
    auto found =
        std::find_if(groups.begin(), groups.end(), [&](const BenchmarkGroup& g) { return g.name == benchmark.group; });
    if (found == groups.end()) found = groups.insert(found, {benchmark.group, {}});
    found->benchmarks.push_back(benchmark.name);
  }
  if (!groups.empty()) groups.push_back(std::move(all));
  return groups;
}

void add_rows(Design design, GridRows found, Experiment& out) {
  out.axes = design.paths;
  out.groups = groups_of(design.benchmarks);
  out.duplicates = found.duplicates;
  out.labels = found.labels;
  out.repeated_rows = std::move(found.repeated);
  constexpr std::size_t kNamed = 10;
  if (const std::size_t all = out.repeated_rows.size(); all > kNamed) {
    out.repeated_rows.resize(kNamed);
    out.repeated_rows.push_back(concat(all - kNamed, " more rows have the same settings as others"));
  }
  out.two_stage = design.two_stage;
  if (out.two_stage)
    out.two_stage->metric = metric_for(task_of(found.rows.front().config.model), out.two_stage->metric);
  out.more_to_come = design.two_stage.has_value() || design.tuned != nullptr;
  if (design.tuned_for) out.tuned_for = choice_label(design.tuned_for->axes, design.grids, design.paths);
  for (std::size_t r = 0; r < found.rows.size(); ++r) {
    GridRow& row = found.rows[r];
    out.rows.push_back(std::move(row.cell));
    if (design.tuned)
      design.tuned->add_row({std::move(row.tree), row.config.start, std::move(row.seeds)});
    else
      for (const std::uint64_t seed : row.seeds) add_trial(out, r, row.config, seed);
  }
  if (!design.tuned) return;
  design.tuned->keep(std::move(design.root), std::move(design.placements));
  for (std::size_t r = 0; r < out.rows.size(); ++r) design.tuned->add_stage(out, r, {});  // later stages need results
  out.tuned = std::move(design.tuned);
}

Experiment expand(Design design, Experiment out, std::span<const std::string> sets, Problems& problems) {
  const std::vector<std::string> set_paths = apply_sets(design.root, sets, *design.sources, problems);
  out.stem = design.stem;
  state_draw_seeds(design.root);
  out.external = read_external(design.root, *design.sources, problems, out.files);
  out.whole.json = write_json(design.root, JsonStyle::indented);
  read_design(design, set_paths, problems, out);
  StartSources starts(design, problems);
  GridRows found = read_rows(design, starts, problems);
  require_two_stage_metric(design, found.rows, problems);
  starts.write(out.whole);
  add_rows(std::move(design), std::move(found), out);
  for (const PrintedNumber& number : out.printed.numbers)
    if (number.where.empty() && out.rows.size() > 1 && sets.empty())  // --set may add rows
      throw InputError(concat(number.place, ": needs \"where\", which selects one of the ", out.rows.size(), " rows"));
  for (const Trial& trial : out.trials)  // a training in epochs is checked once its data are loaded
    if (trial.config.train.steps > 0)
      require_within_training(out.probes, trial.config.train.steps, "the training of " + trial.label);
  add_start_trials(out);
  return out;
}

}  // namespace

Experiment load_experiment(const std::filesystem::path& file, std::span<const std::string> sets, std::size_t max_trials,
                           const ClassCounts& classes, std::set<std::filesystem::path> around) {
  const auto sources = std::make_shared<Sources>();
  Problems problems;
  Experiment out;
  JsonNode root = load_merged(file, *sources, problems, out.files);
  return expand({std::move(root), file.stem().string(), classes, max_trials, sources, nullptr, std::move(around)},
                std::move(out), sets, problems);
}

Experiment load_experiment(const std::filesystem::path& file, std::span<const std::string> sets, std::size_t max_trials,
                           const ClassCounts& classes) {
  return load_experiment(file, sets, max_trials, classes, {});
}

Experiment load_experiment(const WholeDescriptor& descriptor, const std::filesystem::path& file,
                           const std::string& stem, std::span<const std::string> sets, std::size_t max_trials,
                           const ClassCounts& classes) {
  const auto sources = std::make_shared<Sources>();
  Problems problems;
  Experiment out;
  out.files = {file};
  JsonNode root = parse_json(descriptor.json, sources->add(concat(file.string(), ", descriptor ", stem)), problems);
  if (!root.is_object()) throw InputError(concat(to_string(root.at), ": expected an object, got ", describe(root)));
  return expand({std::move(root), stem, classes, max_trials, sources, &descriptor}, std::move(out), sets, problems);
}

void add_trial(Experiment& out, std::size_t row, const TrialConfig& config, std::uint64_t seed) {
  Cell& cell = out.rows[row];
  Trial trial{with_seed(config, cell.start, seed), {}, row, concat(cell.label, ", seed ", seed)};
  trial.id = trial_id(trial.config);
  cell.trials.push_back(out.trials.size());
  out.trials.push_back(std::move(trial));
}

TrialConfig with_seed(const TrialConfig& config, const std::shared_ptr<const StartRow>& start, std::uint64_t seed) {
  TrialConfig out = config;
  out.seed = seed;
  if (start) out.start.trial = trial_id(with_seed(start->config, start->start, start->seed.value_or(seed)));
  return out;
}

void add_start_trials(Experiment& e) {
  std::erase_if(e.trials, [](const Trial& trial) { return trial.purpose == Purpose::start; });
  std::set<std::string> known;
  for (const Trial& trial : e.trials) known.insert(trial.id);
  for (Cell& row : e.rows) row.starts.clear();
  const std::size_t of_rows = e.trials.size();
  for (std::size_t t = 0; t < of_rows; ++t) {
    const std::size_t r = e.trials[t].row;
    std::uint64_t seed = e.trials[t].config.seed;
    for (std::shared_ptr<const StartRow> start = e.rows[r].start; start; start = start->start) {
      seed = start->seed.value_or(seed);
      Trial trial{with_seed(start->config, start->start, seed), {}, r, concat(start->label, ", seed ", seed)};
      trial.id = trial_id(trial.config);
      trial.purpose = Purpose::start;
      if (!known.insert(trial.id).second) continue;
      e.rows[r].starts.push_back(e.trials.size());
      e.trials.push_back(std::move(trial));
    }
  }
}

const Trial& first_trial(const Experiment& experiment, const Cell& row) {
  return experiment.trials[row.trials.empty() ? row.tuning.front() : row.trials.front()];
}

}  // namespace normlab
