// Trials that follow from earlier results. Results are made up here, nothing is trained.
#include "experiments/lab/sweep/stages.h"
#include "experiments/lab/tables/stage_notes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/trials/loss_meaning.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/lab/descriptor/descriptor_files.h"
#include "tests/lab/sweep/made_up_stages.h"
#include "tests/lab/trials/unsealed_result.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

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
  return 0.8 - std::abs(std::log(c.train.optimizer.lr / best)) / 100 + vit_of(c).dropout.stem / 100 +
         0.001 * double(c.seed);
}

/// The tuned descriptor after all its stages.
struct Tuned {
  DescriptorFiles files;
  TemporaryFolder folder;
  ResultStore store{folder / "r"};
  Experiment e;

  Tuned() {
    const Experiment loaded = files.load(kTuned);
    e = next_stage(loaded, store, Record::yes);
    for (int stage = 0; stage < 3; ++stage) {
      CHECK(e.more_to_come == (stage < 2));
      for (const Trial& trial : e.trials) finish(store, trial, accuracy_of(trial.config));
      e = next_stage(loaded, store, Record::yes);
    }
    for (const Cell& row : e.rows) REQUIRE(row.trials.size() == 2);
  }
  /// The settings of a row in the table.
  const TrialConfig& own(std::size_t row) const { return e.trials[e.rows[row].trials[1]].config; }
};

/// Results of the first stage: in one row a seed of the best rate diverged, in the other that rate failed.
struct TuningWithLosses {
  DescriptorFiles files;
  TemporaryFolder folder;
  ResultStore store{folder / "r"};
  Experiment loaded = files.load(kTuned);

  TuningWithLosses() {
    for (const Trial& trial : loaded.trials) {
      const bool first_row = trial.row == 0, last_lr = trial.config.train.optimizer.lr == 1e-2;
      if (first_row && last_lr && trial.config.seed == 1)
        finish(store, trial, 0, TrialEnd::diverged);  // its other seed is the best of all
      else if (!first_row && last_lr)
        finish(store, trial, 0, TrialEnd::failed);
      else
        finish(store, trial, last_lr ? 0.9 : 0.5);
    }
  }
};

}  // namespace

TEST_CASE("stages: an experiment without stages stays as it is") {
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

TEST_CASE("tune: the first stage counts the trials of later ones") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const Experiment e = next_stage(files.load(kTuned), ResultStore(folder / "r"), Record::yes);
  CHECK(e.trials.size() == 12);
  CHECK(trials_to_come(e) ==
        "2 trials of later tuning stages; 4 trials of the table for 2 rows still being tuned");  // 2 are repeated
  CHECK(stage_notes(e) == std::vector<std::string>{"2 rows are still being tuned; the trials of the table follow."});
}

TEST_CASE("tune: each row keeps its own best value by the mean over seeds") {
  const Tuned tuned;
  CHECK_FALSE(tuned.e.more_to_come);
  CHECK(tuned.own(0).train.optimizer.lr == 1e-2);
  CHECK(tuned.own(1).train.optimizer.lr == 3e-3);
  for (const std::size_t row : {0, 1}) CHECK(vit_of(tuned.own(row)).dropout == 0.2);
  const auto& rows = tuned.e.rows;
  REQUIRE(rows[1].chosen.size() == 2);
  CHECK(rows[1].chosen[0].label == "3e-3");
  CHECK_FALSE(rows[1].chosen[0].at_edge);
  CHECK(rows[0].chosen[0].at_edge);
  CHECK(count_files(tuned.folder / "r/experiments/d/fixed") == 4);  // a row and stage each
}

TEST_CASE("tune: the test set is used by the last stage alone") {
  const Tuned tuned;
  for (const std::size_t row : {0, 1}) {
    CHECK(tuned.own(row).dataset.eval == "test");
    CHECK(tuned.e.rows[row].tuning.size() == 6 + 1);  // the winner without dropout has run already
    for (const std::size_t t : tuned.e.rows[row].tuning) CHECK(tuned.e.trials[t].config.dataset.eval == "train[80%:]");
  }
}

TEST_CASE("tune: notes name the values of each row and those at an edge") {
  const std::string notes = all_of(stage_notes(Tuned().e));
  CHECK(notes.find("Tuned for each row on images that the table does not show: pre_pre: lr=1e-2, dropout=0.2; dpn: "
                   "lr=3e-3, dropout=0.2.") != std::string::npos);
  CHECK(notes.find("Warning: at the edge of the values tried, so a better value may lie outside them: pre_pre lr=1e-2; "
                   "pre_pre dropout=0.2; dpn dropout=0.2.") != std::string::npos);
  CHECK(notes.find("Not tuned, the same in all rows: adamw, weight decay ") != std::string::npos);
  CHECK(notes.find(" lr 0") == std::string::npos);
}

TEST_CASE("tune: the plan has the chosen values and the trials of tuning") {
  const std::string plan = plan_json(Tuned().e);
  CHECK(plan.find("\"chosen\": {\n        \"train.optimizer.lr\": \"1e-2\"") != std::string::npos);
  CHECK(plan.find("\"tuning\"") != std::string::npos);
}

TEST_CASE("tune: a value with a diverged seed loses") {
  const TuningWithLosses results;
  const Experiment e = next_stage(results.loaded, results.store);
  REQUIRE(e.rows[0].chosen.size() == 1);
  CHECK(e.rows[0].chosen[0].label != "1e-2");
}

TEST_CASE("tune: of equal values the first one wins") {
  const TuningWithLosses results;
  const Experiment e = next_stage(results.loaded, results.store);
  CHECK(e.rows[0].chosen.at(0).label == "1e-3");
}

TEST_CASE("tune: a failed trial holds up its own row") {
  const TuningWithLosses results;
  const Experiment e = next_stage(results.loaded, results.store);
  CHECK(e.rows[0].chosen.size() == 1);
  CHECK(e.rows[1].chosen.empty());
  CHECK(e.more_to_come);
}

TEST_CASE("tune: a look at the next stage writes nothing") {
  const TuningWithLosses results;
  next_stage(results.loaded, results.store);
  CHECK_FALSE(fs::exists(results.folder / "r/experiments"));
}

TEST_CASE("tune: a value whose evaluation is not finite loses") {
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

TEST_CASE("tune: a choice stays when results change") {
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
}

TEST_CASE("tune: a record of a choice that is damaged is refused") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  const Experiment loaded = files.load(kTuned);
  for (const Trial& trial : loaded.trials) finish(store, trial, accuracy_of(trial.config));
  next_stage(loaded, store, Record::yes);
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

TEST_CASE("stages: nothing is decided by losses some of which contain label smoothing") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  const Experiment loaded = files.load(R"({
    "train": {"label_smoothing": 0.1},
    "tune": [{"axes": {"train.optimizer.lr": [1e-3, 1e-2]}, "dataset": {"train": "train[:80%]", "eval": "train[80%:]"},
              "metric": "eval/loss"}]})");
  const Experiment e = next_stage(loaded, store);
  REQUIRE(e.trials.size() == 2);
  const auto publish = [&](const Trial& trial, bool plain) {
    TrialResult result;
    result.id = trial.id;
    result.seed = trial.config.seed;
    result.metrics = {{"eval/loss", 1.0}};
    if (plain) result.provenance[kEvalLossMeaning] = kPlainLoss;
    CHECK(store.trial(trial.id).publish_result(result));
  };
  publish(e.trials[0], false);
  publish(e.trials[1], true);
  CHECK_THROWS_WITH_AS(next_stage(loaded, store),
                       doctest::Contains("nothing can be decided by eval/loss: that of some"), InputError);
  fs::remove_all(store.trial(e.trials[0].id).path());
  publish(e.trials[0], true);
  CHECK(!next_stage(loaded, store).more_to_come);
}
