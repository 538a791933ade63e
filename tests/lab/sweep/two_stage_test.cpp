// Seeds in two stages, the second of which follows from the results of the first. Nothing is trained.
#include <doctest/doctest.h>

#include <random>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/statistics/stein.h"
#include "experiments/lab/sweep/stages.h"
#include "experiments/lab/tables/stage_notes.h"
#include "experiments/lab/trials/exported.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/lab/descriptor/descriptor_files.h"
#include "tests/lab/sweep/made_up_stages.h"
#include "tests/lab/trials/unsealed_result.h"

using namespace normlab;

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

/// Three rows whose number of seeds is fixed by the results of their first four.
struct Fixed {
  DescriptorFiles files;
  TemporaryFolder folder;
  ResultStore store{folder / "r"};
  Experiment loaded = files.load(two_stages("0.9")), e;

  Fixed() {
    finish_noisy(loaded, store);
    e = next_stage(loaded, store, Record::yes);
    REQUIRE(e.fixed_seeds.has_value());
  }
  /// The number of seeds by the rule, from the results of the first stage.
  SweepSeeds expected() const {
    Strip strip;
    strip.rows.resize(2);
    for (const Trial& trial : loaded.trials) {
      StripRow& row = trial.row == 0 ? strip.baseline : strip.rows[trial.row - 1];
      row.values[trial.config.seed] = 100 * store.trial(trial.id).load_result()->metrics.at("eval/accuracy");
    }
    return stein_seeds(std::vector<Strip>{strip}, {0, 1, 2, 3}, 0.9, 12);
  }
};

}  // namespace

TEST_CASE("two-stage seeds: the first stage says what it waits for") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const Experiment e = next_stage(files.load(two_stages("0.9")), ResultStore(folder / "r"), Record::yes);
  CHECK(e.trials.size() == 12);
  CHECK(e.more_to_come);
  CHECK(all_of(stage_notes(e))
            .find("The number of seeds is set once the first 4 of all rows have finished, for gains "
                  "within ±0.9 (eval/accuracy); at most 12.") != std::string::npos);
  CHECK(trials_to_come(e) == "up to 24 trials, as many as gains within ±0.9 need");
}

TEST_CASE("two-stage seeds: their number is that of the interval's rule for the same results") {
  const Fixed fixed;
  CHECK_FALSE(fixed.e.more_to_come);
  const SweepSeeds expected = fixed.expected();
  CHECK(fixed.e.fixed_seeds->wanted == expected.wanted);
  CHECK(fixed.e.fixed_seeds->count == expected.n);
  CHECK(expected.n > 4);
  CHECK(expected.n < 12);
}

TEST_CASE("two-stage seeds: every row runs the same seeds from 0") {
  const Fixed fixed;
  const Experiment& e = fixed.e;
  const std::size_t n = fixed.expected().n;
  for (const Cell& row : e.rows) {
    REQUIRE(row.trials.size() == n);
    for (std::size_t s = 0; s < row.trials.size(); ++s) CHECK(e.trials[row.trials[s]].config.seed == s);
  }
  CHECK(e.rows[1].trials.front() == n);  // row by row
  for (const Trial& trial : e.trials) CHECK(trial.id == trial_id(trial.config));
}

TEST_CASE("two-stage seeds: their number is fixed once, whatever later results are") {
  const Fixed fixed;
  const std::size_t n = fixed.expected().n;
  finish_noisy(fixed.e, fixed.store);
  CHECK(next_stage(fixed.loaded, fixed.store, Record::yes).trials.size() == fixed.e.trials.size());
  CHECK(count_files(fixed.folder / "r/experiments/d/fixed") == 1);
  for (const Trial& trial : fixed.loaded.trials) remove_file(fixed.store.trial(trial.id).path() / "result.json");
  CHECK(next_stage(fixed.loaded, fixed.store).fixed_seeds->count == n);
}

TEST_CASE("two-stage seeds: another baseline is another decision") {
  const Fixed fixed;
  std::string text = two_stages("0.9");
  const std::string changed = R"("baseline": {"model.placement": "sub_ln"})";
  const std::size_t at = text.find("\"baseline\"");
  text.replace(at, text.rfind('}') - at, changed);
  DescriptorFiles files;
  const Experiment other = next_stage(files.load(text), fixed.store, Record::yes);
  REQUIRE(other.fixed_seeds);
  CHECK(count_files(fixed.folder / "r/experiments/d/fixed") == 2);
}

TEST_CASE("two-stage seeds: of an archive, the seeds that all rows have count") {
  const Fixed fixed;
  finish_noisy(fixed.e, fixed.store);
  REQUIRE(fixed.e.fixed_seeds->count > 6);
  std::string lines;
  for (const Trial& trial : fixed.e.trials)
    if (trial.config.seed < 6) {
      const TrialFolder kept = fixed.store.trial(trial.id);
      write_atomically(kept.path() / "config.json", full_json(trial.config));
      lines += export_line(kept, false);
    }
  const std::filesystem::path file = fixed.folder / "archive.jsonl";
  write_atomically(file, lines);
  const Experiment held = next_stage(fixed.loaded, ResultStore::exported(file));
  CHECK(held.fixed_seeds->wanted == fixed.e.fixed_seeds->wanted);
  CHECK(held.fixed_seeds->count == 6);
  CHECK(held.fixed_seeds->halfwidth > fixed.e.fixed_seeds->halfwidth);
  for (const Cell& row : held.rows) CHECK(row.trials.size() == 6);
  CHECK(all_of(stage_notes(held)).find(" seeds, but the archive holds 6; expected ±") != std::string::npos);
}

TEST_CASE("two-stage seeds: notes name their number and the row that was tuned for") {
  const Fixed fixed;
  const std::string notes = all_of(stage_notes(fixed.e));
  CHECK(notes.find(concat("Seeds in two stages (Stein 1945): ", fixed.expected().n,
                          " for every row, fixed once from the first 4, for gains within ±0.9 "
                          "(eval/accuracy); intervals keep")) != std::string::npos);
  CHECK(notes.find("chosen for dpn.") != std::string::npos);
}

TEST_CASE("two-stage seeds: a row whose evaluations are not finite counts as diverged") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const Experiment loaded = files.load(two_stages("0.9"));
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

TEST_CASE("two-stage seeds: at the maximum a note says that the width is not reached") {
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
}

TEST_CASE("two-stage seeds: a first stage that is narrow enough needs no second") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  finish_noisy(files.load(two_stages("0.1")), store);
  const Experiment wide = files.load(two_stages("50"));
  CHECK(next_stage(wide, store).trials.size() == 12);
  CHECK_FALSE(next_stage(wide, store).more_to_come);
}

TEST_CASE("two-stage seeds: an unknown metric is refused with the nearest one") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  std::string text = two_stages("1.0");
  text.replace(text.find("\"gain_halfwidth\""), 0, "\"metric\": \"eval/acuracy\", ");
  const Experiment loaded = files.load(text);
  finish_noisy(loaded, store);
  CHECK_THROWS_WITH_AS(next_stage(loaded, store), doctest::Contains("did you mean \"eval/accuracy\"?"), InputError);
}
