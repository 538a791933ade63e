#include "experiments/descriptor/tune.h"

#include <algorithm>
#include <array>
#include <limits>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/base/suggest.h"
#include "experiments/descriptor/canonical.h"
#include "experiments/descriptor/known_images.h"
#include "experiments/descriptor/merge.h"
#include "experiments/descriptor/slice.h"

namespace normlab {
namespace {

constexpr std::array<std::string_view, 4> kMetrics{"eval/accuracy", "eval/loss", "eval/ema_accuracy", "eval/ema_loss"};

/// The combination of a candidate: a value's index for each group, the last one fastest.
std::vector<std::size_t> combination(const Grid& grid, std::size_t candidate) {
  std::vector<std::size_t> index(grid.groups.size());
  for (std::size_t g = index.size(); g-- > 0;) {
    const std::size_t count = grid.groups[g].front().values.size();
    index[g] = candidate % count;
    candidate /= count;
  }
  return index;
}

double number_of(const JsonNode& node) {
  if (node.kind == JsonKind::real) return node.real;
  if (node.kind == JsonKind::integer) return double(node.integer);
  if (node.kind == JsonKind::natural) return double(node.natural);
  return std::numeric_limits<double>::quiet_NaN();
}

/// Whether the value is the least or the largest of its axis's numbers. Nothing lies below a rate of 0.
bool is_at_edge(const Axis& axis, std::size_t value) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const AxisValue& v : axis.values) {
    const double number = number_of(v.node);
    if (number != number) return false;
    low = std::min(low, number);
    high = std::max(high, number);
  }
  const double chosen = number_of(axis.values[value].node);
  return low < high && (chosen == high || (chosen == low && low != 0));
}

/// So that a problem in it is told at its place in the list and not where it is laid over the row.
void keep_pointers(JsonNode& node, const std::string& pointer, Sources& sources) {
  node.at.pointer = sources.keep(pointer);
  for (JsonMember& member : node.members) {
    const std::string inner = pointer + pointer_step(member.key);
    member.key_at.pointer = sources.keep(inner);
    keep_pointers(member.value, inner, sources);
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) keep_pointers(node.items[i], concat(pointer, "/", i), sources);
}

class TuneReader {
 public:
  TuneReader(const std::vector<std::string>& swept, PlacementRows& rows, Sources& sources, Problems& problems)
      : taken_(swept), swept_(swept.size()), rows_(rows), sources_(sources), problems_(problems) {}

  std::vector<TuneStage> read(const JsonNode& node) {
    const JsonPath root{}, path{&root, "tune", &node.at};
    std::vector<TuneStage> stages;
    if (node.kind != JsonKind::array || node.items.empty()) {
      report(node.at, path,
             "expected a list of stages, got " +
                 (node.kind == JsonKind::array ? std::string("an empty one") : describe(node)));
      return stages;
    }
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const std::string number = std::to_string(i);
      TuneStage stage;
      if (read(node.items[i], JsonPath{&path, number, &node.items[i].at}, stage)) stages.push_back(std::move(stage));
    }
    return stages;
  }

 private:
  void report(const Position& at, const JsonPath& path, const std::string& what) {
    problems_.add(at, path.pointer(), what);
  }

  bool read(const JsonNode& node, const JsonPath& path, TuneStage& stage) {
    const std::vector<std::string_view> keys{"axes", "dataset", "train", "seeds", "metric"};
    if (!node.is_object()) return report(node.at, path, "expected an object, got " + describe(node)), false;
    stage.at = node.at;
    stage.at.pointer = sources_.keep(path.pointer());
    for (const JsonMember& member : node.members) {
      const JsonPath here{&path, member.key, &member.value.at};
      if (member.key == "axes")
        stage.grid = read_axes(member.value, here, rows_, sources_, problems_);
      else if (member.key == "seeds")
        stage.seeds = read_seeds(member.value, here, problems_);
      else if (member.key == "metric")
        read_metric(member.value, here, stage);
      else if (member.key == "dataset" || member.key == "train")
        read_overlay(member, here, stage);
      else
        report(member.key_at, JsonPath{&path, member.key, &member.key_at}, unknown_key(member.key, keys));
    }
    if (node.find("axes") == nullptr) report(node.at, path, "give its \"axes\"");
    if (node.find("dataset") == nullptr ||
        (node.find("dataset")->value.is_object() && node.find("dataset")->value.find("eval") == nullptr))
      report(node.at, path,
             "give its \"dataset\" an \"eval\" slice, a part of the training images such as \"train[90%:]\" beside "
             "\"train\": \"train[:90%]\": values are chosen by it, so it must not be what the table shows");
    for (const AxisGroup& group : stage.grid.groups)
      for (const Axis& axis : group) check_axis(axis);
    return !stage.grid.groups.empty();
  }

  void read_metric(const JsonNode& node, const JsonPath& path, TuneStage& stage) {
    if (!node.is_string()) return report(node.at, path, "expected a word, got " + describe(node));
    if (std::find(kMetrics.begin(), kMetrics.end(), node.text) == kMetrics.end())
      return report(node.at, path, unknown_word("metric", node.text, {kMetrics.begin(), kMetrics.end()}));
    stage.metric = node.text;
  }

  void read_overlay(const JsonMember& member, const JsonPath& path, TuneStage& stage) {
    if (!member.value.is_object())
      return report(member.value.at, path,
                    concat("expected an object with the settings of ", in_quotes(member.key), " that differ, got ",
                           describe(member.value)));
    JsonMember& laid = stage.overlay.members.emplace_back(member);
    keep_pointers(laid.value, path.pointer(), sources_);
    laid.key_at.pointer = laid.value.at.pointer;
  }

  void check_axis(const Axis& axis) {
    const auto refuse = [&](const std::string& what) { problems_.add(axis.key_at, *axis.key_at.pointer, what); };
    if (is_within(axis.path, "dataset"))
      return refuse("the data are nothing to be chosen by their result; tune \"model\" or \"train\"");
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      const std::string& other = taken_[i];
      const char* const where = i < swept_ ? "the sweep" : "an earlier stage";
      if (axis.path == other) return refuse(concat(other, " is an axis of ", where, " already"));
      if (is_within(other, axis.path)) return refuse(concat("would undo ", other, ", an axis of ", where));
    }
    taken_.push_back(axis.path);
  }

  std::vector<std::string> taken_;
  std::size_t swept_;
  PlacementRows& rows_;
  Sources& sources_;
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
                                 Sources& sources, Problems& problems) {
  return TuneReader(swept, rows, sources, problems).read(node);
}

bool TunedRows::apply(JsonNode& tree, std::size_t stage, std::size_t candidate, Problems& problems) const {
  const Grid& grid = stages_[stage].grid;
  const std::vector<std::size_t> index = combination(grid, candidate);
  bool complete = true;
  for (std::size_t g = 0; g < grid.groups.size(); ++g)
    for (const Axis& axis : grid.groups[g])
      complete = set_path(tree, axis.path, axis.values[index[g]].node, axis.key_at, problems) && complete;
  return complete;
}

std::pair<TrialConfig, std::string> TunedRows::check_row(const JsonNode& tree, PlacementRows& rows,
                                                         Problems& problems) const {
  TrialConfig first;
  std::string identity;
  for (std::size_t s = 0; s < stages_.size(); ++s)
    for (std::size_t c = 0; c < stages_[s].candidates(); ++c) {
      JsonNode trial = tree;  // with the stages before; those to come leave it as the descriptor has it
      bool complete = true;
      for (std::size_t other = 0; other <= s; ++other)
        complete = apply(trial, other, other == s ? c : 0, problems) && complete;
      JsonNode own = trial;
      for (std::size_t other = s + 1; other < stages_.size(); ++other)
        complete = apply(own, other, 0, problems) && complete;
      if (!complete) continue;
      const TrialConfig config = read_trial(own, rows, ReadMode::descriptor, problems, classes_);
      if (s == 0 && c == 0) first = config;
      merge_over(trial, stages_[s].overlay);
      const TrialConfig tuning = read_trial(trial, rows, ReadMode::descriptor, problems, classes_);
      if (!problems.empty()) continue;
      check_slices(stages_[s], config.dataset, tuning.dataset, problems);
      identity += canonical_json(config) + canonical_json(tuning);
    }
  return {first, identity};
}

void TunedRows::check_slices(const TuneStage& stage, const DatasetConfig& own, const DatasetConfig& tuning,
                             Problems& problems) const {
  const JsonMember* dataset = stage.overlay.find("dataset");
  const JsonMember* eval = dataset == nullptr ? nullptr : dataset->value.find("eval");
  if (eval == nullptr) return;  // said already
  const auto check = [&](const std::string& other, const char* whose) {
    const std::int64_t images = known_split_images(tuning, parse_slice(other).split).value_or(0);
    if (const std::string why = shared_images(tuning.eval, other, images); !why.empty())
      problems.add(eval->value.at, *eval->value.at.pointer,
                   concat(in_quotes(tuning.eval), " ", why, " ", in_quotes(other), ", ", whose));
  };
  try {
    if (own.name == tuning.name && own.path == tuning.path)
      check(own.eval, "which the table shows: values must be chosen by other images");
    check(tuning.train, "on which these trials are trained");
  } catch (const InputError& error) {
    problems.add(eval->value.at, *eval->value.at.pointer, error.what());
  }
}

TrialConfig TunedRows::read(std::size_t row, std::span<const std::size_t> chosen, const JsonNode* overlay) const {
  JsonNode tree = trees_.at(row);
  Problems problems;
  for (std::size_t s = 0; s < chosen.size(); ++s) apply(tree, s, chosen[s], problems);
  if (overlay != nullptr) merge_over(tree, *overlay);
  const TrialConfig config = read_trial(tree, rows_, ReadMode::descriptor, problems, classes_);
  problems.throw_if_any();
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
    const TrialConfig config = read(row, all, &stage.overlay);
    for (std::size_t s = 0; s < stage.seeds.size(); ++s) {
      Cell& cell = out.rows[row];
      Trial trial{config, {}, row, s, {}, /*tuning=*/true};
      trial.config.seed = stage.seeds[s];
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
