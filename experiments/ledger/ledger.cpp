#include "experiments/ledger/ledger.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/base/strict_json.h"
#include "experiments/base/text_layout.h"
#include "experiments/results/trial_files.h"
#include "experiments/sweep/sweep_table.h"

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

class ClaimJudge {
 public:
  ClaimJudge(const Experiment& experiment, const ResultStore& store, const std::filesystem::path& timings)
      : experiment_(experiment), store_(store), timings_(timings) {}

  LedgerLine judged() {
    line_.name = experiment_.stem;
    line_.number = experiment_.stem.substr(0, experiment_.stem.find('-'));
    line_.number.erase(0, std::min(line_.number.find_first_not_of('0'), line_.number.size()));
    line_.claim = experiment_.claim;
    line_.more_to_come = experiment_.more_to_come;
    if (line_.claim.tests.empty()) {
      line_.verdict = Verdict::paper_scale;
      return std::move(line_);
    }
    line_.raised_seeds = raised_seeds_note(experiment_, store_);
    level_ = 1 - (1 - kClaimLevel) / double(line_.claim.tests.size());
    std::vector<Verdict> verdicts;
    for (std::size_t t = 0; t < line_.claim.tests.size(); ++t) {
      const ClaimTest& test = line_.claim.tests[t];
      std::vector<Estimate> estimates = estimate(test);
      std::vector<Verdict> each;
      for (Estimate& e : estimates) each.push_back(e.verdict), e.test = t;
      verdicts.push_back(combined(each, test.any));
      line_.estimates.insert(line_.estimates.end(), estimates.begin(), estimates.end());
    }
    line_.verdict = combined(verdicts);
    count_runs();
    if (line_.done < line_.runs || line_.more_to_come) line_.verdict = Verdict::not_run;
    return std::move(line_);
  }

 private:
  static TableOptions options_for(const std::string& metric) {
    TableOptions options;
    options.metric = metric;
    return options;
  }
  TableInput input_for(const std::string& metric) const {
    return sweep_table_input(experiment_, store_, options_for(metric));
  }

  std::vector<Estimate> estimate(const ClaimTest& test) {
    switch (test.kind) {
      case ClaimTestKind::timing:
        return timing(test);
      case ClaimTestKind::difference:
        return difference(test);
      case ClaimTestKind::probe:
        return probe(test);
      default: {
        RowsJudged judged = judge_rows(test, input_for(test.metric), level_);
        rows_.insert(judged.rows.begin(), judged.rows.end());
        return judged.estimates;
      }
    }
  }

  /// Contrasts of the rows that the test selects, one each. `note_lost(estimate, row)` looks for runs that do not
  /// count.
  template <class F, class L>
  std::vector<Estimate> by_row(const ClaimTest& test, const TableInput& input, F&& contrast_of, L&& note_lost) {
    const TableModel model = table_model(input, options_for(test.metric));
    const std::vector<const TableLine*> rows = selected_rows(model, input, test.where, test.place);
    std::vector<Contrast> contrasts;
    for (const TableLine* row : rows) {
      for (const std::size_t planned : planned_rows(input, row->plan_index)) rows_.insert(planned);
      contrasts.push_back(contrast_of(*row));
    }
    std::vector<Estimate> out = judge_contrasts(contrasts, test.range, level_, input.first_stage);
    for (std::size_t r = 0; r < rows.size(); ++r) note_lost(out[r], *rows[r]);
    return out;
  }

  std::vector<Estimate> difference(const ClaimTest& test) {
    const TableInput of = input_for(test.of), over = input_for(test.over);
    const double scale = of.unit == over.unit ? of.scale : 1;
    const auto contrast_of = [&](const TableLine& row) {
      Contrast contrast{.label = concat(test.of, " minus ", test.over, " of ", row.label),
                        .unit = scale == 100 ? "points" : ""};
      const std::vector<TableSeed>& others = over.rows[row.plan_index].seeds;
      for (std::size_t s = 0; s < row.seeds.size(); ++s)
        if (row.seeds[s].value && others[s].value)
          contrast.values[row.seeds[s].seed] = scale * (*row.seeds[s].value - *others[s].value);
      return contrast;
    };
    return by_row(test, of, contrast_of,
                  [](Estimate& e, const TableLine& row) { note_diverged_runs(e, std::array{&row}); });
  }

  /// The mean over the measured steps that the test asks for, of the mean over all names that match.
  std::optional<double> measured(const std::vector<MetricsLine>& curve, const std::string& pattern,
                                 const ClaimTest& test) const {
    std::vector<double> steps;
    for (const MetricsLine& line : curve) {
      double sum = 0;
      std::size_t n = 0;
      for (const auto& [name, value] : line.values)
        if (matches(pattern, name) && std::isfinite(value)) sum += value, ++n;
      if (n > 0) steps.push_back(sum / double(n));
    }
    if (steps.empty()) return std::nullopt;
    const auto wanted = test.first ? test.first : test.last;
    if (wanted && std::size_t(*wanted) < steps.size()) {
      const auto rest = std::ptrdiff_t(steps.size()) - *wanted;
      if (test.first)
        steps.erase(steps.end() - rest, steps.end());
      else
        steps.erase(steps.begin(), steps.begin() + rest);
    }
    return mean(steps);
  }

  /// What a probe test reads of one row.
  struct Measured {
    SeedValues logs;
    std::string lack;  // why some ended runs have no value: "2 of 5 runs of dpn did not measure afv/*"
  };

  Measured measured_row(const ClaimTest& test, std::size_t r) {
    const Cell& row = experiment_.rows[r];
    Measured out;
    std::map<std::string, std::size_t> lacking;  // what, and how many runs
    std::size_t ended = 0;
    for (const std::size_t t : row.trials) {
      if (!store_.finished(experiment_.trials[t].id)) continue;
      ++ended;
      const std::vector<MetricsLine> curve = curve_of(t);
      const auto of = measured(curve, test.of, test);
      const auto over = test.over.empty() ? std::optional(1.0) : measured(curve, test.over, test);
      if (curve.empty())
        ++lacking["have no curve; merge them from an archive of `normlab export --full`"];
      else if (!of || !over)
        ++lacking[concat("did not measure ", of ? test.over : test.of,
                         "; request it under \"probes\", remove the folders that `normlab plan` names, and run again")];
      else if (!(*of > 0 && *over > 0))
        ++lacking[concat("measured zero or less as ", *of > 0 ? test.over : test.of,
                         ", which has no logarithm; a test of kind \"probe\" needs positive numbers")];
      else
        out.logs[experiment_.trials[t].config.seed] = std::log(*of) - std::log(*over);
    }
    for (const auto& [what, runs] : lacking) {
      const std::string text = fmt::format("{} of {} of {} {}", runs, plural(ended, "run"), row.label, what);
      line_.problems.insert(text);
      if (out.lack.empty()) out.lack = text.substr(0, text.find(';'));
    }
    return out;
  }

  std::vector<Estimate> probe(const ClaimTest& test) {
    const TableInput input = input_for("train/loss");
    const auto measure = [&](const TableLine& row) {
      if (!row.has_runs())
        throw InputError(concat(test.place, ": the row ", row.label,
                                " has no runs of its own to measure; exclude it with a filter"));
      return measured_row(test, row.plan_index);
    };
    std::map<std::size_t, Measured> of_rows;
    Measured against;
    if (!test.against.empty()) {
      const TableModel model = table_model(input, options_for("train/loss"));
      const auto rows = selected_rows(model, input, test.against, test.place);
      if (rows.size() != 1)
        throw InputError(concat(test.place, ": \"against\" selects ", rows.size(), " rows; expected one"));
      rows_.insert(rows[0]->plan_index);
      against = measure(*rows[0]);
    }
    const auto contrast_of = [&](const TableLine& row) {
      Contrast contrast{.label = concat(test.of, test.over.empty() ? "" : " over ", test.over, " of ", row.label),
                        .unit = test.over.empty() && test.against.empty() ? "" : "x",
                        .logs = true};
      if (!test.against.empty()) contrast.label += concat(" against ", test.against);
      for (const auto& [seed, value] : (of_rows[row.plan_index] = measure(row)).logs)
        if (test.against.empty() || against.logs.contains(seed))
          contrast.values[seed] = value - (test.against.empty() ? 0 : against.logs.at(seed));
      return contrast;
    };
    return by_row(test, input, contrast_of, [&](Estimate& e, const TableLine& row) {
      for (const std::string& lack : {of_rows.at(row.plan_index).lack, against.lack})
        if (!lack.empty()) e.leave_undecided(lack);
    });
  }

  std::vector<Estimate> timing(const ClaimTest& test) {
    Contrast ratios{.label = concat(test.of, " over ", test.over), .unit = "x", .logs = true};
    std::ifstream in(timings_);
    std::string text;
    for (std::uint64_t line = 1; std::getline(in, text); ++line) {
      const std::string where = concat(timings_.string(), ":", line);
      const nlohmann::json document = parse_strict_json(text, where);
      const auto of = timing_value(document, test.of), over = timing_value(document, test.over);
      if (!of || !over || !(*of > 0) || !(*over > 0))
        throw InputError(
            concat(where, ": has no time ", of ? test.over : test.of, ", which ", test.place, " asks for"));
      ratios.values[line] = std::log(*of) - std::log(*over);
      if (const auto number = document.find("repetition"); number != document.end() && number->is_number_unsigned())
        last_repetition_ = std::max(last_repetition_, number->get<std::size_t>());
      note_device(document, where);
    }
    timed_ = true;
    return judge_contrasts({ratios}, test.range, level_, {});
  }

  void note_device(const nlohmann::json& document, const std::string& where) {
    const auto runs = document.find("runs");
    const nlohmann::json& first =
        runs != document.end() && runs->is_array() && !runs->empty() ? runs->front() : document;
    const auto found = first.find("device");
    const std::string device = found != first.end() && found->is_string() ? found->get<std::string>() : "cpu",
                      name = device == "cpu" ? "" : device;
    if (timed_ && line_.device != name)
      throw InputError(concat(where, ": timed on ", device, ", but earlier lines are of ",
                              line_.device.empty() ? "the CPU" : line_.device, "; keep each in a file of its own"));
    line_.device = name;
    timed_ = true;
  }

  /// The metrics of a finished trial; empty without any.
  std::vector<MetricsLine> curve_of(std::size_t trial) {
    try {
      const TrialFolder folder = store_.trial(experiment_.trials[trial].id);
      const std::optional<TrialResult> result = folder.load_result();
      if (!result || result->status == TrialEnd::failed || !has_curve(folder, *result)) return {};
      return by_measured_step(read_result_metrics(folder, *result));
    } catch (const Error& error) {
      line_.problems.insert(concat(experiment_.trials[trial].label, ": ", error.what()));
      return {};
    }
  }

  void count_runs() {
    for (const std::size_t r : rows_) {
      std::size_t learnt = 0, judged = 0;
      for (const std::size_t t : experiment_.rows[r].trials) {
        ++line_.runs;
        line_.done += store_.finished(experiment_.trials[t].id);
        const auto finished = finished_learning(curve_of(t));
        if (finished) ++judged, learnt += *finished;
      }
      line_.curves = line_.curves && judged > 0;
      if (2 * learnt < judged) line_.learning.push_back(experiment_.rows[r].label);
    }
    if (!timed_) return;
    for (const Estimate& e : line_.estimates) line_.done = std::max(line_.done, e.n);
    line_.runs = std::max({line_.claim.repeat, line_.done, last_repetition_});  // a line may have been removed
  }

  const Experiment& experiment_;
  const ResultStore& store_;
  const std::filesystem::path& timings_;
  double level_ = kClaimLevel;
  bool timed_ = false;
  std::size_t last_repetition_ = 0;  // of those in the file that are numbered
  std::set<std::size_t> rows_;       // that the tests depend on
  LedgerLine line_;
};

}  // namespace

std::optional<bool> finished_learning(const std::vector<MetricsLine>& curve) {
  double sums[2] = {};
  std::size_t counts[2] = {};
  for (const MetricsLine& line : curve) {
    const auto loss = line.values.find("train/loss");
    if (loss == line.values.end() || !std::isfinite(loss->second) || line.progress <= 0.8) continue;
    const int tenth = line.progress > 0.9;
    sums[tenth] += loss->second;
    ++counts[tenth];
  }
  if (counts[0] == 0 || counts[1] == 0) return std::nullopt;
  return sums[1] / double(counts[1]) > 0.95 * sums[0] / double(counts[0]);
}

std::optional<double> timing_value(const nlohmann::json& document, const std::string& name) {
  const std::size_t open = name.find('['), close = name.find("].");
  if (open == name.npos || close == name.npos) {
    const auto found = document.find(name);
    return found != document.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
  }
  const auto list = document.find(name.substr(0, open));
  if (list == document.end() || !list->is_array()) return std::nullopt;
  for (const nlohmann::json& row : *list) {
    bool matches = true;
    for (std::size_t from = open + 1; from < close;) {
      const std::size_t comma = std::min(name.find(", ", from), close), equals = name.find('=', from);
      if (equals == name.npos || equals > comma) return std::nullopt;
      const auto field = row.find(name.substr(from, equals - from));
      const std::string wanted = name.substr(equals + 1, comma - equals - 1);
      matches =
          matches && field != row.end() && (field->is_string() ? field->get<std::string>() : field->dump()) == wanted;
      from = comma + 2;
    }
    if (matches) return timing_value(row, name.substr(close + 2));
  }
  return std::nullopt;
}

LedgerLine judge_claim(const Experiment& experiment, const ResultStore& store, const std::filesystem::path& timings) {
  return ClaimJudge(experiment, store, timings).judged();
}

}  // namespace normlab
