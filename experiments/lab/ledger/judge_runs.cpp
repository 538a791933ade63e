#include "experiments/lab/ledger/ledger.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <map>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/data/class_order.h"
#include "experiments/lab/statistics/student.h"
#include "experiments/lab/tables/sweep_table.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

/// `*` in a pattern stands for any text.
bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == name;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t from = star; from <= name.size(); ++from)
    if (matches(rest, name.substr(from))) return true;
  return false;
}

/// Finite values by name, for each measured step that has some, of the steps that the test asks for.
std::vector<std::map<std::string, double>> measured_steps(const std::vector<MetricsLine>& curve,
                                                          const std::string& pattern, const ClaimTest& test) {
  std::vector<std::map<std::string, double>> steps;
  for (const MetricsLine& line : curve) {
    std::map<std::string, double> found;
    for (const auto& [name, value] : line.values)
      if (matches(pattern, name) && std::isfinite(value)) found[name] = value;
    if (!found.empty()) steps.push_back(std::move(found));
  }
  const auto wanted = test.first ? test.first : test.last;
  if (!wanted || std::size_t(*wanted) >= steps.size()) return steps;
  return test.first ? std::vector(steps.begin(), steps.begin() + *wanted)
                    : std::vector(steps.end() - *wanted, steps.end());
}

/// The mean over these steps of the mean over all names.
std::optional<double> mean_measured(const std::vector<MetricsLine>& curve, const std::string& pattern,
                                    const ClaimTest& test) {
  std::vector<double> means;
  for (const auto& step : measured_steps(curve, pattern, test)) {
    double sum = 0;
    for (const auto& [name, value] : step) sum += value;
    means.push_back(sum / double(step.size()));
  }
  if (means.empty()) return std::nullopt;
  return mean(means);
}

/// Spearman's correlation of each name's mean over these steps with its place in the network.
std::optional<double> measured_trend(const std::vector<MetricsLine>& curve, const ClaimTest& test) {
  std::map<std::string, std::vector<double>> by_name;
  for (const auto& step : measured_steps(curve, test.of, test))
    for (const auto& [name, value] : step) by_name[name].push_back(value);
  std::vector<std::string> names;
  for (const auto& [name, values] : by_name) names.push_back(name);
  std::vector<double> places, means;
  for (const std::string& name : in_natural_order(names)) {
    places.push_back(double(places.size()));
    means.push_back(mean(by_name.at(name)));
  }
  const double correlation = spearman(places, means);
  return std::isfinite(correlation) ? std::optional(correlation) : std::nullopt;
}

TableOptions plain_table(const std::string& metric) {
  TableOptions options;
  options.metric = metric;
  return options;
}

constexpr const char* kNoCurve = "have no curve; merge them from an archive of `normlab export --full`";

class RunJudge {
 public:
  RunJudge(const ClaimTest& test, const ClaimResults& results, double level)
      : test_(test),
        results_(results),
        level_(level),
        metric_(test.kind == ClaimTestKind::difference ? test.of : kTrainLoss),
        input_(results.table(metric_)),
        model_(table_model(input_, plain_table(metric_))) {}

  RowsJudged judged() {
    switch (test_.kind) {
      case ClaimTestKind::difference:
        return difference();
      case ClaimTestKind::trend:
        return trend();
      default:
        return probe();
    }
  }

 private:
  using Lines = std::vector<const TableLine*>;

  /// Values of one row's runs by seed, and why some ended runs have none: "2 of 5 runs of dpn did not measure afv/*".
  struct Measured {
    SeedValues values;
    std::string lack;
  };

  /// Contrasts of the rows that the test selects, one each. `note_lost(estimate, row)` looks for runs that do not
  /// count.
  template <class F, class L>
  RowsJudged by_row(F&& contrast_of, L&& note_lost) {
    const Lines lines = selected_rows(model_, input_, test_.where, test_.place);
    std::vector<Contrast> contrasts;
    for (const TableLine* line : lines) {
      for (const std::size_t planned : planned_rows(input_, line->plan_index)) rows_.insert(planned);
      contrasts.push_back(contrast_of(*line));
      contrasts.back().rows.insert(contrasts.back().rows.begin(), line->plan_index);
    }
    RowsJudged out{rows_, judge_contrasts(contrasts, test_.range, level_, input_.first_stage)};
    for (std::size_t r = 0; r < lines.size(); ++r) note_lost(out.estimates[r], *lines[r]);
    return out;
  }

  RowsJudged difference() {
    const TableInput over = results_.table(test_.over);
    const double scale = input_.unit == over.unit ? input_.scale : 1;
    const auto contrast_of = [&](const TableLine& row) {
      Contrast contrast{.label = concat(test_.of, " minus ", test_.over, " of ", row.label),
                        .unit = scale == 100 ? "points" : ""};
      const std::vector<TableSeed>& others = over.rows[row.plan_index].seeds;
      for (std::size_t s = 0; s < row.seeds.size(); ++s)
        if (row.seeds[s].value && others[s].value)
          contrast.values[row.seeds[s].seed] = scale * (*row.seeds[s].value - *others[s].value);
      return contrast;
    };
    return by_row(contrast_of, [](Estimate& e, const TableLine& row) { note_diverged_runs(e, std::array{&row}); });
  }

  /// `value_of(curve, why)` of each ended run of the row; without a value it says why.
  template <class F>
  Measured measure(const TableLine& row, F&& value_of) {
    if (!row.has_runs())
      throw InputError(
          concat(test_.place, ": the row ", row.label, " has no runs of its own to measure; exclude it with a filter"));
    Measured out;
    std::map<std::string, std::size_t> lacking;  // what, and how many runs
    std::size_t ended = 0;
    for (const std::size_t t : results_.experiment.rows[row.plan_index].trials) {
      const Trial& trial = results_.experiment.trials[t];
      if (!results_.store.finished(trial.id)) continue;
      ++ended;
      const std::vector<MetricsLine> curve = results_.curve(t);
      std::string why = kNoCurve;
      const std::optional<double> value = curve.empty() ? std::nullopt : value_of(curve, why);
      if (value)
        out.values[trial.config.seed] = *value;
      else
        ++lacking[why];
    }
    for (const auto& [what, runs] : lacking) {
      const std::string text = fmt::format("{} of {} of {} {}", runs, plural(ended, "run"), row.label, what);
      results_.problems.insert(text);
      if (out.lack.empty()) out.lack = text.substr(0, text.find(';'));
    }
    return out;
  }

  static std::string not_measured(const std::string& name) {
    return concat("did not measure ", name,
                  "; request it under \"probes\", remove the folders that `normlab plan` names, and run again");
  }

  /// The logarithm of a ratio of two measurements.
  Measured measured_ratio(const TableLine& row, const std::string& measured) {
    return measure(row, [&](const std::vector<MetricsLine>& curve, std::string& why) -> std::optional<double> {
      const auto above = mean_measured(curve, measured, test_);
      const auto below = test_.over.empty() ? std::optional(1.0) : mean_measured(curve, test_.over, test_);
      if (!above || !below) {
        why = not_measured(above ? test_.over : measured);
        return std::nullopt;
      }
      if (*above > 0 && *below > 0) return std::log(*above) - std::log(*below);
      why = concat("measured zero or less as ", *above > 0 ? test_.over : measured,
                   ", which has no logarithm; a test of kind \"probe\" needs positive numbers");
      return std::nullopt;
    });
  }

  RowsJudged probe() {
    std::map<std::size_t, Measured> of_rows;
    Measured against;
    std::string against_name;
    const std::string& other = test_.against_of.empty() ? test_.of : test_.against_of;
    if (!test_.against.empty()) {
      const Lines lines = selected_rows(model_, input_, test_.against, test_.place);
      if (lines.size() != 1)
        throw InputError(concat(test_.place, ": \"against\" selects ", lines.size(), " rows; expected one"));
      rows_.insert(lines[0]->plan_index);
      against = measured_ratio(*lines[0], other);
      const std::string over = test_.over.empty() ? "" : " over " + test_.over;
      against_name =
          concat(" against ", test_.against_of.empty() ? "" : test_.against_of + over + " of ", lines[0]->label);
    }
    const auto contrast_of = [&](const TableLine& row) {
      Contrast contrast{
          .label = concat(test_.of, test_.over.empty() ? "" : " over ", test_.over, " of ", row.label, against_name),
          .unit = test_.over.empty() && test_.against.empty() ? "" : "x",
          .logs = true};
      for (const auto& [seed, value] : (of_rows[row.plan_index] = measured_ratio(row, test_.of)).values)
        if (test_.against.empty() || against.values.contains(seed))
          contrast.values[seed] = value - (test_.against.empty() ? 0 : against.values.at(seed));
      return contrast;
    };
    return by_row(contrast_of, [&](Estimate& e, const TableLine& row) {
      for (const std::string& lack : {of_rows.at(row.plan_index).lack, against.lack})
        if (!lack.empty()) e.leave_undecided(lack);
    });
  }

  RowsJudged trend() {
    std::map<std::size_t, Measured> of_rows;
    const auto contrast_of = [&](const TableLine& row) {
      Measured& measured = of_rows[row.plan_index];
      measured = measure(row, [&](const std::vector<MetricsLine>& curve, std::string& why) {
        const auto value = measured_trend(curve, test_);
        if (!value) why = not_measured(test_.of + " at two places or more");
        return value;
      });
      return Contrast{.label = concat("rank correlation of ", test_.of, " with depth, ", row.label),
                      .unit = "",
                      .values = measured.values};
    };
    return by_row(contrast_of, [&](Estimate& e, const TableLine& row) {
      e.low = std::max(e.low, -1.0);  // no correlation is beyond
      e.high = std::min(e.high, 1.0);
      if (const std::string& lack = of_rows.at(row.plan_index).lack; !lack.empty()) e.leave_undecided(lack);
    });
  }

  const ClaimTest& test_;
  const ClaimResults& results_;
  const double level_;
  const std::string metric_;
  const TableInput input_;
  const TableModel model_;
  std::set<std::size_t> rows_;  // that the estimates depend on
};

}  // namespace

TableInput ClaimResults::table(const std::string& metric) const {
  TableInput input = sweep_table_input(experiment, store, plain_table(metric));
  for (std::size_t r = 0; r < input.rows.size() && r < names.size(); ++r) input.rows[r].label = names[r];
  return input;
}

std::vector<MetricsLine> ClaimResults::curve(std::size_t trial) const {
  try {
    const TrialFolder folder = store.trial(experiment.trials[trial].id);
    const std::optional<TrialResult> result = folder.load_result();
    if (!result || result->status == TrialEnd::failed || !has_curve(folder, *result)) return {};
    return by_measured_step(read_result_metrics(folder, *result));
  } catch (const Error& error) {
    problems.insert(concat(experiment.trials[trial].label, ": ", error.what()));
    return {};
  }
}

RowsJudged judge_runs(const ClaimTest& test, const ClaimResults& results, double level) {
  return RunJudge(test, results, level).judged();
}

}  // namespace normlab
