#include "experiments/lab/descriptor/experiment.h"

#include <algorithm>

#include "core/error.h"
#include "experiments/lab/descriptor/design.h"
#include "experiments/lab/descriptor/merge.h"
#include "experiments/lab/descriptor/row_label.h"
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

void add_rows(Design design, GridRows found, Experiment& out) {
  out.axes = design.paths;
  out.groups = design.benchmarks.groups();
  out.duplicates = found.duplicates;
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
      design.tuned->add_row(std::move(row.tree), row.config.start, std::move(row.seeds));
    else
      for (const std::uint64_t seed : row.seeds) add_trial(out, r, row.config, seed);
  }
  if (!design.tuned) return;
  design.tuned->keep(std::move(design.root), std::move(design.placements));
  for (std::size_t r = 0; r < out.rows.size(); ++r) design.tuned->add_stage(out, r, {});  // later stages need results
  out.tuned = std::move(design.tuned);
}

/// `root` has no "extends" left.
Experiment expand(JsonNode root, Experiment out, std::span<const std::string> sets, std::size_t max_trials,
                  const ClassCounts& classes, const std::shared_ptr<Sources>& sources, Problems& problems,
                  const WholeDescriptor* whole) {
  const std::vector<std::string> set_paths = apply_sets(root, sets, *sources, problems);
  out.whole.json = write_json(root, JsonStyle::indented);
  Design design{std::move(root), out.stem, classes, max_trials, sources};
  read_design(design, set_paths, problems, out);
  StartSources starts(whole);
  GridRows found = read_rows(design, starts, problems);
  require_two_stage_metric(design, found.rows, problems);
  add_rows(std::move(design), std::move(found), out);
  starts.write(out.whole);
  for (const Trial& trial : out.trials)  // a training in epochs is checked once its data are loaded
    if (trial.config.train.steps > 0)
      require_within_training(out.probes, trial.config.train.steps, "the training of " + trial.label);
  add_start_trials(out);
  return out;
}

}  // namespace

Experiment load_experiment(const std::filesystem::path& file, std::span<const std::string> sets, std::size_t max_trials,
                           const ClassCounts& classes) {
  const auto sources = std::make_shared<Sources>();
  Problems problems;
  Experiment out;
  out.stem = file.stem().string();
  JsonNode root = load_merged(file, *sources, problems, out.files);
  return expand(std::move(root), std::move(out), sets, max_trials, classes, sources, problems, nullptr);
}

Experiment load_experiment(const WholeDescriptor& descriptor, const std::filesystem::path& file,
                           const std::string& stem, std::span<const std::string> sets, std::size_t max_trials,
                           const ClassCounts& classes) {
  const auto sources = std::make_shared<Sources>();
  Problems problems;
  Experiment out;
  out.stem = stem;
  out.files = {file};
  JsonNode root = parse_json(descriptor.json, sources->add(concat(file.string(), ", descriptor ", stem)), problems);
  if (!root.is_object()) throw InputError(concat(to_string(root.at), ": expected an object, got ", describe(root)));
  return expand(std::move(root), std::move(out), sets, max_trials, classes, sources, problems, &descriptor);
}

}  // namespace normlab
