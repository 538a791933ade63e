// The messages on wrong descriptors.
#include <doctest/doctest.h>

#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

/// A sweep of four rows that ends before the next key.
const std::string kSweep = R"({"sweep": {"model.placement": ["pre_pre", "dpn"], "model.depth": [1, 2]},)";

}  // namespace

TEST_CASE("descriptor: a misspelt value or axis of a sweep is told with its place") {
  DescriptorFiles files;
  CHECK(files.problems(R"({
  "about": "Does Sub-LN train without warm-up?",

  "sweep": { "model.placement": ["pre_pre", "subln", "dyt"], "train.schedule.warmup_step": [0, 500] }
})") == "d.json:4:45: /sweep/model.placement/1: unknown placement \"subln\"; did you mean \"sub_ln\"?\n"
        "d.json:4:62: /sweep/train.schedule.warmup_step: unknown key; did you mean \"warmup_steps\"?");
}

TEST_CASE("descriptor: all problems are told at once in file order") {
  DescriptorFiles files;
  CHECK(files.problems(R"({
  "modle": {},
  "train": { "optimizer": { "name": "adamww", "lr": -1, "beta2": 1 }, "batch_size": 0 },
  "model": { "depth": 1e3, "num_heads": "3", "qkv_bias": 1, "image_size": [32], "placement": ["dpn"] },
  "dataset": { "name": "cifar10", "train_images": 5 },
  "seeds": 0,
  "checkpoint": { "seconds": 0 },
  "about": 7
})") == "d.json:2:3: /modle: unknown key; did you mean \"model\"?\n"
        "d.json:3:37: /train/optimizer/name: unknown word \"adamww\"; did you mean \"adamw\"?\n"
        "d.json:3:53: /train/optimizer/lr: must be at least 0, got -1\n"
        "d.json:3:66: /train/optimizer/beta2: must be below 1, got 1\n"
        "d.json:3:85: /train/batch_size: must be at least 1, got 0\n"
        "d.json:4:23: /model/depth: expected an integer, got 1e3; write 1000\n"
        "d.json:4:41: /model/num_heads: expected an integer, got \"3\"\n"
        "d.json:4:58: /model/qkv_bias: expected true or false, got 1\n"
        "d.json:4:75: /model/image_size: expected a number or [height, width], got 1 numbers\n"
        "d.json:4:94: /model/placement: expected a placement's name or an object of sites, got a list\n"
        "d.json:5:35: /dataset/train_images: only shapes and gratings are generated; cifar10 has no train_images\n"
        "d.json:6:12: /seeds: expected a number of seeds from 1 to 100000, or a list of seeds, got 0\n"
        "d.json:7:30: /checkpoint/seconds: must be above 0, got 0\n"
        "d.json:8:12: /about: expected a string, got 7");
}

TEST_CASE("descriptor: a key that is known elsewhere is told with its path") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"train": {"lr": 1e-3}})") ==
        "d.json:1:12: /train/lr: there is no such key here; did you mean \"train.optimizer.lr\"?");
  CHECK(files.problems(R"({"lr": 1e-3})") ==
        "d.json:1:2: /lr: there is no such key here; did you mean \"train.optimizer.lr\"?");
  CHECK(files.problems(R"({"leave_one_out": {}})") ==
        "d.json:1:2: /leave_one_out: there is no such key here; did you mean \"sweep.leave_one_out\"?");
  CHECK(files.problems(R"({"sweep": {"train.lr": [1, 2]}})") ==
        "d.json:1:12: /sweep/train.lr: there is no such key here; did you mean \"train.optimizer.lr\"?");
  CHECK(files.problems(R"({"sweep": {"placement": ["dpn"]}})") ==
        "d.json:1:12: /sweep/placement: there is no such key here; did you mean \"model.placement\"?");
  CHECK(files.problems(R"({"model": {"batch_size": 8}})") ==
        "d.json:1:12: /model/batch_size: there is no such key here; did you mean \"train.batch_size\"?");
}

TEST_CASE("descriptor: an unknown key is told with the nearest one") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"train": {"epoch": 1}})") ==
        "d.json:1:12: /train/epoch: unknown key; did you mean \"epochs\"?");
  CHECK(files.problems(R"({"train": {"frobnicate": 1}})") == "d.json:1:12: /train/frobnicate: unknown key");
}

TEST_CASE("descriptor: a message shows the object that it expects") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"train": {"optimizer": "adagrad"}})") ==
        "d.json:1:25: /train/optimizer: expected an object such as {\"name\": \"adamw\"}, got \"adagrad\"");
  CHECK(files.problems(R"({"train": {"optimizer": "lion"}})") ==
        "d.json:1:25: /train/optimizer: expected an object such as {\"name\": \"lion\"}, got \"lion\"");
  CHECK(files.problems(R"({"train": {"schedule": 3}})") ==
        "d.json:1:24: /train/schedule: expected an object such as {\"name\": \"cosine\"}, got 3");
  CHECK(files.problems(R"({"model": {"placement": {"attn": "rms_norm"}}})") ==
        "d.json:1:34: /model/placement/attn: expected an object such as {\"pre\": \"rms_norm\"}, got \"rms_norm\"");
  CHECK(files.problems(R"({"sweep": 3})") ==
        "d.json:1:11: /sweep: expected an object of axes such as {\"model.placement\": [\"pre_pre\", \"dpn\"]}, got 3");
}

TEST_CASE("descriptor: a size that does not fit is told with its key") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"model": {"embed_dim": 64, "num_heads": 3}})") ==
        "d.json:1:42: /model/num_heads: 3 heads do not divide embed_dim 64");
  CHECK(files.problems(R"({"model": {"variant": "Ti/5"}})") ==
        "d.json:1:23: /model/variant: patches of 5 do not divide an image of 32 x 32");
  CHECK(files.problems(R"({"sweep": {"model.num_heads": [3, 5]}})") ==
        "d.json:1:35: /sweep/model.num_heads/1: 5 heads do not divide embed_dim 192");
  CHECK(files.problems(R"({"model": {"embed_dim": 9223372036854775807}})")
            .find("/model/embed_dim: must be at most 65536, got 9223372036854775807") != std::string::npos);
  CHECK(files.problems(R"({"model": {"depth": 9223372036854775808}})") ==
        "d.json:1:21: /model/depth: the integer 9223372036854775808 is too large");
}

TEST_CASE("descriptor: two settings of one thing in one object are refused") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"train": {"epochs": 3, "steps": 5}})") ==
        "d.json:1:25: /train/steps: epochs is given too; leave one of them out");
  CHECK(files.problems(R"({"train": {"schedule": {"warmup_steps": 5, "warmup_epochs": 1}}})") ==
        "d.json:1:44: /train/schedule/warmup_epochs: warmup_steps is given too; leave one of them out");
  CHECK(files.problems(R"({"sweep": {"train.epochs": [1], "train.steps": [5]}})") ==
        "d.json:1:33: /sweep/train.steps: sets the same thing as train.epochs; leave one of them out");
  CHECK(files.problems(R"({"model": {"placement": "layer_scale", "layer_scale": "scalar"}})") ==
        "d.json:1:40: /model/layer_scale: the placement has a layer_scale already; set it in one place only");
  CHECK(files.problems(R"({"train": {"epochs": 3, "steps": 0}})") ==
        "d.json:1:25: /train/steps: epochs is given too; leave one of them out\n"
        "d.json:1:34: /train/steps: must be at least 1, got 0");
}

TEST_CASE("descriptor: a setting of an optimiser is refused unless a trial has that optimiser") {
  DescriptorFiles files;
  const std::string text = R"({"train": {"optimizer": {"momentum": 0.5}}, )";
  CHECK(files.problems(text + R"("seeds": 1})") == "d.json:1:26: /train/optimizer/momentum: adamw has no momentum");
  CHECK(files.problems(text + R"("sweep": {"train.optimizer.name": ["adamw", "sgd"]}})") == "");
}

TEST_CASE("descriptor: a setting of a norm or a gain that is not there is refused") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"model": {"placement": {"final": {"kind": "layer_norm", "momentum": 0.2}}}})") ==
        "d.json:1:58: /model/placement/final/momentum: a norm of kind layer_norm has no momentum");
  CHECK(files.problems(R"({"model": {"placement": {"final": {"eps": 1}}}})") ==
        "d.json:1:35: /model/placement/final: there is no norm here; give its \"kind\"");
  CHECK(files.problems(R"({"model": {"placement": {"layer_scale": {"kind": "none", "init": 1}}}})") ==
        "d.json:1:58: /model/placement/layer_scale/init: there is no layer_scale; give its \"kind\"");
}

TEST_CASE("descriptor: a wrong placement is told with its place") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"model": {"placement": {"merge": "layer_norm"}}})") ==
        "d.json:1:26: /model/placement/merge: merge is a site of Swin; a ViT has none");
  CHECK(files.problems(R"({"model": {"placement": {"attn": {"prre": "layer_norm"}}}})") ==
        "d.json:1:35: /model/placement/attn/prre: unknown key; did you mean \"pre\"?");
  CHECK(files.problems(R"({"model": {"placement": {"attn": {"pre": "layernorm"}}}})") ==
        "d.json:1:42: /model/placement/attn/pre: unknown word \"layernorm\"; did you mean \"layer_norm\"?");
  CHECK(files.problems(
            R"({"placements": {"dpn": {}, "a": {"base": "b"}, "b": {"base": "a"}}, "model": {"placement": "mine"}})") ==
        "d.json:1:17: /placements/dpn: a built-in placement has this name; choose another\n"
        "d.json:1:62: /placements/b/base: placement \"a\" is based on itself\n"
        "d.json:1:92: /model/placement: unknown placement \"mine\"");
  CHECK(files.problems(R"({"placements": {"mine": {"base": "dpn"}}, "model": {"placement": "mien"}})") ==
        "d.json:1:66: /model/placement: unknown placement \"mien\"; did you mean \"mine\"?");
  CHECK(files.problems(R"({"train": {"batch_size": 10}, "model": {"placement":
    {"base": "bn", "final": {"statistics_batch": 4}}}})") ==
        "d.json:2:5: /model/placement: statistics_batch 4 of final does not divide batch_size 10");
}

TEST_CASE("descriptor: what networks elsewhere have is answered with what comes nearest") {
  DescriptorFiles files;
  CHECK(
      files.problems(R"({"model": {"hyper_connections": 4}})") ==
      "d.json:1:12: /model/hyper_connections: there is no such setting; several residual streams are only those of the "
      "placement \"siamese_norm\" and of \"stream_norm\"");
  CHECK(files.problems(R"({"model": "vit_tiny"})") ==
        "d.json:1:11: /model: expected an object such as {\"variant\": \"Ti/4\"}, got \"vit_tiny\"");
  CHECK(files.problems(R"({"model": {"patch": 4}, "train": {"batch": 4}})") ==
        "d.json:1:12: /model/patch: unknown key; did you mean \"patch_size\"?\n"
        "d.json:1:35: /train/batch: unknown key; did you mean \"batch_size\"?");
  CHECK(files.problems(R"({"model": {"placement": "postln"}})") ==
        "d.json:1:25: /model/placement: unknown placement \"postln\"; did you mean \"Post-LN\"?");
  const std::string kinds = files.problems(R"({"model": {"placement": {"final": {"kind": "expression"}}}})");
  CHECK(kinds.starts_with("d.json:1:44: /model/placement/final/kind: unknown word \"expression\"; one of: none, "));
  CHECK(kinds.ends_with("or a formula, {\"formula\": \"x / rms(x)\"}"));
}

TEST_CASE("descriptor: a wrong dataset is told with its place") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"dataset": "cifar"})") ==
        "d.json:1:13: /dataset: unknown dataset \"cifar\"; did you mean \"cifar10\"?; for a data set of your own give "
        "\"path\" and \"layout\" (image_folder, webdataset, ...)");
  CHECK(files.problems(R"({"dataset": {"name": "cifar10", "per_class": 5, "fraction": 0.5}})") ==
        "d.json:1:49: /dataset/fraction: per_class is given too; leave one of them out");
  CHECK(files.problems(R"({"dataset": {"name": "cifar10", "order": "shards", "std": [0.2, 0, 0.2]}})") ==
        "d.json:1:65: /dataset/std/1: must be above 0, got 0");
  CHECK(files.problems(R"({"dataset": {"name": "shapes", "on_bad_image": "skip"}})") != "");
}

TEST_CASE("descriptor: a model whose sizes do not fit the dataset is refused") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"dataset": {"name": "tiny-imagenet-200", "eval": "val"}, "model": {"image_size": 128}})") ==
        "d.json:1:83: /model/image_size: the dataset \"tiny-imagenet-200\" has image_size [64, 64]; for another size, "
        "set train.augment.crop and train.eval_transform.crop");
  CHECK(files.problems(R"({"dataset": {"name": "tiny-imagenet-200", "eval": "val"}, "model": {"image_size": 128},
    "train": {"augment": {"crop": "stretch"}, "eval_transform": {"crop": "stretch"}}})") == "");
  CHECK(files.problems(R"({"dataset": {"path": "pets", "layout": "webdataset"}, "model": {"image_size": 64}})") ==
        "d.json:1:64: /model: give num_classes, which is not known for the dataset \"pets\"");
  CHECK(files.problems(R"({"dataset": "cifar10", "model": {"num_classes": 100, "image_size": [32, 64]}})") ==
        "d.json:1:49: /model/num_classes: the dataset \"cifar10\" has num_classes 10\n"
        "d.json:1:68: /model/image_size: the dataset \"cifar10\" has image_size [32, 32]; for another size, set "
        "train.augment.crop and train.eval_transform.crop");
  CHECK(files.problems(R"({"dataset": {"name": "shapes", "path": "x"}})") ==
        "d.json:1:32: /dataset/path: shapes is generated and has no path");
}

TEST_CASE("descriptor: an axis that cannot work is refused") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"sweep": {"seeds": [1]}})") ==
        "d.json:1:12: /sweep/seeds: the seed cannot be an axis; set \"seeds\" next to \"sweep\"");
  CHECK(files.problems(R"({"sweep": {"modle.depth": [1]}})") ==
        "d.json:1:12: /sweep/modle.depth: unknown key; did you mean \"model\"?");
  CHECK(files.problems(R"({"sweep": {"model.depth": 3}})") ==
        "d.json:1:27: /sweep/model.depth: expected a list of values, got 3");
  CHECK(files.problems(R"({"sweep": {"model.depth": []}})") ==
        "d.json:1:27: /sweep/model.depth: an axis needs at least one value");
  CHECK(files.problems(R"({"sweep": {"model.depth,model.embed_dim": [[1, 2], [3]]}})") ==
        "d.json:1:52: /sweep/model.depth,model.embed_dim/1: expected a list of 2 values, one for each of "
        "model.depth,model.embed_dim");
  CHECK(files.problems(R"({"sweep": {"model.depth.x": [1]}, "model": {"depth": 3}})") ==
        "d.json:1:12: /sweep/model.depth.x: model.depth is 3 and has no keys");
  CHECK(files.problems(R"({"sweep": {"model..depth": [1]}})") ==
        "d.json:1:12: /sweep/model..depth: a path needs a key on each side of a dot");
  CHECK(files.problems(R"({"sweep": {"model.placement.final": ["none"], "model.placement": ["dpn"]}})") ==
        "d.json:1:47: /sweep/model.placement: would overwrite model.placement.final, which is a part of it; put this "
        "axis first");
  CHECK(files.problems(R"({"sweep": {"model.depth": [1], "model.depth,train.epochs": [[1, 1]]}})") ==
        "d.json:1:32: /sweep/model.depth,train.epochs: model.depth is an axis already");
  CHECK(files.problems(R"({"sweep": []})") == "d.json:1:11: /sweep: a list of grids needs at least one grid");
}

TEST_CASE("descriptor: seeds that cannot work are refused") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"sweep": [{"model.depth": [1], "seeds": 2}], "seeds": 3})") ==
        "d.json:1:47: /seeds: every grid has its own seeds; leave these out");
  CHECK(files.problems(R"({"seeds": [1, 2, 1, -1]})") ==
        "d.json:1:18: /seeds/2: seed 1 is given twice\n"
        "d.json:1:21: /seeds/3: expected an integer from 0 to 2^64 - 1, got -1");
}

TEST_CASE("descriptor: more than 100000 trials are refused") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"sweep": {"model.depth": [1, 2], "train.epochs": [1, 2]}, "seeds": 50000})") ==
        "d.json:1:2: /sweep: more than 100000 trials; split the descriptor");
}

TEST_CASE("descriptor: a value that the sweep always replaces is still checked") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"model": {"placement": "subln"}, "sweep": {"model.placement": ["dpn"]}})") ==
        "d.json:1:25: /model/placement: unknown placement \"subln\"; did you mean \"sub_ln\"?");
}

TEST_CASE("descriptor: a baseline names axes and values of the sweep") {
  DescriptorFiles files;
  CHECK(files.problems(kSweep + R"("baseline": {"model.placemnt": "pre_pre"}})") ==
        "d.json:1:87: /baseline/model.placemnt: unknown axis \"model.placemnt\"; did you mean \"model.placement\"?");
  CHECK(files.problems(kSweep + R"("baseline": {"model.placement": "dnp"}})") ==
        "d.json:1:106: /baseline/model.placement: not a value of this axis: unknown value \"dnp\"; did you mean "
        "\"dpn\"?");
  CHECK(files.problems(R"({"baseline": {"model.depth": 1}})") ==
        "d.json:1:15: /baseline/model.depth: unknown axis \"model.depth\"");
}

TEST_CASE("descriptor: a misspelt axis does not make the baseline wrong") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"sweep": {"model.dpeth": [1, 2]}, "baseline": {"model.depth": 1}})") ==
        "d.json:1:12: /sweep/model.dpeth: unknown key; did you mean \"depth\"?");
}

TEST_CASE("descriptor: a baseline that is excluded is refused") {
  DescriptorFiles files;
  CHECK(files.problems(kSweep + R"("baseline": {"model.depth": 1}, "exclude": [{"model.depth": 1}]})") ==
        "d.json:1:86: /baseline: matches no combination of the sweep");
}

TEST_CASE("descriptor: a wrong exclude is told with its place") {
  DescriptorFiles files;
  CHECK(
      files.problems(
          kSweep +
          R"("exclude": [{"model.depth": 1, "model.placement": "dpn"}, {"model.depth": 1, "model.placement": "dpn"}]})") ==
      "");
  CHECK(files.problems(kSweep + R"("exclude": [{}]})") ==
        "d.json:1:86: /exclude/0: expected an object {axis: value}, got an empty one");
  CHECK(files.problems(kSweep + R"("exclude": [{"model.depth": 1}, {"model.depth": 2}]})") ==
        "d.json:1:74: /exclude: excludes every combination; leave at least one");
}

TEST_CASE("descriptor: a problem of --set is told with its own words") {
  DescriptorFiles files;
  CHECK(files.problems("{}", {"model.depth=x", "train.epoch=3", "trian.epochs=3", "model.depth.x=1"}) ==
        "--set model.depth=x: /model/depth: expected an integer, got \"x\"\n"
        "--set train.epoch=3: /train/epoch: unknown key; did you mean \"epochs\"?\n"
        "--set trian.epochs=3: /trian: unknown key; did you mean \"train\"?\n"
        "--set model.depth.x=1: /model.depth.x: model.depth is \"x\" and has no keys");
  CHECK(files.problems("{}", {"nonsense"}) == "--set nonsense: expected path=value, such as --set train.epochs=2");
}

TEST_CASE("descriptor: --set cannot change an axis or the base") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"sweep": {"model.depth": [1]}})", {"model.depth=2"}) ==
        "--set model.depth=2: /model/depth: model.depth is an axis of the sweep, which would overwrite this value; set "
        "\"sweep\" instead");
  CHECK(files.problems("{}", {"extends=x.json"}) ==
        "--set extends=x.json: /extends: can only be set in the file, not by --set");
}

TEST_CASE("descriptor: a file that is not a descriptor is refused") {
  DescriptorFiles files;
  CHECK_THROWS_AS(load_experiment(files.folder() / "absent.json"), InputError);
  CHECK_THROWS_AS(load_experiment(files.folder()), InputError);
  CHECK_THROWS_WITH_AS(load_experiment(files.write("results.jsonl", "{}\n{}\n")),
                       doctest::Contains("commands that read results take it with --from"), InputError);
  CHECK(files.problems(R"([])") == "d.json:1:1: expected an object, got a list");
}

TEST_CASE("descriptor: a base that is not found is told with the nearest name") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"extends": "gone.json"})") == "d.json:1:13: /extends: there is no file gone.json");
  files.write("sub/nearly.json", "{}");
  CHECK(files.problems(R"({"extends": "sub/nearl.json"})") ==
        "d.json:1:13: /extends: there is no file sub/nearl.json; did you mean \"nearly.json\"?");
  CHECK(files.problems(R"({"extends": "recipes/cifar_small.json"})") ==
        "d.json:1:13: /extends: there is no file recipes/cifar_small.json; did you mean \"recipe:cifar_small\"?");
  CHECK(files.problems(R"({"extends": "recipe:cifar_smal"})") ==
        "d.json:1:13: /extends: unknown recipe \"recipe:cifar_smal\"; did you mean \"recipe:cifar_small\"?");
  CHECK(files.problems(R"({"extends": 3})") == "d.json:1:13: /extends: expected the path of a descriptor, got 3");
}

TEST_CASE("descriptor: a descriptor that extends itself is refused") {
  DescriptorFiles files;
  files.write("sub/a.json", R"({"extends": "../d.json"})");
  CHECK(files.problems(R"({"extends": "sub/a.json"})") ==
        "sub/a.json:1:13: /extends: d.json extends itself through a cycle");
}

TEST_CASE("descriptor: a problem of a base is told with its place in the base") {
  DescriptorFiles files;
  files.write("base.json", "{\n \"model\": {\"depht\": 3}}");
  CHECK(files.problems(R"({"extends": "base.json", "seed": 1})") ==
        "d.json:1:26: /seed: unknown key; did you mean \"seeds\"?\n"
        "base.json:2:12: /model/depht: unknown key; did you mean \"depth\"?");
}
