#include "experiments/lab/descriptor/tune.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/known_images.h"
#include "experiments/lab/descriptor/merge.h"
#include "experiments/lab/descriptor/slice.h"
#include "experiments/lab/descriptor/tasks.h"

namespace normlab {
namespace {

constexpr std::array<std::string_view, 6> kMetrics{"eval/accuracy", "eval/loss", "eval/ema_accuracy",
                                                   "eval/ema_loss", "eval/miou", "eval/ema_miou"};

/// An index for each group, the last group fastest.
std::vector<std::size_t> combination(const Grid& grid, std::size_t candidate) {
  std::vector<std::size_t> index(grid.groups.size());
  for (std::size_t g = index.size(); g-- > 0;) {
    const std::size_t count = grid.groups[g].front().values.size();
    index[g] = candidate % count;
    candidate /= count;
  }
  return index;
}

/// A least value of 0 is not an edge, since rates cannot be lower.
bool is_at_edge(const Axis& axis, std::size_t value) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const AxisValue& v : axis.values) {
    const double number = v.node.number();
    if (number != number) return false;
    low = std::min(low, number);
    high = std::max(high, number);
  }
  const double chosen = axis.values[value].node.number();
  return low < high && (chosen == high || (chosen == low && low != 0));
}

constexpr std::string_view kTrain = "train", kBoth = "train+minival";

class TuneReader {
 public:
  TuneReader(const std::vector<std::string>& swept, PlacementRows& rows, Problems& problems)
      : taken_(swept), swept_(swept.size()), rows_(rows), problems_(problems) {}

  std::vector<TuneStage> read(const JsonNode& node) {
    std::vector<TuneStage> stages;
    if (!node.is_array() || node.items.empty())
      problems_.add(node.at, "expected a list of stages, got " +
                                 (node.is_array() ? std::string("an empty one") : describe(node)));
    for (const JsonNode& item : node.items) {
      TuneStage stage;
      if (read(item, stage)) stages.push_back(std::move(stage));
    }
    for (std::size_t s = 0; s + 1 < stages.size(); ++s)
      if (stages[s].then_train_on_minival)
        problems_.add(stages[s].at, "\"then_train_on\" says what follows the last stage; set it there");
    return stages;
  }

 private:
  bool read(const JsonNode& node, TuneStage& stage) {
    const std::vector<std::string_view> keys{"axes", "dataset", "train", "seeds", "metric", "then_train_on"};
    if (!node.is_object()) return problems_.add(node.at, "expected an object, got " + describe(node)), false;
    stage.at = node.at;
    for (const JsonMember& member : node.members) {
      if (member.key == "axes")
        stage.grid = read_axes(member.value, rows_, problems_);
      else if (member.key == "seeds")
        stage.seeds = read_seeds(member.value, problems_);
      else if (member.key == "metric")
        read_metric(member.value, stage);
      else if (member.key == "then_train_on")
        read_then_train_on(member.value, stage);
      else if (member.key == "dataset" || member.key == "train")
        read_overlay(member, stage);
      else
        problems_.add(member.key_at, unknown_key(member.key, keys));
    }
    if (node.find("axes") == nullptr) problems_.add(node.at, "a stage needs \"axes\"");
    const JsonMember* dataset = stage.overlay.find("dataset");
    stage.by_minival = dataset == nullptr || dataset->value.find("eval") == nullptr;
    if (stage.then_train_on_minival && !stage.by_minival)
      problems_.add(node.at,
                    "with a slice of its own a stage does not look at the minival; leave \"then_train_on\" out");
    for (const AxisGroup& group : stage.grid.groups)
      for (const Axis& axis : group) check_axis(axis);
    return !stage.grid.groups.empty();
  }

  void read_metric(const JsonNode& node, TuneStage& stage) {
    if (!node.is_string()) return problems_.add(node.at, "expected a word, got " + describe(node));
    if (std::find(kMetrics.begin(), kMetrics.end(), node.text) == kMetrics.end())
      return problems_.add(node.at, unknown_word("metric", node.text, {kMetrics.begin(), kMetrics.end()}));
    stage.metric = node.text;
  }

  void read_then_train_on(const JsonNode& node, TuneStage& stage) {
    const std::string text = node.is_string() ? node.text : "";
    if (text != kTrain && text != kBoth)
      return problems_.add(node.at,
                           concat("expected ", in_quotes(kTrain), " or ", in_quotes(kBoth), ", got ", describe(node)));
    stage.then_train_on_minival = text == kBoth;
  }

  void read_overlay(const JsonMember& member, TuneStage& stage) {
    if (!member.value.is_object())
      return problems_.add(member.value.at, concat("expected an object with the settings of ", in_quotes(member.key),
                                                   " that differ, got ", describe(member.value)));
    stage.overlay.members.push_back(member);
  }

  void check_axis(const Axis& axis) {
    const auto refuse = [&](const std::string& what) { problems_.add(axis.key_at, what); };
    if (is_within(axis.path, "dataset") || axis.path == kBenchmarkAxis)
      return refuse("the data cannot be tuned; tune \"model\" or \"train\"");
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      const std::string& other = taken_[i];
      const char* const where = i < swept_ ? "the sweep" : "an earlier stage";
      if (axis.path == other) return refuse(concat(other, " is an axis of ", where, " already"));
      if (is_within(other, axis.path)) return refuse(concat("would overwrite ", other, ", an axis of ", where));
    }
    taken_.push_back(axis.path);
  }

  std::vector<std::string> taken_;
  std::size_t swept_;
  PlacementRows& rows_;
  Problems& problems_;
};

}  // namespace

std::vector<TunedValue> TuneStage::values(std::size_t candidate) const {
  std::vector<TunedValue> out;
  const std::vector<std::size_t> index = combination(grid, candidate);
  for (std::size_t g = 0; g < grid.groups.size(); ++g)
    for (const Axis& axis : grid.groups[g])
      out.push_back({axis.path, axis.values[index[g]].label, is_at_edge(axis, index[g])});
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
  return TuneReader(swept, rows, problems).read(node);
}

bool TunedRows::apply(JsonNode& tree, std::size_t stage, std::size_t candidate, Problems& problems) const {
  const Grid& grid = stages_[stage].grid;
  const std::vector<std::size_t> index = combination(grid, candidate);
  bool complete = true;
  for (std::size_t g = 0; g < grid.groups.size(); ++g)
    for (const Axis& axis : grid.groups[g]) complete = lay(tree, axis, index[g], problems) && complete;
  return complete;
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
  if (!stages_.back().then_train_on_minival) return config;
  config.dataset.train += "+" + config.dataset.minival;
  config.dataset.minival.clear();
  return config;
}

TrialConfig TunedRows::read_tuning(JsonNode tree, const TuneStage& stage, PlacementRows& rows,
                                   Problems& problems) const {
  merge_over(tree, stage.overlay);
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
  const JsonMember* dataset = stage.overlay.find("dataset");
  const JsonMember* eval = dataset == nullptr ? nullptr : dataset->value.find("eval");
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

TrialConfig TunedRows::read(std::size_t row, std::span<const std::size_t> chosen, const TuneStage* stage) const {
  JsonNode tree = trees_.at(row);
  Problems problems;
  for (std::size_t s = 0; s < chosen.size(); ++s) apply(tree, s, chosen[s], problems);
  TrialConfig config =
      stage == nullptr ? read_own(tree, rows_, problems) : read_tuning(std::move(tree), *stage, rows_, problems);
  problems.throw_if_any();
  config.start = starts_.at(row);
  return config;
}

std::vector<std::vector<std::size_t>> TunedRows::add_stage(Experiment& out, std::size_t row,
                                                           std::span<const std::size_t> chosen) const {
  const TuneStage& stage = stages_.at(chosen.size());
  std::vector<std::vector<std::size_t>> trials(stage.candidates());
  std::vector<std::size_t> all(chosen.begin(), chosen.end());
  all.push_back(0);
  for (std::size_t c = 0; c < trials.size(); ++c) {
    all.back() = c;
    const TrialConfig config = read(row, all, &stage);
    for (std::size_t s = 0; s < stage.seeds.size(); ++s) {
      Cell& cell = out.rows[row];
      Trial trial{with_seed(config, cell.start, stage.seeds[s]), {}, row, s, {}, Purpose::tuning};
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

TrialConfig TunedRows::final_config(std::size_t row, std::span<const std::size_t> chosen) const {
  return read(row, chosen, nullptr);
}

}  // namespace normlab
