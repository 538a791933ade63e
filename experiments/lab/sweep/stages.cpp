#include "experiments/lab/sweep/stages.h"

#include <cmath>
#include <limits>
#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/descriptor/tune.h"
#include "experiments/lab/statistics/stein.h"
#include "experiments/lab/trials/loss_meaning.h"

namespace normlab {
namespace {

using Json = nlohmann::ordered_json;

/// The results of some trials; none until all of them are finished. `smoothing` gets what their `metric` contains of
/// their label smoothing.
std::optional<std::vector<TrialResult>> results_of(const Experiment& e, const std::vector<std::size_t>& trials,
                                                   const ResultStore& store, const std::string& metric,
                                                   std::set<double>& smoothing) {
  std::vector<TrialResult> results;
  for (const std::size_t t : trials) {
    std::optional<TrialResult> result = store.trial(e.trials[t].id).load_result();
    if (!result || result->status == TrialEnd::failed) return std::nullopt;
    if (is_evaluation_loss(metric)) smoothing.insert(smoothing_in_losses(*result, e.trials[t].config));
    results.push_back(std::move(*result));
  }
  return results;
}

/// InputError if the losses to decide by do not compare.
void require_comparable(const Experiment& e, const std::string& metric, const std::set<double>& smoothing) {
  if (smoothing.size() > 1)
    throw InputError(concat(e.stem, ": nothing can be decided by ", metric,
                            ": that of some of these trials contains their label smoothing, because an older version "
                            "measured it; remove the folders of the older trials and run them again"));
}

double metric_of(const TrialResult& result, const std::string& metric) {
  const auto found = result.metrics.find(metric);
  if (found != result.metrics.end()) return found->second;
  std::vector<std::string_view> known;
  for (const auto& [name, value] : result.metrics) known.push_back(name);
  throw InputError(
      concat("trial ", result.id.substr(0, 12), ": its result has no ", unknown_word("metric", metric, known)));
}

Json ids_of(const Experiment& e, const std::vector<std::size_t>& trials) {
  Json ids = Json::array();
  for (const std::size_t t : trials) ids.push_back(e.trials[t].id);
  return ids;
}

/// A decision that is made once for all processes: the first file published counts.
class Decision {
 public:
  /// `question` distinguishes decisions about the same trials.
  Decision(const ResultStore& store, const std::string& stem, const std::string& kind, Json question)
      : store_(store),
        folder_(stem + "/fixed"),
        name_(concat(kind, "-", sha256_hex(question.dump()).substr(0, 16), ".json")),
        question_(std::move(question)) {}

  /// The recorded decision, if any.
  std::optional<nlohmann::json> known() const {
    nlohmann::json note = store_.note(folder_, name_);
    if (note.is_null()) return std::nullopt;
    const nlohmann::json asked(question_);
    for (const auto& [key, value] : asked.items())
      if (!note.contains(key) || note[key] != value)
        throw InputError(concat(file().string(), ": is damaged: its ", in_quotes(key),
                                " does not match the decision that the file is named after; delete this file, and the "
                                "decision is made again from the results"));
    return note;
  }

  /// Records the decision if this is a run, and returns the one that counts.
  nlohmann::json settle(const Json& decision, Record record) const {
    Json note = question_;
    note.update(decision);
    if (record == Record::no) return nlohmann::json::parse(note.dump());
    make_folders(file().parent_path());
    publish(file(), write_note(note), store_.first_wins());
    return *known();
  }

  /// A whole number from the decision.
  std::uint64_t number(const nlohmann::json& decided, const std::string& key) const {
    if (!decided.contains(key) || !decided[key].is_number_unsigned())
      throw InputError(concat(file().string(), ": ", in_quotes(key),
                              " is not a number; delete this file, and the decision is made again from the results"));
    return decided[key].get<std::uint64_t>();
  }

  std::filesystem::path file() const { return store_.out() / "experiments" / folder_ / name_; }

 private:
  const ResultStore& store_;
  const std::string folder_, name_;
  const Json question_;
};

struct Candidate {
  double mean = std::numeric_limits<double>::quiet_NaN();  // over the seeds that did not diverge
  std::size_t diverged = 0;
};

/// Fewer diverged seeds first, then the better mean. A candidate without a mean never beats one that has it.
bool better(const Candidate& a, const Candidate& b, bool lower) {
  if (a.diverged != b.diverged) return a.diverged < b.diverged;
  return lower ? a.mean < b.mean : a.mean > b.mean;
}

class Stages {
 public:
  Stages(Experiment e, const ResultStore& store, Record record) : e_(std::move(e)), store_(store), record_(record) {}

  Experiment run() {
    e_.more_to_come = false;
    if (e_.tuned) tune();
    if (e_.two_stage) fix_seeds();
    return std::move(e_);
  }

 private:
  void tune() {
    e_.trials.clear();
    for (Cell& row : e_.rows) row.trials.clear(), row.tuning.clear(), row.chosen.clear();
    for (std::size_t r = 0; r < e_.rows.size(); ++r) {
      std::vector<std::size_t> chosen;
      while (chosen.size() < e_.tuned->stages().size()) {
        const std::optional<std::size_t> best = choose(r, chosen);
        if (!best) break;
        for (TunedValue& value : e_.tuned->stages()[chosen.size()].values(*best))
          e_.rows[r].chosen.push_back(std::move(value));
        chosen.push_back(*best);
      }
      if (chosen.size() < e_.tuned->stages().size()) {
        e_.more_to_come = true;
        continue;
      }
      const TrialConfig config = e_.tuned->config(r, chosen);
      for (const std::uint64_t seed : e_.tuned->seeds(r)) add_trial(e_, r, config, seed);
    }
  }

  /// The winner of the row's next stage; none until its trials are finished.
  std::optional<std::size_t> choose(std::size_t r, const std::vector<std::size_t>& chosen) {
    const TuneStage& stage = e_.tuned->stages()[chosen.size()];
    const std::vector<std::vector<std::size_t>> tried = e_.tuned->add_stage(e_, r, chosen);
    const std::string metric =
        metric_for(task_of(e_.trials[tried.front().front()].config.model), std::string(word_of(stage.metric)));
    Json question{{"row", e_.rows[r].label}, {"stage", chosen.size() + 1}, {"metric", metric}};
    for (std::size_t c = 0; c < tried.size(); ++c)
      question["candidates"].push_back({{"values", stage.label(c)}, {"trials", ids_of(e_, tried[c])}});
    const Decision decision(store_, e_.stem, "tune", std::move(question));
    std::optional<nlohmann::json> decided = decision.known();
    if (!decided) {
      std::vector<Candidate> candidates;
      std::set<double> smoothing;
      for (const std::vector<std::size_t>& trials : tried) {
        const auto results = results_of(e_, trials, store_, metric, smoothing);
        if (!results) return std::nullopt;
        candidates.push_back(judge(*results, metric));
      }
      require_comparable(e_, metric, smoothing);
      std::size_t best = 0;
      for (std::size_t c = 1; c < candidates.size(); ++c)
        if (better(candidates[c], candidates[best], stage.lower_is_better())) best = c;
      Json judged = Json::array();
      for (const Candidate& c : candidates)
        judged.push_back({{"mean", number_or_null(c.mean)}, {"diverged", c.diverged}});
      decided = decision.settle({{"judged", judged}, {"chosen", best}}, record_);
    }
    const std::uint64_t best = decision.number(*decided, "chosen");
    if (best >= tried.size())
      throw InputError(concat(decision.file().string(), ": \"chosen\" is not one of the candidates"));
    return best;
  }

  static Candidate judge(const std::vector<TrialResult>& results, const std::string& metric) {
    Candidate out;
    double sum = 0;
    for (const TrialResult& result : results) {
      const double value =
          result.status == TrialEnd::done ? metric_of(result, metric) : std::numeric_limits<double>::quiet_NaN();
      if (std::isfinite(value))
        sum += value;
      else
        ++out.diverged;
    }
    if (out.diverged < results.size()) out.mean = sum / double(results.size() - out.diverged);
    return out;
  }

  /// Decides the number of seeds once all rows have finished their first seeds.
  void fix_seeds() {
    const TwoStageSeeds& rule = *e_.two_stage;
    if (e_.more_to_come) return;
    std::vector<std::size_t> first;
    Json baselines = Json::array();  // they decide how many gains the intervals hold for
    for (const Cell& row : e_.rows) {
      first.insert(first.end(), row.trials.begin(), row.trials.end());
      baselines.push_back(row.baseline ? Json(*row.baseline) : Json());
    }
    const Decision decision(store_, e_.stem, "seeds",
                            {{"metric", rule.metric},
                             {"first", rule.first},
                             {"max", rule.max},
                             {"gain_halfwidth", rule.gain_halfwidth},
                             {"trials", ids_of(e_, first)},
                             {"baselines", std::move(baselines)}});
    std::optional<nlohmann::json> decided = decision.known();
    if (!decided) {
      std::set<double> smoothing;
      const auto results = results_of(e_, first, store_, rule.metric, smoothing);
      e_.more_to_come = !results.has_value();
      if (!results) return;
      require_comparable(e_, rule.metric, smoothing);
      const SweepSeeds seeds = decide(*results);
      decided = decision.settle(
          {{"wanted", seeds.wanted}, {"seeds", seeds.n}, {"expected_halfwidth", seeds.half_width}}, record_);
    }
    FixedSeeds fixed;
    fixed.wanted = decision.number(*decided, "wanted");
    fixed.count = decision.number(*decided, "seeds");
    if (decided->contains("expected_halfwidth") && (*decided)["expected_halfwidth"].is_number())
      fixed.halfwidth = (*decided)["expected_halfwidth"].get<double>();
    if (fixed.count < rule.first || fixed.count > rule.max)
      throw InputError(concat(decision.file().string(), ": \"seeds\" is not within ", rule.first, " to ", rule.max));
    const Experiment first_stage = e_;
    add_seeds(fixed.count);
    if (const std::size_t held = seeds_of_archive(fixed.count); held < fixed.count) {
      fixed.halfwidth *= std::sqrt(double(fixed.count) / double(held));
      fixed.count = held;
      e_ = first_stage;
      add_seeds(held);
    }
    e_.fixed_seeds = fixed;
  }

  /// An archive does not record the decision, and versions may decide differently: the seeds that every row has were
  /// decided. `count` for a folder of results.
  std::size_t seeds_of_archive(std::size_t count) const {
    if (store_.exported() == nullptr) return count;
    for (const Cell& row : e_.rows)
      for (std::size_t s = e_.two_stage->first; s < std::min(count, row.trials.size()); ++s)
        if (!store_.trial(e_.trials[row.trials[s]].id).load_result()) count = s;
    return count;
  }

  SweepSeeds decide(const std::vector<TrialResult>& results) const {
    const TwoStageSeeds& rule = *e_.two_stage;
    const double scale = is_share(rule.metric) ? 100 : 1;
    std::vector<StripRow> rows(e_.rows.size());
    std::size_t i = 0;
    for (std::size_t r = 0; r < e_.rows.size(); ++r) {
      rows[r].apart = e_.rows[r].apart;
      for (std::size_t s = 0; s < e_.rows[r].trials.size(); ++s, ++i) {
        if (results[i].status == TrialEnd::diverged)
          rows[r].apart = true;
        else if (const double value = metric_of(results[i], rule.metric); std::isfinite(value))
          rows[r].values[results[i].seed] = scale * value;
      }
    }
    std::vector<Strip> strips;
    for (std::size_t b = 0; b < rows.size(); ++b) {
      if (e_.rows[b].baseline != b) continue;
      Strip& strip = strips.emplace_back(Strip{rows[b], {}});
      for (std::size_t r = 0; r < rows.size(); ++r)
        if (r != b && e_.rows[r].baseline == b) strip.rows.push_back(rows[r]);
    }
    std::set<std::uint64_t> first;
    for (std::uint64_t seed = 0; seed < rule.first; ++seed) first.insert(seed);
    return stein_seeds(strips, first, rule.gain_halfwidth, rule.max);
  }

  /// Adds the seeds after the first stage to every row; trials stay ordered by row.
  void add_seeds(std::size_t count) {
    Experiment out = e_;
    out.trials.clear();
    for (std::size_t r = 0; r < e_.rows.size(); ++r) {
      Cell& row = out.rows[r];
      for (std::vector<std::size_t>* trials : {&row.tuning, &row.trials})
        for (std::size_t& t : *trials) {
          out.trials.push_back(std::move(e_.trials[t]));
          t = out.trials.size() - 1;
        }
      for (std::uint64_t seed = row.trials.size(); seed < count; ++seed) {
        const TrialConfig config = out.trials[row.trials.front()].config;
        add_trial(out, r, config, seed);
      }
    }
    e_ = std::move(out);
  }

  Experiment e_;
  const ResultStore& store_;
  Record record_;
};

}  // namespace

Experiment next_stage(Experiment loaded, const ResultStore& store, Record record) {
  if (!loaded.tuned && !loaded.two_stage) return loaded;
  Experiment next = Stages(std::move(loaded), store, record).run();
  add_start_trials(next);
  return next;
}

}  // namespace normlab
