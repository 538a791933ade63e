#include "experiments/lab/ledger/ledger.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/error.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/sweep_table.h"
#include "experiments/lab/tables/table_filter.h"
#include "experiments/lab/trials/exported.h"
#include "experiments/lab/trials/loss_meaning.h"

namespace normlab {
namespace {

class ClaimJudge {
 public:
  ClaimJudge(const Experiment& experiment, const ResultStore& store, const std::filesystem::path& timings)
      : experiment_(experiment),
        store_(store),
        timings_(timings),
        results_{experiment, store, row_names(experiment), line_.problems} {}

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
    for (std::size_t t = 0; t < line_.claim.tests.size(); ++t) {
      std::vector<Estimate> estimates = estimate(line_.claim.tests[t]);
      for (Estimate& e : estimates) e.test = t;
      line_.estimates.insert(line_.estimates.end(), estimates.begin(), estimates.end());
    }
    line_.verdict = verdict_of(line_.claim, line_.estimates);
    note_runs();
    judge_lengths(line_, experiment_);
    // Fewer repetitions than planned still have an interval; fewer runs than planned are an unfinished sweep.
    if ((line_.done < line_.runs && !timed_) || line_.more_to_come) line_.verdict = Verdict::not_run;
    return std::move(line_);
  }

 private:
  std::vector<Estimate> estimate(const ClaimTest& test) {
    if (test.kind == ClaimTestKind::timing) return timing(test);
    const bool of_runs = test.kind == ClaimTestKind::difference || test.kind == ClaimTestKind::probe ||
                         test.kind == ClaimTestKind::trend;
    RowsJudged judged;
    try {
      judged = of_runs ? judge_runs(test, results_, level_) : judge_rows(test, results_.table(test.metric), level_);
    } catch (const InputError& error) {  // of a metric that no result has, without the claim
      if (std::string_view(error.what()).starts_with(test.place)) throw;
      throw InputError(concat(test.place, ": ", error.what()));
    }
    rows_.insert(judged.rows.begin(), judged.rows.end());
    return std::move(judged.estimates);
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

  /// How many runs there are, and where they are from.
  void note_runs() {
    for (const std::size_t r : rows_)
      for (const std::size_t t : experiment_.rows[r].trials) line_.add(store_.trial(experiment_.trials[t].id));
    if (!timed_) return;
    for (const Estimate& e : line_.estimates) line_.done = std::max(line_.done, e.n);
    line_.runs = std::max({line_.claim.repeat, line_.done, last_repetition_});  // a line may have been removed
    if (line_.done > 0) line_.archives.insert(timings_.filename().string());
  }

  const Experiment& experiment_;
  const ResultStore& store_;
  const std::filesystem::path& timings_;
  LedgerLine line_;
  const ClaimResults results_;
  double level_ = kClaimLevel;
  bool timed_ = false;
  std::size_t last_repetition_ = 0;  // of those in the file that are numbered
  std::set<std::size_t> rows_;       // that the tests depend on
};

/// A number by its name, without sums.
std::optional<double> single_value(const nlohmann::json& document, const std::string& name) {
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
    if (matches) return single_value(row, name.substr(close + 2));
  }
  return std::nullopt;
}

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

std::string short_value(const std::string& value) {
  const auto json = nlohmann::json::parse(value, nullptr, false);
  if (!json.is_object()) return value;
  for (const char* key : {"name", "dialect", "kind"})
    if (const auto found = json.find(key); found != json.end() && found->is_string()) return found->get<std::string>();
  return value;
}

/// Whether each value of `axis` belongs to one combination of `kept` only.
bool follows_from(const std::vector<std::string>& axis, const std::vector<std::vector<std::string>>& kept) {
  std::map<std::vector<std::string>, std::string> seen;
  for (std::size_t r = 0; r < axis.size(); ++r) {
    std::vector<std::string> others;
    for (const auto& values : kept) others.push_back(values[r]);
    if (seen.emplace(others, axis[r]).first->second != axis[r]) return false;
  }
  return true;
}

}  // namespace

void RunOrigins::add(const TrialFolder& folder) {
  ++runs;
  if (!folder.finished()) return;
  ++done;
  if (const ExportedTrial* exported = folder.exported()) {
    const std::string file = exported->where.substr(0, exported->where.rfind(':'));
    archives.insert(std::filesystem::path(file).filename().string());
  }
  const std::optional<TrialResult> result = folder.load_result();
  if (!result) return;
  if (std::string copy = jpeg_copy_of(*result); !copy.empty()) copies.insert(std::move(copy));
  const auto stated = [&](const char* key) {
    const std::string* value = result->stated(key);
    return value == nullptr ? std::string() : *value;
  };
  std::string machine = stated("gpu");
  if (machine.empty()) machine = stated("cpu");
  ++machines[machine.empty() ? "unknown" : machine];
  uncommitted += stated("version").find("-dirty") != std::string::npos;
}

std::optional<double> timing_value(const nlohmann::json& document, const std::string& name) {
  double sum = 0;
  for (std::size_t from = 0; from < name.size();) {
    const std::size_t plus = std::min(name.find(" + ", from), name.size());
    std::string term = name.substr(from, plus - from);
    double times = 1;
    // "BN+FFNBN*" is the name of a norm.
    if (const std::size_t star = term.find('*'); star != term.npos) {
      if (const auto number = parse_number(term.substr(0, star))) {
        times = *number;
        term.erase(0, star + 1);
      }
    }
    const auto value = single_value(document, term);
    if (!value) return std::nullopt;
    sum += times * *value;
    from = plus + 3;
  }
  return sum;
}

LedgerLine judge_claim(const Experiment& experiment, const ResultStore& store, const std::filesystem::path& timings) {
  return ClaimJudge(experiment, store, timings).judged();
}

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
    const auto interval = staged_interval(changes, {}, 1 - (1 - kClaimLevel) / double(gains.size()));
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

std::vector<std::string> row_names(const Experiment& experiment) {
  const std::size_t rows = experiment.rows.size();
  std::vector<std::string> axes = experiment.axes;
  const auto bare = [](const std::string& path) { return path == "model.placement" || path == "row"; };
  std::stable_partition(axes.begin(), axes.end(), bare);
  std::vector<std::vector<std::string>> kept;
  std::vector<std::vector<std::string>> words(rows);
  for (const std::string& path : axes) {
    std::vector<std::string> values(rows), shown(rows);
    for (std::size_t r = 0; r < rows; ++r)
      for (const auto& [axis, label] : experiment.rows[r].axes)
        if (axis == path) values[r] = label, shown[r] = short_value(label);
    // A value that only some rows have tells these rows apart, so it is shown even if it follows from others.
    const std::set<std::string> all(values.begin(), values.end());
    if (follows_from(values, kept) && !(all.size() == 2 && all.contains(""))) continue;
    const auto distinct = [](const std::vector<std::string>& list) {
      return std::set<std::string>(list.begin(), list.end()).size();
    };
    if (distinct(shown) < distinct(values)) shown = values;
    kept.push_back(std::move(values));
    for (std::size_t r = 0; r < rows; ++r)
      if (!shown[r].empty())
        words[r].push_back(bare(path) ? shown[r] : path.substr(path.rfind('.') + 1) + " " + shown[r]);
  }
  std::vector<std::string> names;
  for (std::size_t r = 0; r < rows; ++r)
    names.push_back(words[r].empty() ? experiment.rows[r].label : joined(words[r], ", "));
  return names;
}

}  // namespace normlab
