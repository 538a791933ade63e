// What a descriptor expands to.
#include "experiments/descriptor/experiment.h"

#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <random>
#include <set>

#include "experiments/descriptor/canonical.h"
#include "experiments/descriptor/json_tree.h"
#include "tests/experiments/descriptor/descriptor_files.h"

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

}  // namespace

TEST_CASE("descriptor: an empty one is one trial of the defaults") {
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

TEST_CASE("descriptor: axes in file order, the last fastest, then seeds") {
  DescriptorFiles files;
  const Experiment e =
      files.load(R"({"about": "why", "sweep": {"model.depth": [2, 1], "train.optimizer.lr": [1e-3, 0.01]},
    "seeds": [7, 3], "checkpoint": {"seconds": 5, "steps": 9}})");
  CHECK(e.about == "why");
  CHECK(e.axes == Words{"model.depth", "train.optimizer.lr"});
  CHECK(labels(e) == Words{"depth=2, lr=1e-3", "depth=2, lr=0.01", "depth=1, lr=1e-3", "depth=1, lr=0.01"});
  REQUIRE(e.trials.size() == 8);
  CHECK(e.trials[3].label == "depth=2, lr=0.01, seed 3");
  CHECK(e.trials[3].row == 1);
  CHECK(e.trials[3].seed_index == 1);
  CHECK(vit_of(e.trials[3].config).depth == 2);
  CHECK(e.trials[3].config.train.optimizer.lr == 0.01);
  CHECK(e.trials[3].config.seed == 3);
  CHECK(e.rows[1].trials == std::vector<std::size_t>{2, 3});
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

TEST_CASE("descriptor: grids unite, a row that comes again adds its new seeds") {
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

TEST_CASE("descriptor: a baseline is matched on the axes it leaves open") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"sweep": [
      {"model.depth": [1, 2], "model.placement": ["dpn", "pre_pre"]},
      {"model.depth": [3], "model.placement": ["dpn"]}],
    "baseline": {"model.placement": "pre_pre"}})");
  REQUIRE(e.rows.size() == 5);
  CHECK(e.rows[0].baseline == 1);
  CHECK(e.rows[1].baseline == 1);
  CHECK(e.rows[2].baseline == 3);
  CHECK(e.rows[3].baseline == 3);
  CHECK_FALSE(e.rows[4].baseline.has_value());
  // Numbers are compared by value.
  CHECK(files.load(R"({"sweep": {"train.optimizer.lr": [1e-3, 1e-2]}, "baseline": {"train.optimizer.lr": 0.001}})")
            .rows[1]
            .baseline == 0);
}

TEST_CASE("descriptor: exclude removes what matches all its axes") {
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
  // Into the placement of a model that names none, into a word, and into the norm that the base has there.
  const auto placement_of = [&](const char* text) { return vit_of(files.load(text).trials[0].config).placement; };
  expected = find_placement("pre_pre")->placement;
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

TEST_CASE("descriptor: placements of one's own, and labels by the difference to the base") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({
    "placements": {"mine": {"base": "second", "final": "dyt"}, "second": {"base": "dpn", "head_scale": "before_proj"}},
    "sweep": {"model.placement": ["mine",
      {"base": "pre_pre", "stem": {"patch_in": "layer_norm"}},
      {"base": "mine", "final": {"alpha_init": 0.8}, "layer_scale": {"kind": "scalar", "init": 0}, "init_gain": 2},
      {"attn": {"pre": "layer_norm"}, "residual_scale": true, "stem": {"posembed_out": "rms_norm"}},
      {}]}})");
  Placement mine = find_placement("dpn")->placement;
  mine.final = norm_of(NormKind::dyt);
  mine.head_scale = HeadScale::before_proj;
  CHECK(vit_of(e.trials[0].config).placement == mine);
  CHECK(labels(e) == Words{"mine", "pre_pre + stem.patch_in=layer_norm",
                           "mine + final=dyt(alpha_init=0.8) + layer_scale=scalar(init=0) + init_gain=2",
                           "none + stem.posembed_out=rms_norm + attn.pre=layer_norm + residual_scale=true", "none"});
}

TEST_CASE("descriptor: extends merges objects, and the child's keys win") {
  DescriptorFiles files;
  files.write("recipes/root.json", R"({"about": "root", "dataset": "cifar10", "seeds": 4})");
  files.write("recipes/base.json", R"({"extends": "root.json",
    "model": {"depth": 4, "placement": {"base": "dpn", "final": "none"}},
    "train": {"epochs": 3, "batch_size": 32, "schedule": {"warmup_epochs": 1}},
    "sweep": {"model.depth": [1, 2]}})");
  const Experiment e = files.load(R"({"extends": "recipes/base.json", "dataset": {"train": "train[:800]"},
    "model": {"embed_dim": 96, "placement": {"final": "layer_norm"}}, "train": {"steps": 7, "schedule": {"warmup_steps": 2}},
    "sweep": {"model.num_heads": [1, 2]}})");
  CHECK(e.files.size() == 3);
  CHECK(e.about == "root");
  CHECK(labels(e) == Words{"1", "2"});  // a sweep is replaced whole
  CHECK(e.trials.size() == 8);
  const TrialConfig& c = e.trials[0].config;
  CHECK(c.dataset.name == "cifar10");
  CHECK(c.dataset.train == "train[:800]");
  CHECK(vit_of(c).depth == 4);
  CHECK(vit_of(c).embed_dim == 96);
  CHECK(vit_of(c).mlp_dim == 384);
  Placement only_final;  // so is a placement
  only_final.final = norm_of(NormKind::layer_norm);
  CHECK(vit_of(c).placement == only_final);
  CHECK(c.train.steps == 7);  // and the base's epochs give way
  CHECK(c.train.epochs == TrainConfig{}.epochs);
  CHECK(c.train.batch_size == 32);
  CHECK(c.train.schedule.warmup_steps == 2);
  CHECK(c.train.schedule.warmup_epochs == 0);
}

TEST_CASE("descriptor: an axis of steps takes the place of epochs") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"train": {"epochs": 3}, "sweep": {"train.steps": [50, 500]}})");
  CHECK(e.trials[0].config.train.steps == 50);
  CHECK(e.trials[1].config.train.steps == 500);
}

TEST_CASE("descriptor: --set applies last, as JSON or as a word") {
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

TEST_CASE("descriptor: a variant fills sizes that may be set by themselves") {
  DescriptorFiles files;
  const ViTConfig c = vit_of(files.load(R"({"model": {"depth": 2, "variant": "S/16"}})").trials[0].config);
  CHECK(c.embed_dim == 384);
  CHECK(c.num_heads == 6);
  CHECK(c.mlp_dim == 1536);
  CHECK(c.patch_size == 16);
  CHECK(c.depth == 2);
}

TEST_CASE("descriptor: a dataset of one's own states its sizes") {
  DescriptorFiles files;
  const TrialConfig c = files
                            .load(R"({"dataset": {"path": "pets", "layout": "webdataset"},
    "model": {"image_size": [64, 32], "num_classes": 37}})")
                            .trials[0]
                            .config;
  CHECK(c.dataset.name == "pets");
  CHECK(c.dataset.path == "");  // the name says it
  CHECK(vit_of(c).image_size == std::array<std::int64_t, 2>{64, 32});
  CHECK(vit_of(c).channels == 3);
  const Experiment mine =
      files.load(R"({"dataset": {"name": "mine", "path": "x/y", "layout": "cifar"}, "model": {"num_classes": 3}})");
  CHECK(vit_of(mine.trials[0].config).channels == 3);
}

TEST_CASE("descriptor: random grids expand to the product, in order, each trial once") {
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
      CHECK(e.trials[t].seed_index == t % seeds);
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

TEST_CASE("descriptor: raising the seeds keeps the ids of those before") {
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

TEST_CASE(
    "descriptor: a Swin by its variant, its norms with epsilon 1e-5, rows with their norm at patch_out and merge") {
  DescriptorFiles files;
  const auto swin = [&](const std::string& model) {
    return swin_of(files.load("{\"model\": " + model + "}").trials[0].config);
  };
  SwinConfig c = swin(R"({"kind": "swin", "variant": "SwinD-B", "drop_path": 0.4, "window": 4})");
  CHECK(c.embed_dim == 96);
  CHECK(c.depths == std::vector<std::int64_t>{2, 2, 42, 2});
  CHECK(c.num_heads == std::vector<std::int64_t>{3, 6, 12, 24});
  CHECK(c.window == 4);
  CHECK(c.placement == swin_placement(find_placement("pre_pre")->placement));
  CHECK(c.placement.merge == NormSpec{.kind = NormKind::layer_norm, .eps = 1e-5});
  CHECK(c.placement.stem.patch_out == c.placement.merge);
  c = swin(R"({"kind": "swin", "placement": "bn_ffnbn"})");
  CHECK(c.placement.merge == norm_of(NormKind::batch_norm));
  c = swin(
      R"({"kind": "swin", "placement": {"base": "dpn", "merge": "none", "final": {"kind": "rms_norm", "eps": 1e-6}}})");
  CHECK(c.placement.stem.patch_in.eps == 1e-5);
  CHECK(c.placement.merge.kind == NormKind::none);
  CHECK(c.placement.final.eps == 1e-6);
  // One row of one's own, for both kinds.
  const Experiment both = files.load(R"({"placements": {"mine": {"base": "pre_pre", "pooled": "layer_norm"}},
    "model": {"placement": "mine"}, "sweep": {"model.kind": ["vit", "swin"]}})");
  CHECK(vit_of(both.trials[0].config).placement.pooled.eps == 1e-6);
  CHECK(vit_of(both.trials[0].config).placement.merge.kind == NormKind::none);
  CHECK(swin_of(both.trials[1].config).placement.pooled.eps == 1e-5);
  CHECK(swin_of(both.trials[1].config).placement.merge.kind == NormKind::layer_norm);
}

TEST_CASE("descriptor: the key of another kind of model is an error, unless another trial uses it") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"model": {"window": 4}})") ==
        "d.json:1:12: /model/window: only a model of kind swin has this key");
  CHECK(files.problems(R"({"model": {"kind": "swin", "pool": "gap", "windo": 3}})") ==
        "d.json:1:28: /model/pool: only a model of kind vit has this key\n"
        "d.json:1:43: /model/windo: unknown key; did you mean \"window\"?");
  CHECK(files.problems(R"({"model": {"window": 4, "depth": 2}, "sweep": {"model.kind": ["vit", "swin"]}})") == "");
  CHECK(files.problems(R"({"model": {"kind": "resnet"}})") ==
        "d.json:1:20: /model/kind: unknown word \"resnet\"; one of: vit, swin");
  CHECK(files.problems(R"({"model": {"kind": "swin", "variant": "Swin-X"}})").find("unknown variant \"Swin-X\"") !=
        std::string::npos);
  CHECK(files.problems(R"({"model": {"kind": "swin", "depths": [2, 2], "num_heads": [3]}})") ==
        "d.json:1:59: /model/num_heads: num_heads has 1 stages, but depths has 2");
  CHECK(files.problems(R"({"model": {"kind": "swin", "depths": 2}})") ==
        "d.json:1:38: /model/depths: expected a list of integers, got 2");
  CHECK(files.problems(R"({"model": {"kind": "swin", "placement": "stem_posembed"}})") ==
        "d.json:1:41: /model/placement: stem.posembed_out is a site of the ViT; a Swin adds no positions");
  CHECK(files.problems(R"({"placements": {"m": {"base": "pre_pre", "merge": "dyt"}}, "model": {"placement": "m"}})") ==
        "d.json:1:83: /model/placement: merge is a site of Swin; a ViT has none");
}

TEST_CASE("descriptor: DeiT has a class token with a position, and a second one where it is distilled") {
  DescriptorFiles files;
  const ViTConfig c = vit_of(
      files.load(R"({"model": {"variant": "DeiT-S/16", "distill_token": true, "image_size": 32}})").trials[0].config);
  CHECK(c.embed_dim == 384);
  CHECK(c.pool == Pool::token);
  CHECK(c.class_position());
  CHECK(c.tokens() == 6);
  CHECK(files.problems(R"({"model": {"variant": "DeiT-L/16"}})").find("unknown variant \"DeiT-L\"") !=
        std::string::npos);
  CHECK(files.problems(R"({"model": {"distill_token": true}})") ==
        "d.json:1:12: /model/distill_token: a distillation token needs a class token; set pool to \"token\"");
  CHECK(files.problems(R"({"model": {"short_forms": false}})") ==
        "d.json:1:12: /model/short_forms: without drop_path or a class token (pool token) there is nothing to skip");
}

TEST_CASE("descriptor: a caller may allow fewer trials") {
  DescriptorFiles files;
  const auto file = files.write("d.json", R"({"sweep": {"model.depth": [1, 2]}, "seeds": 2})");
  CHECK(load_experiment(file, {}, 4).trials.size() == 4);
  CHECK_THROWS_AS(load_experiment(file, {}, 3), InputError);
}
