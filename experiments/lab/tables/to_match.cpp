#include "experiments/lab/tables/to_match.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/statistics/student.h"
#include "experiments/lab/tables/table_parts.h"
#include "experiments/lab/tables/trial_seed.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

/// The metric of a done trial by epochs or steps.
std::vector<std::pair<double, double>> curve_of(const Trial& trial, const TrialFolder& folder,
                                                const TableOptions& options) {
  const bool epochs = options.to_match == TableMatch::epochs;
  if (epochs && (trial.config.train.steps > 0 || trial.config.train.images > 0))
    throw InputError(
        fmt::format("--to-match epochs: {}: is not trained for a number of epochs; use --to-match steps", trial.label));
  const std::optional<TrialResult> result = folder.load_result();
  if (!has_curve(folder, *result))
    throw InputError(
        fmt::format("--to-match: {}: came without its learning curve; export it again with "
                    "`normlab export --full`",
                    trial.label));
  std::vector<std::pair<double, double>> curve;
  for (const MetricsLine& line : read_result_metrics(folder, *result))
    if (const auto found = line.values.find(options.metric); found != line.values.end() && std::isfinite(found->second))
      curve.emplace_back(epochs ? line.progress * trial.config.train.epochs : double(line.step), found->second);
  if (curve.empty())
    throw InputError(
        fmt::format("--to-match: {}: {} is not in its learning curve; choose one of those, such as eval/loss "
                    "or train/loss",
                    trial.label, options.metric));
  return curve;
}

}  // namespace

std::optional<double> first_match(const std::vector<std::pair<double, double>>& curve, double target, bool lower) {
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const auto [place, value] = curve[i];
    if (lower ? value > target : value < target) continue;
    if (i == 0) return place;
    const auto [before, worse] = curve[i - 1];
    return before + (place - before) * (target - worse) / (value - worse);
  }
  return std::nullopt;
}

void add_matches(TableInput& input, const Experiment& e, const ResultStore& store, const TableOptions& options) {
  if (options.to_match == TableMatch::off) return;
  if (options.lr_sensitivity || options.select != TableSelect::last || !options.rows.empty() || !options.cols.empty())
    throw InputError(
        "--to-match: has a column of its own, about the value at the end of a training; leave --lr-sensitivity, "
        "--select, --rows and --cols out");
  double narrowest = std::numeric_limits<double>::infinity();
  std::vector<std::string> at_once;
  for (std::size_t r = 0; r < input.rows.size(); ++r) {
    TableRow& row = input.rows[r];
    if (!row.baseline || *row.baseline == r) continue;
    std::vector<TableSeed>& bases = input.rows[*row.baseline].seeds;
    std::vector<double> places;
    bool at_first = false;
    for (std::size_t s = 0; s < bases.size(); ++s) {
      const TableSeed* const own = row.run_of(bases[s].seed);
      const bool pair = own != nullptr && own->state == SeedState::done && bases[s].state == SeedState::done;
      if (!pair || !own->value || !std::isfinite(*own->value)) continue;
      const Trial& trial = e.trials[e.rows[*row.baseline].trials[s]];
      const auto curve = curve_of(trial, store.trial(trial.id), options);
      ++row.match.pairs;
      if (const auto place = first_match(curve, *own->value, lower_is_better(options.metric))) places.push_back(*place);
      at_first = at_first || (!places.empty() && places.back() == curve.front().first);
    }
    row.match.reached = places.size();
    if (at_first) at_once.push_back(row.label);
    // Seeds that never get there have no place, so the mean of the others would be too small.
    if (places.size() < row.match.pairs || places.empty()) continue;
    const std::optional<Interval> interval = mean_interval(places);
    row.match.mean.value = interval->mean;
    row.match.half_width.value = interval->half_width;
    if (interval->half_width.value_or(0) > 0) narrowest = std::min(narrowest, *interval->half_width);
  }
  const bool epochs = options.to_match == TableMatch::epochs;
  const int decimals = std::isfinite(narrowest) ? decimals_for(narrowest) : epochs ? 2 : 0;
  for (TableRow& row : input.rows)
    for (Figure* figure : {&row.match.mean, &row.match.half_width})
      if (figure->value) figure->text = fixed(*figure->value, decimals);
  input.match_heading = fmt::format("{} to match", word_of(options.to_match));
  input.remarks.push_back(fmt::format(
      "{}: after how many {} the baseline first is as good in {} as the row at its end, seed by seed, linear between "
      "measurements; never: not within its training. It follows the schedule of its whole training; a shorter training "
      "may need less.",
      input.match_heading, word_of(options.to_match), options.metric));
  if (!at_once.empty())
    input.remarks.push_back(
        fmt::format("The baseline is as good at its first measurement already, so it may be so earlier: {}.",
                    first_few(at_once, [](const std::string& label) { return label; })));
}

}  // namespace normlab
