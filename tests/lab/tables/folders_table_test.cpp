// Tables of results folders, without their descriptors.
#include <doctest/doctest.h>

#include <fstream>

#include "core/error.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/tables/table.h"
#include "tests/lab/base/text.h"
#include "tests/lab/sweep/small_sweep.h"

using namespace normlab;

namespace {

std::filesystem::path trial_five(const SmallSweep& sweep) {
  return sweep.store.trial(sweep.experiment.trials[5].id).path();
}

/// Results of all trials, without training.
void publish_results(const Experiment& experiment, const ResultStore& store) {
  for (const Trial& trial : experiment.trials) {
    store.trial(trial.id).write_config(full_json(trial.config));
    TrialResult result;
    result.id = trial.id;
    result.seed = trial.config.seed;
    result.attempt = 1;
    result.metrics = {{"eval/accuracy", 0.5}};
    store.trial(trial.id).publish_result(result);
  }
}

/// A folder of results with the plan of an experiment that names a placement.
struct FolderOfPlans {
  TemporaryFolder folder;
  ResultStore store{folder / "out"};

  FolderOfPlans() {
    publish("own", "", R"("placements": {"mine": {"base": "pre_pre", "stem": {"patch_in": "rms_norm"}}},
    "sweep": {"model.placement": ["pre_pre", "dpn", "mine"]})",
            true);
  }
  /// Results of a descriptor, and its plan if it is `planned`.
  void publish(const std::string& stem, const std::string& model, const std::string& more, bool planned) const {
    std::ofstream(folder / (stem + ".json"))
        << R"({"dataset": {"name": "shapes"}, "seeds": 1,
      "model": {"kind": "vit", "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2)"
        << model << R"(}, "train": {"steps": 10, "batch_size": 4}, )" << more << "}";
    const Experiment experiment = load_experiment(folder / (stem + ".json"));
    publish_results(experiment, store);
    if (!planned) return;
    std::filesystem::create_directories(store.out() / "experiments" / stem);
    std::ofstream(store.out() / "experiments" / stem / "plan.json") << plan_json(experiment);
  }
  /// The labels of the table of the folder, one a line.
  std::string labels() const {
    std::string out;
    for (const TableLine& line : folders_table_model(std::vector{store.out()}, {}).lines) out += line.label + "\n";
    return out;
  }
};

}  // namespace

TEST_CASE("sweep_table: the sensitivity to the rate is the same with and without a descriptor, but for the gains") {
  const SmallSweep sweep;
  for (std::size_t t = 0; t < sweep.experiment.trials.size(); ++t) {
    TrialResult result = sweep.result(t);
    result.metrics["train/first_loss"] = 2.5;
    result.metrics["train/loss"] = 2 - 0.1 * double(t * t % 7);
    sweep.publish(t, result);
  }
  TableOptions options;
  options.lr_sensitivity = true;
  const TableModel planned = sweep.model(options), found = folders_table_model(std::vector{sweep.store.out()}, options);
  REQUIRE(planned.lines.size() == 2);
  REQUIRE(found.lines.size() == 2);
  CHECK(planned.lines[0].label == "pre_pre");
  CHECK(found.lines[1].label == "pre_pre");
  CHECK(*planned.lines[0].mean.value == *found.lines[1].mean.value);
  CHECK(*planned.lines[1].mean.value == *found.lines[0].mean.value);
  CHECK(planned.lines[1].gain.value);
  CHECK(!found.lines[1].gain.value);
  options.where = "placement = dpn";
  CHECK(sweep.model(options).lines.size() == 1);
  options.where = "lr = 0.01";
  CHECK_THROWS_AS(sweep.model(options), InputError);
}

TEST_CASE("sweep_table: a folder without a descriptor has a row for each difference") {
  const SmallSweep sweep;
  sweep.publish_all();
  const std::filesystem::path out = sweep.store.out();
  const TableModel model = folders_table_model(std::vector{out}, {});
  CHECK(model.axes == std::vector<std::string>{"model.placement", "train.optimizer.lr"});
  REQUIRE(model.lines.size() == 4);
  CHECK(model.lines[0].axes == std::vector<std::string>{"dpn", "0.001"});
  CHECK(model.lines[3].axes == std::vector<std::string>{"pre_pre", "0.01"});
  CHECK(model.lines[0].seeds.size() == 2);
  CHECK(model.lines[0].seeds[1].seed == 1);
  const TableModel by_plan = sweep.model();
  CHECK(model.lines[3].mean.value == by_plan.lines[1].mean.value);
}

TEST_CASE("sweep_table: a trial that is given twice counts once") {
  const SmallSweep sweep;
  sweep.publish_all();
  CHECK(folders_table_model(std::vector{sweep.store.out(), trial_five(sweep)}, {}).lines.size() == 4);
}

TEST_CASE("sweep_table: the folder of one trial is a row named by its placement") {
  const SmallSweep sweep;
  sweep.publish_all();
  const std::filesystem::path one = trial_five(sweep);
  const TableModel single = folders_table_model(std::vector{one}, {});
  REQUIRE(single.lines.size() == 1);
  CHECK(single.lines[0].label == "dpn");
}

TEST_CASE("sweep_table: a trial with a damaged config has its own row") {
  const SmallSweep sweep;
  sweep.publish_all();
  std::ofstream(trial_five(sweep) / "config.json") << "{";
  const TableModel damaged = folders_table_model(std::vector{sweep.store.out()}, {});
  CHECK(damaged.lines.size() == 5);
  CHECK(damaged.problems.size() == 1);
}

TEST_CASE("sweep_table: a folder without trials is refused") {
  const SmallSweep sweep;
  sweep.publish_all();
  CHECK_THROWS_AS(folders_table_model(std::vector{sweep.folder.path()}, {}), InputError);
}

TEST_CASE("sweep_table: rows of a folder have the names that the plan gives to placements") {
  const FolderOfPlans folder;
  CHECK(folder.labels() ==
        "placement=dpn\n"
        "placement=mine\n"
        "placement=pre_pre\n");
}

namespace {

/// Two rows of three seeds, of a descriptor whose seeds each start from that of another, or all from one.
struct StartedRows {
  TemporaryFolder folder;
  ResultStore store{folder / "out"};
  Experiment experiment;

  explicit StartedRows(const std::string& start_seed) {
    const std::string common = R"("dataset": {"name": "shapes"}, "train": {"steps": 10},
      "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2})";
    std::ofstream(folder / "first.json") << "{" << common << "}";
    std::ofstream(folder / "second.json")
        << "{" << common << R"(, "start": {"from": {"descriptor": "first.json")" << start_seed << R"(}},
      "sweep": {"train.optimizer.lr": [0.001, 0.01]}, "seeds": 3})";
    experiment = load_experiment(folder / "second.json");
    publish_results(experiment, store);
  }
  /// Seeds of each row of the folder's table.
  std::vector<std::size_t> seeds() const {
    std::vector<std::size_t> out;
    for (const TableLine& line : folders_table_model(std::vector{store.out()}, {}).lines)
      out.push_back(line.seeds.size());
    return out;
  }
};

}  // namespace

TEST_CASE("sweep_table: seeds that start from trials of their own are one row of a folder") {
  CHECK(StartedRows("").seeds() == std::vector<std::size_t>{3, 3, 3});  // the rows of both descriptors
  CHECK(StartedRows(R"(, "seed": 1)").seeds() == std::vector<std::size_t>{1, 3, 3});
}

TEST_CASE("sweep_table: a trial can be read if the one that it starts from cannot") {
  const StartedRows rows("");
  std::size_t damaged = 0;
  for (const Trial& trial : rows.experiment.trials)
    if (trial.purpose == Purpose::start) {
      ++damaged;
      std::ofstream(rows.store.trial(trial.id).path() / "config.json") << "{";
    }
  REQUIRE(damaged == 3);
  std::size_t unreadable = 0;
  for (const TableLine& line : folders_table_model(std::vector{rows.store.out()}, {}).lines)
    for (const TableSeed& seed : line.seeds) unreadable += seed.state == SeedState::unreadable;
  CHECK(unreadable == 3);
}

TEST_CASE("sweep_table: a placement without a name is told by what is not at its default") {
  const FolderOfPlans folder;
  folder.publish("unnamed", R"(, "placement": {"attn": {"query": {"kind": "rms_norm", "eps": 0.001}}})",
                 R"("about": "")", false);
  CHECK(folder.labels() ==
        "placement=dpn\n"
        "placement=mine\n"
        "placement=other, query=rms_norm, eps=0.001\n"
        "placement=pre_pre\n");
}

TEST_CASE("sweep_table: two placements with one name are told apart by their settings") {
  const FolderOfPlans folder;
  folder.publish("unnamed", R"(, "placement": {"attn": {"query": {"kind": "rms_norm", "eps": 0.001}}})",
                 R"("about": "")", false);
  folder.publish("again", "", R"("placements": {"mine": {"base": "pre_pre", "final": "none"}},
    "sweep": {"model.placement": ["mine"]})",
                 true);
  CHECK(folder.labels() ==
        "placement=dpn\n"
        "placement=mine\n"
        "placement=mine, final=layer_norm, patch_in=rms_norm\n"
        "placement=other, query=rms_norm, eps=0.001\n"
        "placement=pre_pre\n");
}

TEST_CASE("sweep_table: rows of a folder begin with experiment and name, and settings of all rows are said once") {
  const FolderOfPlans folder;
  const auto text_of = [&] {
    return render_table(folders_table_model(std::vector{folder.store.out()}, {}), TableFormat::text);
  };
  const std::string one = text_of();
  CAPTURE(one);
  CHECK(one.starts_with("row      eval/accuracy [%]\ndpn      50.00 (1)\n"));  // the axis placement says the same
  CHECK(has(one, "All rows are of the experiment own.\n"));
  CHECK(has(one, "All rows: model.depth 1, "));
  folder.publish("other", "", R"("sweep": {"train.optimizer.lr": [0.001, 0.01]})", true);
  const std::string two = text_of();
  CAPTURE(two);
  CHECK(has(two, "experiment  row             placement"));
  CHECK(has(two, "\nother       0.01            pre_pre "));
  CHECK(!has(two, "All rows are of"));
  const TableModel model = folders_table_model(std::vector{folder.store.out()}, {});
  CHECK(render_table(model, TableFormat::csv).starts_with("experiment,name,model.placement,"));
  CHECK(!has(two, "is missing"));
  std::filesystem::remove(folder.store.out() / "experiments/other/plan.json");
  const TableModel unnamed = folders_table_model(std::vector{folder.store.out()}, {});
  const auto tells = [](const TableSentence& sentence) {
    return sentence.text ==
           "experiments/other/plan.json is missing, so rows of this experiment stand without its name.";
  };
  CHECK(std::count_if(unnamed.footer.begin(), unnamed.footer.end(), tells) == 1);
}
