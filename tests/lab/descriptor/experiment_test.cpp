// What a descriptor expands to.
#include "experiments/lab/descriptor/experiment.h"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <random>
#include <set>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/json_tree.h"
#include "experiments/lab/descriptor/slice.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

std::vector<std::string> labels(const Experiment& experiment) {
  std::vector<std::string> out;
  for (const Cell& row : experiment.rows) out.push_back(row.label);
  return out;
}

std::vector<std::uint64_t> seeds_of(const Experiment& experiment, std::size_t row) {
  std::vector<std::uint64_t> out;
  for (const std::size_t trial : experiment.rows[row].trials) out.push_back(experiment.trials[trial].config.seed);
  return out;
}

using Words = std::vector<std::string>;
using Seeds = std::vector<std::uint64_t>;

const char* const kOwnPlacements = R"({
    "placements": {"mine": {"base": "second", "final": "dyt"}, "second": {"base": "dpn", "head_scale": "before_proj"}},
    "sweep": {"model.placement": ["mine",
      {"base": "pre_pre", "stem": {"patch_in": "layer_norm"}},
      {"base": "mine", "final": {"alpha_init": 0.8}, "layer_scale": {"kind": "scalar", "init": 0}, "init_gain": 2},
      {"attn": {"pre": "layer_norm"}, "residual_scale": true, "stem": {"posembed_out": "rms_norm"}},
      {}]}})";

/// A descriptor on a base that has a base itself.
Experiment extended(DescriptorFiles& files) {
  files.write("recipes/root.json", R"({"about": "root", "dataset": "cifar10", "seeds": 4})");
  files.write("recipes/base.json", R"({"extends": "root.json",
    "model": {"depth": 4, "placement": {"base": "dpn", "final": "none"}},
    "train": {"epochs": 3, "batch_size": 32, "schedule": {"warmup_epochs": 1}},
    "sweep": {"model.depth": [1, 2]}})");
  return files.load(R"({"extends": "recipes/base.json", "dataset": {"train": "train[:800]"},
    "model": {"embed_dim": 96, "placement": {"final": "layer_norm"}}, "train": {"steps": 7, "schedule": {"warmup_steps": 2}},
    "sweep": {"model.num_heads": [1, 2]}})");
}

}  // namespace

TEST_CASE("descriptor: an empty descriptor is one trial of the defaults") {
  DescriptorFiles files;
  const Experiment e = files.load("{} // nothing");
  REQUIRE(e.trials.size() == 1);
  CHECK(e.rows[0].label == "d");
  CHECK(e.trials[0].label == "d, seed 0");
  TrialConfig expected;
  vit_of(expected).placement = find_placement("pre_pre")->placement;
  CHECK(e.trials[0].config == expected);
  CHECK(e.trials[0].id == trial_id(expected));
  CHECK(e.checkpoint == CheckpointConfig{});
  CHECK(e.stem == "d");
  CHECK_FALSE(e.rows[0].baseline.has_value());
}

TEST_CASE("descriptor: of the axes in file order the last changes fastest") {
  DescriptorFiles files;
  const Experiment e =
      files.load(R"({"sweep": {"model.depth": [2, 1], "train.optimizer.lr": [1e-3, 0.01]}, "seeds": [7, 3]})");
  CHECK(e.axes == Words{"model.depth", "train.optimizer.lr"});
  CHECK(labels(e) == Words{"depth=2, lr=1e-3", "depth=2, lr=0.01", "depth=1, lr=1e-3", "depth=1, lr=0.01"});
  REQUIRE(e.trials.size() == 8);
  CHECK(e.trials[3].label == "depth=2, lr=0.01, seed 3");
  CHECK(e.trials[3].row == 1);
  CHECK(vit_of(e.trials[3].config).depth == 2);
  CHECK(e.trials[3].config.train.optimizer.lr == 0.01);
  CHECK(e.trials[3].config.seed == 3);
  CHECK(e.rows[1].trials == std::vector<std::size_t>{2, 3});
}

TEST_CASE("descriptor: the question and the checkpoints are read") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"about": "why", "checkpoint": {"seconds": 5, "steps": 9}})");
  CHECK(e.about == "why");
  CHECK(e.checkpoint == CheckpointConfig{5, 9});
}

TEST_CASE("descriptor: zipped axes move together") {
  DescriptorFiles files;
  const Experiment e =
      files.load(R"({"sweep": {"model.embed_dim, model.num_heads": [[64, 2], [96, 3]], "model.depth": [1, 2]}})");
  CHECK(labels(e) == Words{"embed_dim=64, num_heads=2, depth=1", "embed_dim=64, num_heads=2, depth=2",
                           "embed_dim=96, num_heads=3, depth=1", "embed_dim=96, num_heads=3, depth=2"});
  CHECK(vit_of(e.trials[3].config).num_heads == 3);
}

TEST_CASE("descriptor: a row of several grids runs the seeds of all of them") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"sweep": [
    {"model.placement": ["pre_pre", "dpn"], "seeds": 2},
    {"model.placement": ["sub_ln", "pre_pre", {"base": "dpn"}]}],
    "seeds": [1, 2, 3], "baseline": {"model.placement": "pre_pre"}})");
  CHECK(labels(e) == Words{"pre_pre", "dpn", "sub_ln"});
  CHECK(seeds_of(e, 0) == Seeds{0, 1, 2, 3});
  CHECK(seeds_of(e, 1) == Seeds{0, 1, 2, 3});
  CHECK(seeds_of(e, 2) == Seeds{1, 2, 3});
  CHECK(e.duplicates == 2);
  for (const Cell& row : e.rows) CHECK(row.baseline == 0);
}

TEST_CASE("descriptor: rows with the settings of another row are named") {
  DescriptorFiles files;
  const auto repeated = [&](const std::string& sweep) {
    return files.load(R"({"sweep": )" + sweep + "}").repeated_rows;
  };
  using Lines = std::vector<std::string>;
  CHECK(
      repeated(
          R"({"model.placement": ["pre_pre", "preres_pre", {"base": "pre_pre", "attn": {"out": "layer_norm"}}]})") ==
      Lines{"row \"pre_pre + attn.out=layer_norm\" has the same settings as \"preres_pre\"; they are one row, trained "
            "once"});
  CHECK(repeated(R"({"train.optimizer.lr": [0.001, 1e-3, 0.002]})") ==
        Lines{"row \"1e-3\" has the same settings as \"0.001\"; they are one row, trained once"});
  CHECK(repeated(R"({"model.placement": ["dpn", "dpn"]})") == Lines{"row \"dpn\" is given twice; it is trained once"});
  // A row of two grids gets the seeds of both, under one name.
  CHECK(
      repeated(R"([{"model.placement": ["dpn"], "seeds": [0]}, {"model.placement": ["dpn"], "seeds": [1]}])").empty());
  CHECK(repeated(R"([{"model.placement": ["pre_pre"]}, {"model.placement": [{"base": "pre_pre"}]}])").size() <= 1);
  std::string many = "0.001";
  for (int i = 0; i < 20; ++i) many += ", 0.001";
  const Lines lines = repeated(R"({"train.optimizer.lr": [)" + many + "]}");
  REQUIRE(lines.size() == 11);
  CHECK(lines.back() == "10 more rows have the same settings as others");
}

TEST_CASE("descriptor: stratified slices cut percentages of images with classes") {
  DescriptorFiles files;
  const auto said = [&](const std::string& dataset) { return files.problems(R"({"dataset": {)" + dataset + "}}"); };
  const auto has = [&](const std::string& dataset, const char* part) {
    CHECK_MESSAGE(said(dataset).find(part) != std::string::npos, said(dataset));
  };
  has(R"("name": "cifar10", "path": "x", "layout": "image_folder", "train": "train[:80]", "eval": "train[80%:]", "stratified": true)",
      "/dataset/train: slice \"train[:80]\": counts images, but a stratified slice takes a share of each class");
  has(R"("name": "cifar10", "path": "x", "layout": "image_folder", "eval": "val", "stratified": true)",
      "/dataset/stratified: every slice is a whole split, so stratified has no effect");
  has(R"("name": "cifar10", "path": "x", "layout": "image_folder", "eval": "val", "slice_seed": 1)",
      "/dataset/slice_seed: every slice is a whole split, so slice_seed has no effect");
  has(R"("name": "cifar10", "train": "train[:80%]", "eval": "train[70%:]", "stratified": true)", "shares images with");
  has(R"("name": "gratings", "allow_small_eval": true)", "gratings is generated and has no allow_small_eval");
  const auto images = [&](const std::string& dataset) {
    return *known_training_images(
        files.load(R"({"train": {"batch_size": 8}, "dataset": {)" + dataset + "}}").trials[0].config.dataset);
  };
  CHECK(images(R"("name": "cifar10", "train": "train[:33%]", "eval": "train[33%:]", "stratified": true)") == 16500);
  // 105 images of 10 classes: five have 11, of which 33% are 3, and five 10, also 3.
  CHECK(images(R"("train": "train[:33%]", "eval": "train[33%:]", "train_images": 105, "stratified": true)") == 30);
  CHECK(images(R"("train": "train[:33%]", "eval": "train[33%:]", "train_images": 105)") == 34);
  const auto id = [&](const std::string& dataset) {
    return files.load(R"({"dataset": {)" + dataset + "}}").trials[0].id;
  };
  const std::string plain = R"("train": "train[:80%]", "eval": "train[80%:]")";
  CHECK(id(plain) == id(plain + R"(, "stratified": false, "slice_seed": 0)"));
  CHECK(id(plain) != id(plain + R"(, "stratified": true)"));
  CHECK(id(plain) != id(plain + R"(, "slice_seed": 1)"));
}

TEST_CASE("descriptor: an exclude removes the combinations that match all its axes") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"sweep": {"model.depth": [1, 2], "model.placement": ["dpn", "bn"]},
    "exclude": [{"model.depth": 2, "model.placement": "bn"}]})");
  CHECK(labels(e) == Words{"depth=1, placement=dpn", "depth=1, placement=bn", "depth=2, placement=dpn"});
}

TEST_CASE("descriptor: an axis may point into a placement") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"sweep": {"model.placement": ["pre_pre", {"base": "bn"}],
    "model.placement.stem.patch_in": ["none", {"kind": "layer_norm", "eps": 1e-5}]}})");
  REQUIRE(e.rows.size() == 4);
  CHECK(vit_of(e.trials[0].config).placement == find_placement("pre_pre")->placement);
  Placement expected = find_placement("bn")->placement;
  expected.stem.patch_in = {.kind = NormKind::layer_norm, .eps = 1e-5};
  CHECK(vit_of(e.trials[3].config).placement == expected);
  CHECK(e.rows[3].label == "placement=bn, patch_in={\"eps\":1e-05,\"kind\":\"layer_norm\"}");
}

TEST_CASE("descriptor: an axis may point into the placement of the model") {
  DescriptorFiles files;
  const auto placement_of = [&](const char* text) { return vit_of(files.load(text).trials[0].config).placement; };
  Placement expected = find_placement("pre_pre")->placement;
  expected.final = norm_of(NormKind::none);
  CHECK(placement_of(R"({"sweep": {"model.placement.final": ["none"]}})") == expected);
  expected = find_placement("dpn")->placement;
  expected.attn.pre.eps = 1e-3;
  CHECK(placement_of(R"({"model": {"placement": "dpn"}, "sweep": {"model.placement.attn.pre.eps": [1e-3]}})") ==
        expected);
  expected.mlp.pre = {.kind = NormKind::batch_norm, .eps = 1e-5, .momentum = 0.5};
  CHECK(placement_of(
            R"({"model": {"placement": {"base": "dpn", "mlp": {"pre": "batch_norm"}, "attn": {"pre": {"eps": 1e-3}}}},
    "sweep": {"model.placement.mlp.pre.momentum": [0.5]}})") == expected);
}

TEST_CASE("descriptor: a placement may build on another one of the descriptor") {
  DescriptorFiles files;
  const Experiment e = files.load(kOwnPlacements);
  Placement mine = find_placement("dpn")->placement;
  mine.final = norm_of(NormKind::dyt);
  mine.head_scale = HeadScale::before_proj;
  CHECK(vit_of(e.trials[0].config).placement == mine);
}

TEST_CASE("descriptor: a placement is labelled by its difference to the base") {
  DescriptorFiles files;
  const Experiment e = files.load(kOwnPlacements);
  CHECK(labels(e) == Words{"mine", "pre_pre + stem.patch_in=layer_norm",
                           "mine + final=dyt(alpha_init=0.8) + layer_scale=scalar(init=0) + init_gain=2",
                           "none + stem.posembed_out=rms_norm + attn.pre=layer_norm + residual_scale=true", "none"});
}

TEST_CASE("descriptor: a child's keys win over those of its bases") {
  DescriptorFiles files;
  const Experiment e = extended(files);
  CHECK(e.files.size() == 3);
  CHECK(e.about == "root");
  CHECK(e.trials.size() == 8);
  const TrialConfig& c = e.trials[0].config;
  CHECK(c.dataset.name == "cifar10");
  CHECK(c.dataset.train == "train[:800]");
  CHECK(vit_of(c).depth == 4);
  CHECK(vit_of(c).embed_dim == 96);
  CHECK(vit_of(c).mlp_dim == 384);
  CHECK(c.train.batch_size == 32);
}

TEST_CASE("descriptor: a child's sweep or placement replaces that of its base whole") {
  DescriptorFiles files;
  const Experiment e = extended(files);
  CHECK(labels(e) == Words{"1", "2"});
  Placement only_final;
  only_final.final = norm_of(NormKind::layer_norm);
  CHECK(vit_of(e.trials[0].config).placement == only_final);
}

TEST_CASE("descriptor: a child's length of training replaces that of its base") {
  DescriptorFiles files;
  const TrialConfig c = extended(files).trials[0].config;
  CHECK(c.train.steps == 7);
  CHECK(c.train.epochs == TrainConfig{}.epochs);
  CHECK(c.train.schedule.warmup_steps == 2);
  CHECK(c.train.schedule.warmup_epochs == 0);
}

TEST_CASE("descriptor: an axis of steps replaces the epochs") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"train": {"epochs": 3}, "sweep": {"train.steps": [50, 500]}})");
  CHECK(e.trials[0].config.train.steps == 50);
  CHECK(e.trials[1].config.train.steps == 500);
}

TEST_CASE("descriptor: --set overrides the file with JSON or a word") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"train": {"epochs": 3, "batch_size": 10}, "dataset": "shapes"})",
                                  {"train.steps=5", "model.placement=sub_ln", "model.placement.final=rms_norm",
                                   "model.image_size=[32, 32]", "seeds=2", "dataset.train_images=50", "about=a b"});
  CHECK(e.about == "a b");
  CHECK(e.trials.size() == 2);
  CHECK(e.trials[0].config.train.steps == 5);
  CHECK(e.trials[0].config.dataset.train_images == 50);
  CHECK(vit_of(e.trials[0].config).placement.attn.inner.kind == NormKind::layer_norm);
  CHECK(vit_of(e.trials[0].config).placement.final.kind == NormKind::rms_norm);
}

TEST_CASE("descriptor: a random grid expands to its product in order") {
  DescriptorFiles files;
  std::mt19937 random(1);
  const std::vector<std::pair<std::string, Words>> axes = {
      {"model.depth", {"1", "2", "3", "4"}},
      {"train.batch_size", {"8", "16", "24"}},
      {"model.placement", {"\"pre_pre\"", "\"dpn\"", "\"bn\"", "\"none\""}},
      {"train.optimizer.lr", {"0.1", "0.2", "0.3"}},
      {"model.placement.pooled", {"\"none\"", "\"dyt\""}}};
  for (int round = 0; round < 40; ++round) {
    // A random choice of axes with random values of each; model.placement stays before what lies inside.
    std::string sweep;
    std::size_t expected = 1;
    std::vector<std::size_t> sizes;
    for (const auto& [path, values] : axes) {
      if (random() % 3 == 0) continue;
      const std::size_t count = 1 + random() % values.size();
      sweep += (sweep.empty() ? "\"" : ", \"") + path + "\": [";
      for (std::size_t i = 0; i < count; ++i) sweep += (i > 0 ? ", " : "") + values[i];
      sweep += "]";
      expected *= count;
      sizes.push_back(count);
    }
    const std::size_t seeds = 1 + random() % 3;
    const Experiment e = files.load(concat("{\"sweep\": {", sweep, "}, \"seeds\": ", seeds, "}"));
    CAPTURE(sweep);
    REQUIRE(e.rows.size() == expected);
    REQUIRE(e.trials.size() == expected * seeds);
    CHECK(e.duplicates == 0);
    std::set<std::string> ids;
    for (std::size_t t = 0; t < e.trials.size(); ++t) {
      CHECK(ids.insert(e.trials[t].id).second);
      CHECK(e.trials[t].row == t / seeds);
      CHECK(e.trials[t].config.seed == t % seeds);
      CHECK(e.rows[t / seeds].trials[t % seeds] == t);
    }
    // The value of an axis changes every (product of the sizes after it) rows.
    std::size_t period = expected;
    for (std::size_t a = 0; a < sizes.size(); ++a) {
      period /= sizes[a];
      std::map<std::size_t, std::string> value_at;
      for (std::size_t r = 0; r < e.rows.size(); ++r) {
        const auto [at, is_new] = value_at.try_emplace(r / period % sizes[a], e.rows[r].axes[a].second);
        CHECK(at->second == e.rows[r].axes[a].second);
      }
      CHECK(value_at.size() == sizes[a]);
    }
    // The same grid twice is the same experiment.
    const Experiment twice = files.load(concat("{\"sweep\": [{", sweep, "}, {", sweep, "}], \"seeds\": ", seeds, "}"));
    CHECK(labels(twice) == labels(e));
    CHECK(twice.duplicates == e.trials.size());
  }
}

TEST_CASE("descriptor: more seeds keep the ids of the first ones") {
  DescriptorFiles files;
  const Experiment three = files.load(R"({"seeds": 3})"), five = files.load(R"({"seeds": 5})");
  for (std::size_t i = 0; i < 3; ++i) CHECK(three.trials[i].id == five.trials[i].id);
}

TEST_CASE("descriptor: ten thousand trials expand quickly") {
  DescriptorFiles files;
  std::string values;
  for (int i = 1; i <= 100; ++i) values += concat(i > 1 ? ", " : "", i);
  const auto start = std::chrono::steady_clock::now();
  const Experiment e = files.load(concat("{\"sweep\": {\"model.depth\": [", values, "], \"train.batch_size\": [",
                                         values, "]}, \"baseline\": {\"model.depth\": 1}}"));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CHECK(e.trials.size() == 10'000);
  WARN(seconds < 1.0);    // on a machine with nothing else to do
  CHECK(seconds < 20.0);  // quadratic time would take minutes
}

TEST_CASE("descriptor: a caller may allow fewer trials") {
  DescriptorFiles files;
  const auto file = files.write("d.json", R"({"sweep": {"model.depth": [1, 2]}, "seeds": 2})");
  CHECK(load_experiment(file, {}, 4).trials.size() == 4);
  CHECK_THROWS_AS(load_experiment(file, {}, 3), InputError);
}
