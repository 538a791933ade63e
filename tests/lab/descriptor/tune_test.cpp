// "tune", two-stage "seeds" and "tuned_for": what they expand to, and the errors on wrong ones.
#include "experiments/lab/descriptor/tune.h"
#include "experiments/lab/descriptor/slice.h"
#include "experiments/lab/descriptor/trials_ahead.h"

#include <doctest/doctest.h>

#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

/// Two rows, whose rate and then dropout are tuned.
const char* const kTuned = R"({
  "sweep": {"model.placement": ["pre_pre", "dpn"]},
  "tune": [
    {"axes": {"train.optimizer.lr": [1e-3, 3e-3, 1e-2], "train.optimizer.weight_decay": [0.1, 0.2]},
     "dataset": {"train": "train[:80%]", "eval": "train[80%:]"}, "seeds": 2},
    {"axes": {"model.dropout": [0, 0.2]}, "dataset": {"train": "train[:80%]", "eval": "train[80%:]"},
     "train": {"epochs": 3}, "metric": "eval/loss"}],
  "seeds": 3,
  "baseline": {"model.placement": "pre_pre"}
})";

/// A sweep of four rows that ends before the next key.
const std::string kTunedSweep = R"({"sweep": {"model.placement": ["pre_pre", "dpn"], "model.depth": [1, 2]},)"
                                "\n";

/// A sweep of two rows that ends before the value of "seeds".
const std::string kSeeds = R"({"sweep": {"model.placement": ["pre_pre", "dpn"]}, "baseline": {"model.placement": "dpn"},
"seeds": )";

/// A descriptor with this value of "tune".
std::string with_tune(const std::string& tune) {
  return "{\"sweep\": {\"model.placement\": [\"pre_pre\", \"dpn\"]},\n\"tune\": " + tune + "}";
}

}  // namespace

TEST_CASE("tune: the trials of the first stage belong to no cell") {
  DescriptorFiles files;
  const Experiment e = files.load(kTuned);
  CHECK(e.more_to_come);
  REQUIRE(e.rows.size() == 2);
  REQUIRE(e.trials.size() == 2 * 6 * 2);
  CHECK(e.rows[0].trials.empty());
  CHECK(e.rows[1].tuning.size() == 12);
  CHECK(&first_trial(e, e.rows[1]) == &e.trials[12]);
}

TEST_CASE("tune: a trial of the first stage has its own slices and values") {
  DescriptorFiles files;
  const Experiment e = files.load(kTuned);
  const Trial& trial = e.trials[e.rows[1].tuning[3]];
  CHECK(trial.purpose == Purpose::tuning);
  CHECK(trial.label == "dpn, tune 1: lr=1e-3, weight_decay=0.2, seed 1");
  CHECK(trial.config.dataset.eval == "train[80%:]");
  CHECK(trial.config.dataset.train == "train[:80%]");
  CHECK(trial.config.train.optimizer.weight_decay == 0.2);
  CHECK(trial.config.train.epochs == 10);
  CHECK(vit_of(trial.config).dropout == 0);
  CHECK(trial.config.seed == 1);
}

TEST_CASE("tune: a later stage keeps the values that were chosen") {
  DescriptorFiles files;
  Experiment e = files.load(kTuned);
  const TunedRows& tuned = *e.tuned;
  const std::vector<std::size_t> first{4};  // lr 1e-2, weight_decay 0.1
  const auto trials = tuned.add_stage(e, 1, first);
  REQUIRE(trials.size() == 2);
  CHECK(trials[1] == std::vector<std::size_t>{25});
  const TrialConfig& c = e.trials[25].config;
  CHECK(c.train.optimizer.lr == 0.01);
  CHECK(c.train.optimizer.weight_decay == 0.1);
  CHECK(c.train.epochs == 3);
  CHECK(vit_of(c).dropout == 0.2);
  CHECK(e.trials[25].label == "dpn, tune 2: dropout=0.2, seed 0");
}

TEST_CASE("tune: a row runs with its chosen values on the descriptor's own data") {
  DescriptorFiles files;
  const Experiment e = files.load(kTuned);
  const TunedRows& tuned = *e.tuned;
  const TrialConfig own = tuned.config(1, std::vector<std::size_t>{4, 1});
  CHECK(own.dataset.eval == "test");
  CHECK(own.dataset.train == "train");
  CHECK(own.train.epochs == 10);
  CHECK(own.train.optimizer.lr == 0.01);
  CHECK(vit_of(own).dropout == 0.2);
  CHECK(tuned.seeds(1) == std::vector<std::uint64_t>{0, 1, 2});
}

TEST_CASE("tune: a lower loss is better") {
  DescriptorFiles files;
  const Experiment e = files.load(kTuned);
  const TunedRows& tuned = *e.tuned;
  CHECK_FALSE(tuned.stages()[0].lower_is_better());
  CHECK(tuned.stages()[1].lower_is_better());
}

TEST_CASE("tune: a number at the edge of those that were tried is marked") {
  DescriptorFiles files;
  const Experiment e = files.load(with_tune(R"([{"axes": {"train.optimizer.lr": [3e-3, 1e-3, 1e-2],
    "model.dropout": [0, 0.1], "train.optimizer.name": ["adamw", "lion"]},
    "dataset": {"train": "train[:900]", "eval": "train[900:]"}}])"));
  const TuneStage& stage = e.tuned->stages()[0];
  const auto edges = [&](std::size_t candidate) {
    std::string out;
    for (const TunedValue& value : stage.values(candidate)) out += value.at_edge ? "e" : "-";
    return out;
  };
  CHECK(edges(0) == "---");      // 3e-3 lies between the others; 0 and words have no edge
  CHECK(edges(4) == "e--");      // 1e-3
  CHECK(edges(8 + 2) == "ee-");  // 1e-2, 0.1
  CHECK(stage.label(8 + 2 + 1) == "lr=1e-2, dropout=0.1, name=lion");
}

TEST_CASE("tune: a wrong stage is told with its place") {
  DescriptorFiles files;
  CHECK(files.problems(with_tune("{}")) == "d.json:2:9: /tune: expected a list of stages, got an object");
  CHECK(files.problems(with_tune("[]")) == "d.json:2:9: /tune: expected a list of stages, got an empty one");
  CHECK(files.problems(with_tune(R"([{"axes": {}, "dataset": {"eval": "val"}}])"))
            .find("d.json:2:19: /tune/0/axes: is empty: a stage chooses the values of one axis or more") !=
        std::string::npos);
  CHECK(files.problems(with_tune(R"([{"axis": {}, "dataset": {"eval": "val"}}])")) ==
        "d.json:2:10: /tune/0: a stage needs \"axes\"\n"
        "d.json:2:11: /tune/0/axis: unknown key; did you mean \"axes\"?");
  CHECK(
      files.problems(with_tune(R"([{"axes": {"train.optimizer.lr": [1e-3]}}])"))
          .find("d.json:2:10: /tune/0: values are chosen by a part of the training images: give the \"dataset\" of the "
                "row a \"minival\" such as \"train[90%:]\" next to \"train\": \"train[:90%]\", or the stage a "
                "\"dataset\" with such an \"eval\" slice") == 0);
  const std::string data = R"(, "dataset": {"train": "train[:80%]", "eval": "train[80%:]"}}])";
  CHECK(files.problems(with_tune(R"([{"axes": {"train.optimizer.lrr": [1e-3], "train.batch_size": [8, 0]})" + data)) ==
        "d.json:2:20: /tune/0/axes/train.optimizer.lrr: unknown key; did you mean \"lr\"?\n"
        "d.json:2:75: /tune/0/axes/train.batch_size/1: must be at least 1, got 0");
  CHECK(files.problems(with_tune(R"([{"axes": {"model.placement": ["bn"]})" + data)) ==
        "d.json:2:20: /tune/0/axes/model.placement: model.placement is an axis of the sweep already");
  CHECK(files.problems(with_tune(R"([{"axes": {"model": [{}]})" + data)) ==
        "d.json:2:20: /tune/0/axes/model: would overwrite model.placement, an axis of the sweep");
  CHECK(files.problems(with_tune(R"([{"axes": {"dataset.fraction": [0.5]})" + data)) ==
        "d.json:2:20: /tune/0/axes/dataset.fraction: the data cannot be tuned; tune \"model\" or \"train\"");
  CHECK(files.problems(with_tune(R"([{"axes": {"train.optimizer.lr": [1e-3]}, "metric": "eval/acuracy")" + data)) ==
        "d.json:2:61: /tune/0/metric: unknown metric \"eval/acuracy\"; did you mean \"eval/accuracy\"?");
  CHECK(files.problems(with_tune(R"([{"axes": {"train.optimizer.lr": [1e-3]}, "seeds": 0)" + data)) ==
        "d.json:2:60: /tune/0/seeds: expected a number of seeds from 1 to 100000, or a list of seeds, got 0");
  CHECK(files.problems(with_tune(R"([{"axes": {"train.optimizer.lr": [1e-3]}, "train": {"epoch": 1})" + data)) ==
        "d.json:2:61: /tune/0/train/epoch: unknown key; did you mean \"epochs\"?");
  CHECK(files.problems(kTuned, {"train.optimizer.lr=1"})
            .find("--set train.optimizer.lr=1: /train/optimizer/lr: train.optimizer.lr is tuned, which would overwrite "
                  "this value; set \"tune\" instead") == 0);
}

TEST_CASE("tune: the slice that chooses shares no image with other slices") {
  DescriptorFiles files;
  const auto tuned_on = [&](const std::string& train, const std::string& eval) {
    return files.problems(with_tune(R"([{"axes": {"train.optimizer.lr": [1e-3]}, "dataset": {"train": ")" + train +
                                    R"(", "eval": ")" + eval + "\"}}]"));
  };
  CHECK(tuned_on("train", "test[:50%]") ==
        "d.json:2:89: /tune/0/dataset/eval: \"test[:50%]\" shares images with \"test\", which the table shows; choose "
        "values by other images");
  CHECK(tuned_on("train", "train[:5]") ==
        "d.json:2:89: /tune/0/dataset/eval: \"train[:5]\" shares images with dataset.train, \"train\"; use disjoint "
        "parts such as \"train[:90%]\" and \"train[90%:]\"");
  CHECK(tuned_on("train[:80%]", "train[1600:]") == "");  // of 2000 shapes
  CHECK(tuned_on("train[:80%]", "train[1599:]") != "");
}

TEST_CASE("tune: slices by percent and by number share images depending on the total") {
  DatasetConfig of{.name = "pictures"};
  CHECK(shared_images(of, "train[:50%]", "train[500:]") ==
        "may share images (one slice counts images, the other percent) with");
  of.name = "shapes";
  of.train_images = 1000;
  CHECK(shared_images(of, "train[:50%]", "train[500:]") == "");
  of.train_images = 1002;
  CHECK(shared_images(of, "train[:50%]", "train[500:]") != "");
}

TEST_CASE("tune: slices are of the images of the chosen classes") {
  DatasetConfig of{.name = "gratings"};
  of.train_images = 2000;
  of.classes = {"0_along", "0_across"};
  const auto images = known_training_images(of);
  REQUIRE(images);
  CHECK(*images < 2000);
  CHECK(shared_images(of, concat("train[:", *images / 2 + 1, "]"), "train[50%:]") == "shares images with");
  CHECK(shared_images(of, concat("train[:", *images / 2, "]"), "train[50%:]") == "");
}

TEST_CASE("tune: disjoint slices and other splits share no image") {
  const DatasetConfig of{.name = "pictures"};
  CHECK(shared_images(of, "train[:800]", "train[800:1000]") == "");
  CHECK(shared_images(of, "train[:800]", "val[:800]") == "");
  CHECK(shared_images(of, "train[:800]+val[:200]", "val[200:]") == "");
  CHECK(shared_images(of, "train[:800]+val[:200]", "test+val[199:]") == "shares images with");
}

namespace {

/// One row on 1000 images: 800, of which some tune, and 200.
std::string by_minival(const std::string& more = "", const std::string& dataset = "") {
  return R"({"dataset": {"train": "train[:800]", "minival": "train[90%:]", "eval": "test")" + dataset +
         R"(}, "tune": [{"axes": {"train.optimizer.lr": [1e-3, 1e-2]})" + more + "}]}";
}

TrialConfig own_trial(const Experiment& e) { return e.tuned->config(0, std::vector<std::size_t>{1}); }

}  // namespace

TEST_CASE("tune: without a slice of its own a stage is judged on the minival") {
  DescriptorFiles files;
  const Experiment e = files.load(by_minival());
  const DatasetConfig& data = e.trials[e.rows[0].tuning[0]].config.dataset;
  CHECK(data.train == "train[:800]");
  CHECK(data.eval == "train[90%:]");
  CHECK(data.minival == "");
  CHECK(own_trial(e).dataset.train == "train[:800]");
  CHECK(own_trial(e).dataset.eval == "test");
  CHECK(own_trial(e).dataset.minival == "train[90%:]");
  CHECK(own_trial(e).train.optimizer.lr == 1e-2);
}

TEST_CASE("tune: once the values are chosen, the minival can join the training images") {
  DescriptorFiles files;
  const Experiment e = files.load(by_minival(R"(, "then_train_on": "train+minival")"));
  CHECK(e.trials[0].config.dataset.train == "train[:800]");
  CHECK(e.trials[0].config.dataset.eval == "train[90%:]");
  CHECK(own_trial(e).dataset.train == "train[:800]+train[90%:]");
  CHECK(own_trial(e).dataset.eval == "test");
  CHECK(own_trial(e).dataset.minival == "");
  CHECK(own_trial(files.load(by_minival(R"(, "then_train_on": "train")"))).dataset.train == "train[:800]");
}

TEST_CASE("tune: what follows the last stage is told with its place if it is wrong") {
  DescriptorFiles files;
  CHECK(files.problems(by_minival(R"(, "then_train_on": "minival")")) ==
        "d.json:1:154: /tune/0/then_train_on: expected \"train\" or \"train+minival\", got \"minival\"");
  CHECK(files.problems(by_minival(R"(, "then_train_on": "train+minival", "dataset": {"eval": "train[80%:90%]"})")) ==
        "d.json:1:90: /tune/0: with a slice of its own a stage does not look at the minival; leave \"then_train_on\" "
        "out");
  CHECK(files.problems(
            by_minival(R"(, "then_train_on": "train+minival"}, {"axes": {"train.optimizer.weight_decay": [0.1]})")) ==
        "d.json:1:90: /tune/0: \"then_train_on\" says what follows the last stage; set it there");
  CHECK(files.problems(by_minival(R"(, "train": {"early_stop": {"metric": "minival/loss"}})"))
            .find("/tune/0: values are chosen by the minival, so train.early_stop cannot use it as well") !=
        std::string::npos);
}

TEST_CASE("two-stage seeds: the first stage runs the first seeds of each row") {
  DescriptorFiles files;
  const Experiment e = files.load(kSeeds + R"({"first": 3, "max": 20, "gain_halfwidth": 0.5}})");
  CHECK(e.two_stage == TwoStageSeeds{3, 20, 0.5, "eval/accuracy"});
  CHECK(e.trials.size() == 6);
  CHECK(e.more_to_come);
}

TEST_CASE("two-stage seeds: wrong ones are told with their place") {
  DescriptorFiles files;
  CHECK(files.problems(kSeeds + R"({"first": 1, "maxx": 9, "gain_halfwidth": 0}})") ==
        "d.json:2:10: /seeds: the key \"max\" is missing\n"
        "d.json:2:20: /seeds/first: expected a number of seeds from 2 to 100000, got 1; a single seed shows no noise\n"
        "d.json:2:23: /seeds/maxx: unknown key; did you mean \"max\"?\n"
        "d.json:2:52: /seeds/gain_halfwidth: expected a number above 0, in the table's unit, got 0");
  CHECK(files.problems(kSeeds + R"({"first": 5, "max": 4, "gain_halfwidth": 1}})") ==
        "d.json:2:30: /seeds/max: is below \"first\", which is 5");
  CHECK(files.problems(R"({"sweep": {"model.depth": [1, 2]}, "seeds": {"first": 3, "max": 4, "gain_halfwidth": 1}})") ==
        "d.json:1:45: /seeds: two-stage seeds fix the width of the gains' intervals; add the \"baseline\" that gains "
        "are measured against");
  CHECK(files.problems(R"({"sweep": [{"model.depth": [1, 2], "seeds": 3}, {"model.depth": [3]}],
"baseline": {"model.depth": 1}, "seeds": {"first": 3, "max": 4, "gain_halfwidth": 1}})") ==
        "d.json:2:42: /seeds: with two-stage seeds every row runs the same seeds; leave out the seeds of the grids");
  CHECK(files.problems(R"({"sweep": [{"model.depth": [1], "seeds": {"first": 2}}]})") ==
        "d.json:1:42: /sweep/0/seeds: expected a number of seeds from 1 to 100000, or a list of seeds, got an object; "
        "only \"seeds\" next to \"sweep\" can have two stages");
}

TEST_CASE("two-stage seeds: a child's seeds replace those of its base whole") {
  DescriptorFiles files;
  files.write("base.json", kSeeds + R"({"first": 3, "max": 20, "gain_halfwidth": 0.5}})");
  CHECK(
      files.load(R"({"extends": "base.json", "seeds": {"first": 2, "max": 2, "gain_halfwidth": 1}})").two_stage->max ==
      2);
}

TEST_CASE("descriptor: a baseline that is not in the sweep is refused") {
  DescriptorFiles files;
  CHECK(files.problems(kTunedSweep + R"("baseline": {"model.placement": "pre_post"}})") ==
        "d.json:2:33: /baseline/model.placement: not a value of this axis: unknown value \"pre_post\"; one of: "
        "pre_pre, dpn");
  CHECK(files.problems(kTunedSweep + R"("baseline": {"model.placment": "dpn"}})") ==
        "d.json:2:14: /baseline/model.placment: unknown axis \"model.placment\"; did you mean \"model.placement\"?");
  CHECK(files.problems(kTunedSweep +
                       R"("exclude": [{"model.placement": "dpn"}], "baseline": {"model.placement": "dpn"}})") ==
        "d.json:2:54: /baseline: matches no combination of the sweep");
}

TEST_CASE("descriptor: tuned_for names values of the sweep") {
  DescriptorFiles files;
  CHECK(files.problems(kTunedSweep + R"("tuned_for": {"model.depth": 3}})") ==
        "d.json:2:30: /tuned_for/model.depth: not a value of this axis: unknown value 3; one of: 1, 2");
  CHECK(files.load(kTunedSweep + R"("tuned_for": {"model.placement": "dpn", "model.depth": 2}})").tuned_for ==
        "placement=dpn, depth=2");
}

TEST_CASE("descriptor: apart names rows, by name or by values of axes, and changes no id") {
  DescriptorFiles files;
  const std::string baseline = R"("baseline": {"model.placement": "pre_pre"}, )";
  const Experiment plain = files.load(kTunedSweep + baseline + R"("about": ""})");
  const Experiment e =
      files.load(kTunedSweep + baseline + R"("apart": ["placement=dpn, depth=1", {"model.depth": 2}]})");
  std::vector<std::string> apart;
  for (const Cell& row : e.rows)
    if (row.apart) apart.push_back(row.label);
  CHECK(apart ==
        std::vector<std::string>{"placement=pre_pre, depth=2", "placement=dpn, depth=1", "placement=dpn, depth=2"});
  REQUIRE(e.trials.size() == plain.trials.size());
  for (std::size_t t = 0; t < e.trials.size(); ++t) CHECK(e.trials[t].id == plain.trials[t].id);
  CHECK(files.problems(kTunedSweep + baseline + R"("apart": ["placement=dnp, depth=1"]})") ==
        "d.json:2:55: /apart/0: unknown row \"placement=dnp, depth=1\"; did you mean \"placement=dpn, depth=1\"?");
  CHECK(files.problems(kTunedSweep + baseline + R"("apart": [{"model.depth": 3}]})") ==
        "d.json:2:71: /apart/0/model.depth: not a value of this axis: unknown value 3; one of: 1, 2");
  CHECK(files.problems(kTunedSweep + baseline + R"("apart": [3]})") ==
        "d.json:2:55: /apart/0: expected the name of a row or {\"axis\": value}, got 3");
  CHECK(files.problems(kTunedSweep + baseline + R"("apart": "dpn"})") ==
        "d.json:2:54: /apart: expected a list of rows, got \"dpn\"");
  CHECK(files.problems(kTunedSweep + R"("apart": []})") ==
        "d.json:2:10: /apart: concerns gains; add the \"baseline\" that they are measured against");
}

TEST_CASE("descriptor: labels name rows, values of axes and metrics, and change no id") {
  DescriptorFiles files;
  const Experiment plain = files.load(kTunedSweep + R"("about": ""})");
  const Experiment e =
      files.load(kTunedSweep + R"("labels": {"dpn": "Dual PatchNorm", "placement=pre_pre, depth=2": "Deep",
    "eval/accuracy": "Top-1", "minival/ema_top5_accuracy": "Top-5", "eval/25shot_accuracy": "25 shots"}})");
  CHECK(e.labels.at("dpn") == "Dual PatchNorm");
  CHECK(e.labels.at("placement=pre_pre, depth=2") == "Deep");
  CHECK(e.labels.size() == 5);
  REQUIRE(e.trials.size() == plain.trials.size());
  for (std::size_t t = 0; t < e.trials.size(); ++t) CHECK(e.trials[t].id == plain.trials[t].id);
  CHECK(e.rows[0].label == plain.rows[0].label);
  CHECK(files.problems(kTunedSweep + R"("labels": {"dnp": "x"}})") ==
        "d.json:2:12: /labels/dnp: unknown row or metric \"dnp\"; did you mean \"dpn\"?");
  CHECK(files.problems(kTunedSweep + R"("labels": {"eval/acuracy": "x"}})") ==
        "d.json:2:12: /labels/eval~1acuracy: unknown row or metric \"eval/acuracy\"; did you mean \"eval/accuracy\"?");
  CHECK(files.problems(kTunedSweep + R"("labels": {"dpn": 3}})") ==
        "d.json:2:19: /labels/dpn: expected a name to show, got 3");
  CHECK(files.problems(kTunedSweep + R"("labels": {"dpn": "x", "pre_pre": "x"}})") ==
        "d.json:2:35: /labels/pre_pre: \"x\" is shown for another name too");
  CHECK(files.problems(kTunedSweep + R"("labels": {"dpn": "pre_pre"}})") ==
        "d.json:2:19: /labels/dpn: \"pre_pre\" is the name of another row or value");
  CHECK(files.load(kTunedSweep + R"("labels": {"dpn": "pre_pre", "pre_pre": "dpn"}})").labels.size() == 2);
  CHECK(files.load(kTunedSweep + R"("labels": {"dpn": "dpn"}})").labels.size() == 1);
  CHECK(files.problems(kTunedSweep + R"("labels": ["dpn"]})") ==
        "d.json:2:11: /labels: expected an object, got a list");
}

TEST_CASE("trials ahead: later stages and the table's own trials are counted before any result") {
  DescriptorFiles files;
  const Experiment e = files.load(kTuned);
  const TrialsAhead ahead = trials_ahead(e);
  CHECK(e.trials.size() == 2 * 6 * 2);
  CHECK(ahead.certain.size() == 2 * (2 + 3));
  CHECK(ahead.most() == 0);
  std::size_t own = 0;
  for (const Trial& trial : ahead.certain) own += trial.purpose == Purpose::table;
  CHECK(own == 2 * 3);
  CHECK(ahead.certain.front().config.train.epochs == 3);  // of the second stage
}

TEST_CASE("trials ahead: seeds of a second stage are counted at their most") {
  DescriptorFiles files;
  const TrialsAhead ahead = trials_ahead(files.load(kSeeds + R"({"first": 3, "max": 7, "gain_halfwidth": 1}})"));
  CHECK(ahead.certain.empty());
  CHECK(ahead.most() == 2 * 4);
  REQUIRE(ahead.possible.size() == 2);
  CHECK(ahead.possible[1].first.config.seed == 3);
}

TEST_CASE("trials ahead: nothing follows where no trial depends on a result") {
  DescriptorFiles files;
  const TrialsAhead ahead = trials_ahead(files.load(kSeeds + "3}"));
  CHECK(ahead.certain.empty());
  CHECK(ahead.possible.empty());
}

TEST_CASE("trials ahead: trials to start from are counted with those of the table that start from them") {
  DescriptorFiles files;
  files.write("parent.json", R"({"sweep": {"model.placement": ["pre_pre", "dpn"]}, "seeds": 9})");
  const Experiment e = files.load(R"({"sweep": {"model.placement": ["pre_pre", "dpn"]},
    "start": {"from": {"descriptor": "parent.json"}},
    "tune": [{"axes": {"train.optimizer.lr": [1e-3, 1e-2]}, "dataset": {"train": "train[:80%]", "eval": "train[80%:]"}}],
    "seeds": 3})");
  std::size_t starts = 0;
  for (const Trial& trial : e.trials) starts += trial.purpose == Purpose::start;
  CHECK(starts == 2);  // of seed 0, which tunes
  const TrialsAhead ahead = trials_ahead(e);
  starts = 0;
  for (const Trial& trial : ahead.certain) starts += trial.purpose == Purpose::start;
  CHECK(starts == 2 * 2);
  CHECK(ahead.certain.size() == 2 * (3 + 2));
}
