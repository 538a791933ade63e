#include "experiments/lab/descriptor/tune.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/forms.h"
#include "experiments/lab/descriptor/merge.h"
#include "experiments/lab/descriptor/slice.h"
#include "experiments/lab/descriptor/tasks.h"

namespace normlab {
namespace {

/// A least value of 0 is not an edge, since rates cannot be lower. Where several keys are drawn together, the least and
/// the largest draw of one key say little, since the others of their points are anywhere.
bool is_at_edge(const AxisGroup& group, const Axis& axis, std::size_t value) {
  if (axis.drawn_from && group.size() > 1) return false;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const AxisValue& v : axis.values) {
    const double number = v.node.number();
    if (number != number) return false;
    low = std::min(low, number);
    high = std::max(high, number);
  }
  const double chosen = axis.values[value].node.number();
  const double least = axis.drawn_from ? (*axis.drawn_from)[0] : low;
  return low < high && (chosen == high || (chosen == low && least != 0));
}

/// `taken`: axes of the sweep, the first `swept`, and of earlier stages.
void check_axis(const Axis& axis, std::size_t swept, std::vector<std::string>& taken, Problems& problems) {
  const auto refuse = [&](const std::string& what) { problems.add(axis.key_at, what); };
  if (is_within(axis.path, "dataset") || axis.path == kBenchmarkAxis)
    return refuse("the data cannot be tuned; tune \"model\" or \"train\"");
  if (axis.path == kLeaveOneOutAxis) return refuse("features are left out in \"sweep\"");
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const std::string& other = taken[i];
    const char* const where = i < swept ? "the sweep" : "an earlier stage";
    if (axis.path == other) return refuse(concat(other, " is an axis of ", where, " already"));
    if (is_within(other, axis.path)) return refuse(concat("would overwrite ", other, ", an axis of ", where));
  }
  taken.push_back(axis.path);
}

}  // namespace

void Form<TuneMetric>::read(FieldReader& in, const JsonNode& node, TuneMetric& out, Range) {
  constexpr auto& kMetrics = kWords<TuneMetric>;
  if (!node.is_string()) return in.report(node.at, "expected a word, got " + describe(node));
  if (!find_word(node.text, out))
    in.report(node.at, unknown_word("metric", node.text, {kMetrics.begin(), kMetrics.end()}));
}

void Form<TuneStage>::read(FieldReader& in, const JsonNode& node, TuneStage& out, Range) {
  out.at = node.at;
  in.object(node, out);
  out.by_minival = out.dataset.settings.find("eval") == nullptr;
  if (out.then_train_on == ThenTrainOn::train_and_minival && !out.by_minival)
    in.report(node.at, "with a slice of its own a stage does not look at the minival; leave \"then_train_on\" out");
}

std::vector<TunedValue> TuneStage::values(std::size_t candidate) const {
  std::vector<TunedValue> out;
  const std::vector<std::size_t> index = combination(grid, candidate);
  for (std::size_t g = 0; g < grid.groups.size(); ++g)
    for (const Axis& axis : grid.groups[g])
      out.push_back({axis.path, axis.values[index[g]].label, is_at_edge(grid.groups[g], axis, index[g])});
  return out;
}

std::string TuneStage::label(std::size_t candidate) const {
  std::string out;
  for (const TunedValue& value : values(candidate))
    out += concat(out.empty() ? "" : ", ", value.path.substr(value.path.rfind('.') + 1), "=", value.label);
  return out;
}

std::vector<TuneStage> read_tune(const JsonNode& node, const std::vector<std::string>& swept, PlacementRows& rows,
                                 Problems& problems) {
  if (!node.is_array() || node.items.empty())
    return problems.add(node.at,
                        concat("expected a list of stages, got ", node.is_array() ? "an empty one" : describe(node))),
           std::vector<TuneStage>();
  auto stages = read_value<std::vector<TuneStage>>(node, rows, problems, ReadMode::block);
  std::vector<std::string> taken = swept;
  for (const TuneStage& stage : stages)
    for (const AxisGroup& group : stage.grid.groups)
      for (const Axis& axis : group) check_axis(axis, swept.size(), taken, problems);
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (const JsonMember* axes = node.items[s].find("axes"); axes != nullptr && axes->value.members.empty())
      problems.add(axes->value.at, "is empty: a stage chooses the values of one axis or more");
  std::erase_if(stages, [](const TuneStage& stage) { return stage.grid.groups.empty(); });
  for (std::size_t s = 0; s + 1 < stages.size(); ++s)
    if (stages[s].then_train_on == ThenTrainOn::train_and_minival)
      problems.add(stages[s].at, "\"then_train_on\" says what follows the last stage; set it there");
  return stages;
}

bool TunedRows::apply(JsonNode& tree, std::size_t stage, std::size_t candidate, Problems& problems) const {
  return lay(tree, stages_[stage].grid, combination(stages_[stage].grid, candidate), problems);
}

std::pair<TrialConfig, std::string> TunedRows::check_row(const JsonNode& tree, PlacementRows& rows,
                                                         Problems& problems) const {
  TrialConfig first;
  std::string identity;
  for (std::size_t s = 0; s < stages_.size(); ++s)
    for (std::size_t c = 0; c < stages_[s].candidates(); ++c) {
      JsonNode trial = tree;  // with earlier stages applied; later ones keep the descriptor's values
      bool complete = true;
      for (std::size_t other = 0; other <= s; ++other)
        complete = apply(trial, other, other == s ? c : 0, problems) && complete;
      JsonNode own = trial;
      for (std::size_t other = s + 1; other < stages_.size(); ++other)
        complete = apply(own, other, 0, problems) && complete;
      if (!complete) continue;
      const TrialConfig config = read_own(own, rows, problems);
      if (s == 0 && c == 0) first = config;
      const TrialConfig tuning = read_tuning(std::move(trial), stages_[s], rows, problems);
      if (!problems.empty()) continue;
      check_slices(stages_[s], config.dataset, tuning.dataset, problems);
      identity += canonical_json(config) + canonical_json(tuning);
    }
  return {first, identity};
}

TrialConfig TunedRows::read_own(const JsonNode& tree, PlacementRows& rows, Problems& problems) const {
  TrialConfig config = read_trial(tree, rows, ReadMode::descriptor, problems, classes_);
  if (stages_.back().then_train_on == ThenTrainOn::train) return config;
  config.dataset.train += "+" + config.dataset.minival;
  config.dataset.minival.clear();
  return config;
}

TrialConfig TunedRows::read_tuning(JsonNode tree, const TuneStage& stage, PlacementRows& rows,
                                   Problems& problems) const {
  JsonNode overlay = json_object();
  for (const auto& [key, settings] : {std::pair{"dataset", &stage.dataset.settings}, {"train", &stage.train.settings}})
    if (settings->is_object()) overlay.add(key, *settings);
  merge_over(tree, overlay);
  TrialConfig config = read_trial(tree, rows, ReadMode::descriptor, problems, classes_);
  if (!stage.by_minival) return config;
  if (config.dataset.minival.empty())
    problems.add(stage.at,
                 "values are chosen by a part of the training images: give the \"dataset\" of the row a \"minival\" "
                 "such as \"train[90%:]\" next to \"train\": \"train[:90%]\", or the stage a \"dataset\" with such an "
                 "\"eval\" slice");
  else if (!config.train.early_stop.metric.empty())
    problems.add(stage.at, "values are chosen by the minival, so train.early_stop cannot use it as well");
  config.dataset.eval = std::move(config.dataset.minival);
  config.dataset.minival.clear();
  return config;
}

void TunedRows::check_slices(const TuneStage& stage, const DatasetConfig& own, const DatasetConfig& tuning,
                             Problems& problems) const {
  const JsonMember* eval = stage.dataset.settings.find("eval");
  if (eval == nullptr) return;  // already reported
  const auto check = [&](const std::string& other, const char* whose) {
    if (const std::string why = shared_images(tuning, tuning.eval, other); !why.empty())
      problems.add(eval->value.at, concat(in_quotes(tuning.eval), " ", why, " ", in_quotes(other), ", ", whose));
  };
  try {
    if (own.name == tuning.name && own.path == tuning.path)
      check(own.eval, "which the table shows; choose values by other images");
    check(tuning.train, "which these trials are trained on; evaluate them on other images");
  } catch (const InputError& error) {
    problems.add(eval->value.at, error.what());
  }
}

TrialConfig TunedRows::config(std::size_t row, std::span<const std::size_t> chosen, const TuneStage* stage) const {
  JsonNode tree = swept_.at(row).tree;
  Problems problems;
  for (std::size_t s = 0; s < chosen.size(); ++s) apply(tree, s, chosen[s], problems);
  TrialConfig read =
      stage == nullptr ? read_own(tree, rows_, problems) : read_tuning(std::move(tree), *stage, rows_, problems);
  problems.throw_if_any();
  read.start = swept_.at(row).start;
  return read;
}

std::vector<std::vector<std::size_t>> TunedRows::add_stage(Experiment& out, std::size_t row,
                                                           std::span<const std::size_t> chosen) const {
  const TuneStage& stage = stages_.at(chosen.size());
  std::vector<std::vector<std::size_t>> trials(stage.candidates());
  std::vector<std::size_t> all(chosen.begin(), chosen.end());
  all.push_back(0);
  for (std::size_t c = 0; c < trials.size(); ++c) {
    all.back() = c;
    const TrialConfig settings = config(row, all, &stage);
    for (std::size_t s = 0; s < stage.seeds.size(); ++s) {
      Cell& cell = out.rows[row];
      Trial trial{with_seed(settings, cell.start, stage.seeds[s]), {}, row, {}, Purpose::tuning};
      trial.id = trial_id(trial.config);
      const auto known = std::find_if(cell.tuning.begin(), cell.tuning.end(),
                                      [&](std::size_t t) { return out.trials[t].id == trial.id; });
      if (known != cell.tuning.end()) {
        trials[c].push_back(*known);
        continue;
      }
      trial.label = concat(cell.label, ", tune", stages_.size() > 1 ? concat(" ", chosen.size() + 1) : "", ": ",
                           stage.label(c), ", seed ", stage.seeds[s]);
      trials[c].push_back(out.trials.size());
      cell.tuning.push_back(out.trials.size());
      out.trials.push_back(std::move(trial));
    }
  }
  return trials;
}

}  // namespace normlab
