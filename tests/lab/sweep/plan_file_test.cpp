// The changes of a plan since the one before, and the numbers of seeds that a table has shown.
#include "experiments/lab/sweep/plan_file.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/tables/sweep_table.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

std::string sweep(const std::string& depths, const std::string& seeds) {
  return R"({"sweep": {"model.depth": )" + depths + "}, \"seeds\": " + seeds + R"(, "baseline": {"model.depth": 1}})";
}

void finish(const Experiment& e, const ResultStore& store) {
  for (const Trial& trial : e.trials) {
    TrialResult result;
    result.id = trial.id;
    result.seed = trial.config.seed;
    store.trial(trial.id).publish_result(result);
  }
}

/// A folder with the plan of two rows and two seeds.
struct Planned {
  DescriptorFiles files;
  TemporaryFolder folder;
  ResultStore store{folder / "r"};

  Planned() {
    const Experiment before = files.load(sweep("[1, 2]", "2"));
    store.write_plan(before.stem, plan_json(before));
  }
};

}  // namespace

TEST_CASE("plan: a plan that never ran or is the same has no change") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  const Experiment before = files.load(sweep("[1, 2]", "2"));
  const auto changes = [&] {
    const PlanChange change = plan_change(before, store);
    return change.added.size() + change.dropped.size();
  };
  CHECK(changes() == 0);  // it never ran
  CHECK(read_plan_files(store).empty());
  store.write_plan(before.stem, plan_json(before));
  CHECK(changes() == 0);
}

TEST_CASE("plan: an edited descriptor names its new trials and those that it dropped") {
  Planned planned;
  const Experiment after = planned.files.load(sweep("[1, 3]", "3"));
  const PlanChange change = plan_change(after, planned.store);
  CHECK(change.added == std::vector<std::size_t>{2, 3, 4, 5});
  REQUIRE(change.dropped.size() == 2);
  CHECK(change.dropped[0].row == "2");
  CHECK(describe(change, after) ==
        "since the last run 4 trials are new (1, seed 2; 3, seed 0; 3, seed 1; 3, seed 2); 2 are no longer part of the "
        "plan and stay on disk (2, seed 0; 2, seed 1)");
}

TEST_CASE("plan: of many new trials the first are named") {
  Planned planned;
  const Experiment many = planned.files.load(sweep("[1, 2]", "8"));
  CHECK(describe(plan_change(many, planned.store), many) ==
        "since the last run 12 trials are new (1, seed 2; 1, seed 3; 1, seed 4; 1, seed 5 and 8 more)");
}

TEST_CASE("plan: a plan on disk names its descriptor and its trials") {
  const Planned planned;
  const std::vector<PlanFile> plans = read_plan_files(planned.store);
  REQUIRE(plans.size() == 1);
  CHECK(plans[0].stem == "d");
  CHECK(plans[0].descriptor == (planned.files.folder() / "d.json").string());
  CHECK(plans[0].trials.size() == 4);
}

TEST_CASE("plan: a file that is not a plan is refused") {
  const Planned planned;
  write_atomically(planned.folder / "r/experiments/d/plan.json", "{\"rows\": 5}");
  CHECK_THROWS_WITH_AS(read_plan_file(planned.store, "d"),
                       doctest::Contains("is not a plan; it only lists trials: delete"), InputError);
}

TEST_CASE("plan: a damaged plan is named with what to do about it") {
  const Planned planned;
  const auto path = planned.folder / "r/experiments/d/plan.json";
  const std::string good = read_file(path);
  for (const std::string& text : {std::string(), good.substr(0, good.size() / 2), good + "x", std::string("[]")}) {
    write_atomically(path, text);
    const std::string advice = "it only lists trials: delete this file, and the next run writes it again";
    CHECK_THROWS_WITH_AS(read_plan_files(planned.store), doctest::Contains(path.c_str()), InputError);
    CHECK_THROWS_WITH_AS(read_plan_files(planned.store), doctest::Contains(advice.c_str()), InputError);
  }
}

TEST_CASE("table: seeds that were raised by hand after it was read are counted") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  const auto run = [&](const std::string& seeds) {
    const Experiment e = files.load(sweep("[1, 2]", seeds));
    store.write_plan(e.stem, plan_json(e));
    finish(e, store);
    return e;
  };
  const Experiment unread = files.load(sweep("[1, 2]", "2"));
  CHECK(note_tabled_seeds(unread, store));
  CHECK_FALSE(fs::exists(folder / "r"));  // nothing ran
  const Experiment three = run("3");
  CHECK(raised_seeds_note(three, store) == "");
  CHECK(note_tabled_seeds(three, store));
  CHECK(note_tabled_seeds(three, store));
  CHECK(raised_seeds_note(three, store) == "");  // the same number again
  const Experiment five = run("5");
  CHECK(raised_seeds_note(five, store).find("Seeds were raised once after results had been read (with 3; now 5)") == 0);
  CHECK(note_tabled_seeds(five, store));
  const Experiment eight = run("8");
  CHECK(raised_seeds_note(eight, store)
            .find("Seeds were raised 2 times after results had been read (with 3, then 5; "
                  "now 8)") == 0);
}

TEST_CASE("table: another experiment of the same name has shown no seeds") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  for (const char* seeds : {"3", "5"}) {
    const Experiment e = files.load(sweep("[1, 2]", seeds));
    store.write_plan(e.stem, plan_json(e));
    finish(e, store);
    CHECK(note_tabled_seeds(e, store));
  }
  const Experiment other = files.load(R"({"sweep": {"model.depth": [7, 8]}, "seeds": 9})");
  CHECK(raised_seeds_note(other, store) == "");
}

TEST_CASE("table: a number of seeds that two stages fixed is not raised by hand") {
  DescriptorFiles files;
  const TemporaryFolder folder;
  const ResultStore store(folder / "r");
  const Experiment first = files.load(sweep("[1, 2]", R"({"first": 3, "max": 9, "gain_halfwidth": 1})"));
  store.write_plan(first.stem, plan_json(first));
  finish(first, store);
  CHECK(note_tabled_seeds(first, store));
  Experiment more = first;
  for (std::size_t row = 0; row < 2; ++row) add_trial(more, row, more.trials[row].config, 3);
  CHECK(raised_seeds_note(more, store) == "");
  more.two_stage.reset();
  CHECK(raised_seeds_note(more, store) != "");
}
