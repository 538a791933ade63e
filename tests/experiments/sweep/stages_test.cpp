// Trials that earlier results bring up: results are made up here, nothing is trained.
#include "experiments/sweep/stages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "core/error.h"
#include "experiments/base/files.h"
#include "experiments/descriptor/canonical.h"
#include "experiments/statistics/stein.h"
#include "experiments/sweep/plan_file.h"
#include "tests/experiments/base/temporary_folder.h"
#include "tests/experiments/descriptor/descriptor_files.h"
#include "tests/experiments/results/unsealed_result.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

void finish(const ResultStore& store, const Trial& trial, double accuracy, TrialEnd end = TrialEnd::done) {
  TrialResult result;
  result.id = trial.id;
  result.seed = trial.config.seed;
  result.status = end;
  if (end == TrialEnd::done) result.metrics = {{"eval/accuracy", accuracy}, {"eval/loss", 1 - accuracy}};
  if (end == TrialEnd::diverged) result.diverged_step = 1;
  store.trial(trial.id).publish_result(result);
}

const char* const kTuned = R"({
  "sweep": {"model.placement": ["pre_pre", "dpn"]},
  "tune": [
    {"axes": {"train.optimizer.lr": [1e-3, 3e-3, 1e-2]}, "dataset": {"train": "train[:80%]", "eval": "train[80%:]"},
     "seeds": 2},
    {"axes": {"model.dropout": [0, 0.2]}, "dataset": {"train": "train[:80%]", "eval": "train[80%:]"}}],
  "seeds": 2,
  "baseline": {"model.placement": "pre_pre"}
})";

/// What every stage ends with, by the trial's settings.
double accuracy_of(const TrialConfig& c) {
  const bool dpn = vit_of(c).placement.stem.patch_in.kind != NormKind::none;
  const double best = dpn ? 3e-3 : 1e-2;
  return 0.8 - std::abs(std::log(c.train.optimizer.lr / best)) / 100 + vit_of(c).dropout / 100 + 0.001 * double(c.seed);
}

std::string all_of(const std::vector<std::string>& notes) {
  std::string out;
  for (const std::string& note : notes) out += note + "\n";
  return out;
}

std::size_t count_files(const fs::path& folder) {
  std::size_t count = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) count += entry.is_regular_file();
  return count;
}

}  // namespace

TEST_CASE("stages: an experiment without any comes back as it was") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const Experiment e = files.load(R"({"seeds": 3})");
  const Experiment next = next_stage(e, ResultStore(folder / "r"));
  CHECK(next.trials.size() == 3);
  CHECK_FALSE(next.more_to_come);
  CHECK_FALSE(fs::exists(folder / "r"));
  CHECK(stage_notes(next).empty());
  CHECK(trials_to_come(next) == "");
}

TEST_CASE("tune: each row goes on with its own best by mean over seeds, and the test set comes last") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  const Experiment loaded = files.load(kTuned);
  Experiment e = next_stage(loaded, store, Record::yes);
  CHECK(e.trials.size() == 12);
  CHECK(trials_to_come(e) ==
        "4 trials of later tuning stages, fewer if some are repeated; 4 trials of the table "
        "for 2 rows still being tuned");
  for (int stage = 0; stage < 3; ++stage) {
    CHECK(e.more_to_come == (stage < 2));
    for (const Trial& trial : e.trials) finish(store, trial, accuracy_of(trial.config));
    e = next_stage(loaded, store, Record::yes);
  }
  CHECK_FALSE(e.more_to_come);
  REQUIRE(e.rows[0].trials.size() == 2);
  const auto own = [&](std::size_t row) -> const TrialConfig& { return e.trials[e.rows[row].trials[1]].config; };
  CHECK(own(0).train.optimizer.lr == 1e-2);
  CHECK(own(1).train.optimizer.lr == 3e-3);
  for (const std::size_t row : {0, 1}) {
    CHECK(vit_of(own(row)).dropout == 0.2);
    CHECK(own(row).dataset.eval == "test");
    CHECK(e.rows[row].tuning.size() == 6 + 1);  // the winner without dropout has run already
    for (const std::size_t t : e.rows[row].tuning) CHECK(e.trials[t].config.dataset.eval == "train[80%:]");
  }
  REQUIRE(e.rows[1].chosen.size() == 2);
  CHECK(e.rows[1].chosen[0].label == "3e-3");
  CHECK_FALSE(e.rows[1].chosen[0].at_edge);
  CHECK(e.rows[0].chosen[0].at_edge);
  CHECK(count_files(folder / "r/experiments/d/fixed") == 4);  // a row and stage each
  const std::string notes = all_of(stage_notes(e));
  CHECK(notes.find("Tuned for each row on images that the table does not show: pre_pre: lr=1e-2, dropout=0.2; dpn: "
                   "lr=3e-3, dropout=0.2.") != std::string::npos);
  CHECK(notes.find("Warning: at the edge of the values tried, so a better value may lie outside them: pre_pre lr=1e-2; "
                   "pre_pre dropout=0.2; dpn dropout=0.2.") != std::string::npos);
  CHECK(notes.find("Not tuned, the same in all rows: adamw, weight decay ") != std::string::npos);
  CHECK(notes.find(" lr 0") == std::string::npos);
  const std::string plan = plan_json(e);
  CHECK(plan.find("\"chosen\": {\n        \"train.optimizer.lr\": \"1e-2\"") != std::string::npos);
  CHECK(plan.find("\"tuning\"") != std::string::npos);
}

TEST_CASE("tune: a tie goes to the first, a diverged seed loses, a failed one holds up its row alone") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  const Experiment loaded = files.load(kTuned);
  for (const Trial& trial : loaded.trials) {
    const bool first_row = trial.row == 0, last_lr = trial.config.train.optimizer.lr == 1e-2;
    if (first_row && last_lr && trial.config.seed == 1)
      finish(store, trial, 0, TrialEnd::diverged);  // its other seed is the best of all
    else if (!first_row && last_lr)
      finish(store, trial, 0, TrialEnd::failed);
    else
      finish(store, trial, last_lr ? 0.9 : 0.5);
  }
  const Experiment e = next_stage(loaded, store);
  REQUIRE(e.rows[0].chosen.size() == 1);
  CHECK(e.rows[0].chosen[0].label == "1e-3");
  CHECK(e.rows[1].chosen.empty());
  CHECK(e.more_to_come);
  CHECK_FALSE(fs::exists(folder / "r/experiments"));  // nothing is written by those who only look
}

TEST_CASE("tune: a candidate whose evaluation is not finite loses, whatever accuracy stands beside it") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  const Experiment loaded = files.load(kTuned);
  for (const Trial& trial : loaded.trials) {
    const double lr = trial.config.train.optimizer.lr;
    TrialResult result;
    result.id = trial.id;
    result.seed = trial.config.seed;
    result.metrics = {{"eval/accuracy", lr == 1e-2 ? 0.9 : lr}, {"eval/loss", lr == 1e-2 ? NAN : 1.0}};
    publish_unsealed(store.trial(trial.id), result);
  }
  const Experiment e = next_stage(loaded, store);
  for (const Cell& row : e.rows) {
    REQUIRE(row.chosen.size() == 1);
    CHECK(row.chosen[0].label == "3e-3");
  }
}

TEST_CASE("tune: what was decided stays, whatever the results say later; a damaged record is told") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  const Experiment loaded = files.load(kTuned);
  for (const Trial& trial : loaded.trials) finish(store, trial, accuracy_of(trial.config));
  const Experiment before = next_stage(loaded, store, Record::yes);
  for (const Trial& trial : loaded.trials) remove_file(store.trial(trial.id).path() / "result.json");
  for (const Trial& trial : loaded.trials) finish(store, trial, 1 - accuracy_of(trial.config));
  CHECK(next_stage(loaded, store, Record::yes).rows[0].chosen[0].label == before.rows[0].chosen[0].label);
  // Another value among those tried is another question.
  std::string text(kTuned);
  text.replace(text.find("1e-2]"), 5, "1e-2, 1e-1]");
  CHECK(next_stage(files.load(text), store).rows[0].chosen.empty());
  std::vector<fs::path> fixed;
  for (const auto& entry : fs::directory_iterator(folder / "r/experiments/d/fixed")) fixed.push_back(entry.path());
  std::sort(fixed.begin(), fixed.end());
  REQUIRE(fixed.size() >= 2);
  const std::string first = read_file(fixed[0]);
  std::string other = first;
  other.replace(other.find("\"chosen\": ") + 10, 1, "7");
  write_atomically(fixed[0], other);
  CHECK_THROWS_WITH_AS(next_stage(loaded, store), doctest::Contains("is damaged: the SHA-256 of the rest of it is "),
                       InputError);
  auto unsealed = nlohmann::ordered_json::parse(other);
  unsealed.erase("sha256");
  unsealed["schema"] = 1;  // as former versions wrote it
  write_atomically(fixed[0], unsealed.dump());
  CHECK_THROWS_WITH_AS(next_stage(loaded, store), doctest::Contains("\"chosen\" is not one of the candidates"),
                       InputError);
  write_atomically(fixed[0], read_file(fixed[1]));
  CHECK_THROWS_WITH_AS(next_stage(loaded, store), doctest::Contains("does not match the decision"), InputError);
}

namespace {

const char* const kTwoStages = R"({
  "sweep": {"model.placement": ["pre_pre", "dpn", "sub_ln"]},
  "seeds": {"first": 4, "max": 12, "gain_halfwidth": %}, "tuned_for": {"model.placement": "dpn"},
  "baseline": {"model.placement": "pre_pre"}
})";

std::string two_stages(const std::string& width) {
  std::string text(kTwoStages);
  return text.replace(text.find('%'), 1, width);
}

/// Accuracies with a noise of half a point.
void finish_noisy(const Experiment& e, const ResultStore& store) {
  for (const Trial& trial : e.trials) {
    std::mt19937 random(unsigned(100 * trial.row + trial.config.seed));
    finish(store, trial, 0.75 + 0.005 * std::normal_distribution<double>()(random));
  }
}

}  // namespace

TEST_CASE("two-stage seeds: their number is fixed once, by the same function as the interval's, for all rows") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  const Experiment loaded = files.load(two_stages("0.7"));
  Experiment e = next_stage(loaded, store, Record::yes);
  CHECK(e.trials.size() == 12);
  CHECK(e.more_to_come);
  CHECK(all_of(stage_notes(e))
            .find("The number of seeds is set once the first 4 of all rows have finished, for gains "
                  "within ±0.7 (eval/accuracy); at most 12.") != std::string::npos);
  CHECK(trials_to_come(e) == "up to 24 trials, as many as gains within ±0.7 need");
  finish_noisy(e, store);
  e = next_stage(loaded, store, Record::yes);
  REQUIRE(e.fixed_seeds.has_value());
  CHECK_FALSE(e.more_to_come);
  // What the runner took is what the rule says of the same numbers.
  Strip strip;
  strip.rows.resize(2);
  for (const Trial& trial : loaded.trials) {
    StripRow& row = trial.row == 0 ? strip.baseline : strip.rows[trial.row - 1];
    row.values[trial.config.seed] = 100 * store.trial(trial.id).load_result()->metrics.at("eval/accuracy");
  }
  const SweepSeeds expected = stein_seeds(std::vector<Strip>{strip}, {0, 1, 2, 3}, 0.7, 12);
  CHECK(e.fixed_seeds->wanted == expected.wanted);
  CHECK(e.fixed_seeds->count == expected.n);
  CHECK(expected.n > 4);
  CHECK(expected.n < 12);
  for (const Cell& row : e.rows) {
    REQUIRE(row.trials.size() == expected.n);
    for (std::size_t s = 0; s < row.trials.size(); ++s) CHECK(e.trials[row.trials[s]].config.seed == s);
  }
  CHECK(e.rows[1].trials.front() == expected.n);  // row by row
  for (const Trial& trial : e.trials) CHECK(trial.id == trial_id(trial.config));
  // Later results change nothing, nor does another process.
  finish_noisy(e, store);
  CHECK(next_stage(loaded, store, Record::yes).trials.size() == e.trials.size());
  CHECK(count_files(folder / "r/experiments/d/fixed") == 1);
  for (const Trial& trial : loaded.trials) remove_file(store.trial(trial.id).path() / "result.json");
  CHECK(next_stage(loaded, store).fixed_seeds->count == expected.n);
  CHECK(all_of(stage_notes(e))
            .find(concat("Seeds in two stages (Stein 1945): ", expected.n,
                         " for every row, fixed once from the first 4, for gains within ±0.7 "
                         "(eval/accuracy); intervals keep")) != std::string::npos);
  CHECK(all_of(stage_notes(e)).find("chosen for dpn.") != std::string::npos);
}

TEST_CASE("two-stage seeds: a row whose evaluations are not finite adds no noise and no seed, as a diverged one") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const Experiment loaded = files.load(two_stages("0.7"));
  std::vector<std::uint64_t> wanted;
  for (const bool diverged : {true, false}) {
    const ResultStore store(folder / (diverged ? "diverged" : "nan"));
    for (const Trial& trial : loaded.trials) {
      TrialResult result;
      result.id = trial.id;
      result.seed = trial.config.seed;
      if (diverged)
        result.status = TrialEnd::diverged;
      else
        result.metrics = {{"eval/accuracy", 0.1}, {"eval/loss", NAN}};
      if (diverged) result.diverged_step = 0;
      if (trial.row == 1) publish_unsealed(store.trial(trial.id), result);
    }
    finish_noisy(loaded, store);  // the other rows
    const Experiment e = next_stage(loaded, store);
    REQUIRE(e.fixed_seeds);
    wanted.push_back(e.fixed_seeds->wanted);
  }
  CHECK(wanted[0] == wanted[1]);
}

TEST_CASE("two-stage seeds: at max the width is not reached, and the note says so") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  const Experiment loaded = files.load(two_stages("0.1"));
  finish_noisy(loaded, store);
  const Experiment e = next_stage(loaded, store, Record::yes);
  CHECK(e.fixed_seeds->count == 12);
  CHECK(e.fixed_seeds->wanted > 12);
  CHECK_FALSE(e.fixed_seeds->reached());
  CHECK(all_of(stage_notes(e))
            .find(concat("Width not reached: it needs ", e.fixed_seeds->wanted,
                         " seeds, but at most 12 are allowed; expected ±")) != std::string::npos);
  // A narrow enough first stage needs no other.
  const Experiment wide = files.load(two_stages("50"));
  CHECK(next_stage(wide, store).trials.size() == 12);
  CHECK_FALSE(next_stage(wide, store).more_to_come);
}

TEST_CASE("two-stage seeds: results without the metric name what there is") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  std::string text = two_stages("1.0");
  text.replace(text.find("\"gain_halfwidth\""), 0, "\"metric\": \"eval/acuracy\", ");
  const Experiment loaded = files.load(text);
  finish_noisy(loaded, store);
  CHECK_THROWS_WITH_AS(next_stage(loaded, store), doctest::Contains("did you mean \"eval/accuracy\"?"), InputError);
}
