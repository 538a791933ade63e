// Verdicts by length of training.
#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/ledger/ledger.h"

namespace normlab {
namespace {

struct Length {
  double amount = 0;  // 0: unknown
  std::string unit;   // "epoch"
  bool operator<(const Length& other) const { return std::tie(unit, amount) < std::tie(other.unit, other.amount); }
  std::string text() const { return plural(fmt::format("{:g}", amount), unit); }
};

Length length_of(const Experiment& experiment, const Estimate& e) {
  if (e.rows.empty() || e.rows.front() >= experiment.rows.size()) return {};
  const Cell& row = experiment.rows[e.rows.front()];
  if (row.trials.empty()) return {};
  const TrainConfig& train = experiment.trials[row.trials.front()].config.train;
  if (train.steps > 0) return {double(train.steps), "step"};
  if (train.images > 0) return {double(train.images), "image"};
  return {train.epochs, "epoch"};
}

/// What the estimate is about, but for the length of training.
std::vector<std::string> without_length(const Experiment& experiment, const Estimate& e) {
  std::vector<std::string> key{std::to_string(e.test)};
  for (const std::size_t r : e.rows)
    for (const auto& [axis, label] : experiment.rows.at(r).axes)
      if (axis != "train.epochs" && axis != "train.steps" && axis != "train.images") key.push_back(axis + "=" + label);
  return key;
}

}  // namespace

void judge_lengths(LedgerLine& line, const Experiment& experiment) {
  std::map<Length, std::vector<Estimate>> lengths;
  std::map<std::vector<std::string>, std::map<Length, const Estimate*>> gains;
  bool all_gains = true;
  for (const Estimate& e : line.estimates) {
    const Length length = length_of(experiment, e);
    if (length.amount > 0) lengths[length].push_back(e);
    if (line.claim.tests[e.test].margin && length.amount > 0)
      gains[without_length(experiment, e)][length] = &e;
    else
      all_gains = false;
  }
  if (lengths.size() > 1)
    for (const auto& [length, estimates] : lengths)
      line.by_length.emplace_back(length.text(), verdict_of(line.claim, estimates));

  for (const auto& [key, by_length] : gains) {
    const auto last = std::prev(by_length.end());
    const auto half = by_length.find({last->first.amount / 2, last->first.unit});
    if (half == by_length.end()) continue;
    Doubling& doubling = line.doublings.emplace_back(
        Doubling{.label = last->second->label, .from = half->first.text(), .to = last->first.text()});
    doubling.margin = *line.claim.tests[last->second->test].margin;
    SeedValues changes;
    for (const auto& [seed, value] : last->second->values)
      if (const auto found = half->second->values.find(seed); found != half->second->values.end())
        changes[seed] = value - found->second;
    const auto interval = staged_interval(changes, 1 - (1 - kClaimLevel) / double(gains.size()), {});
    if (!interval || !interval->half_width) {
      line.doublings.pop_back();
      continue;
    }
    doubling.value = interval->mean;
    doubling.low = interval->mean - *interval->half_width;
    doubling.high = interval->mean + *interval->half_width;
    doubling.within = -doubling.margin <= doubling.low && doubling.high <= doubling.margin;
  }
  // Trainings of the longest length must say what the claim's verdict says.
  const Verdict last = lengths.size() > 1 ? line.by_length.back().second : line.verdict;
  line.ends = last == line.verdict && line.verdict < Verdict::undecided && all_gains && !gains.empty() &&
              line.doublings.size() == gains.size() &&
              std::all_of(line.doublings.begin(), line.doublings.end(), [](const Doubling& d) { return d.within; });
}

}  // namespace normlab
