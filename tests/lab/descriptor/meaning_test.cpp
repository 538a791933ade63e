// Settings that contradict themselves or that a run refuses on any data: each is told with its place.
#include <doctest/doctest.h>

#include "experiments/lab/descriptor/canonical.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

/// Two images an evaluation, so that `shapes` fits anything.
const char* const kHead = R"({"model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2}, )";

struct Wrong {
  std::string text, pointer, what;
};

void check_each(const std::vector<Wrong>& all) {
  for (const Wrong& wrong : all) {
    DescriptorFiles files;
    const std::string said = files.problems(wrong.text);
    CAPTURE(wrong.text);
    CHECK_MESSAGE(said.find(": " + wrong.pointer + ": ") != std::string::npos, said);
    CHECK_MESSAGE(said.find(wrong.what) != std::string::npos, said);
    CHECK_MESSAGE(said.find('\n') == std::string::npos, said);
  }
}

Wrong train(const std::string& settings, const std::string& pointer, const std::string& what) {
  return {kHead + concat("\"train\": {", settings, "}}"), "/train" + pointer, what};
}
Wrong dataset(const std::string& settings, const std::string& pointer, const std::string& what) {
  return {kHead + concat("\"dataset\": {", settings, "}, \"train\": {\"batch_size\": 5}}"), "/dataset" + pointer, what};
}

}  // namespace

TEST_CASE("meaning: a training of length 0 is refused") {
  check_each({
      train(R"("steps": 0)", "/steps", "must be at least 1, got 0"),
      train(R"("images": 0)", "/images", "must be at least 1, got 0"),
      train(R"("epochs": 0)", "/epochs", "must be above 0, got 0"),
  });
  DescriptorFiles files;
  CHECK(files.problems(concat(kHead, R"("sweep": {"train.steps": [0, 5]}})")).find("must be at least 1") !=
        std::string::npos);
  CHECK(files.problems(concat(kHead, R"("train": {"epochs": 3}})"), {"train.steps=0"}).find("/train/steps: must be") !=
        std::string::npos);
}

TEST_CASE("meaning: a warm-up of 0 steps replaces the epochs of the base") {
  DescriptorFiles files;
  files.write("base.json", concat(kHead, R"("train": {"schedule": {"warmup_epochs": 3}}})"));
  for (const char* text : {R"({"extends": "base.json", "train": {"schedule": {"warmup_steps": 0}}})",
                           R"({"extends": "base.json", "sweep": {"train.schedule.warmup_steps": [0]}})"}) {
    const TrialConfig config = files.load(text).trials.front().config;
    CHECK(config.train.schedule.warmup_epochs == 0);
    CHECK(config.train.schedule.warmup_steps == 0);
  }
}

TEST_CASE("meaning: two settings of one thing are refused, 0 included") {
  check_each({
      train(R"("schedule": {"warmup_steps": 0, "warmup_epochs": 2})", "/schedule/warmup_epochs", "is given too"),
      train(R"("epochs": 2, "images": 5000)", "/images", "epochs is given too"),
      dataset(R"("per_class": 0, "fraction": 0.5)", "/fraction", "per_class is given too"),
  });
}

TEST_CASE("meaning: a number beyond what a setting can be is refused") {
  check_each({
      train(R"("augment": {"mix": {"mixup": 1e300}})", "/augment/mix/mixup",
            "is more than a float can hold (3.4e38); got 1e300"),
      train(R"("augment": {"mix": {"mixup": 2e6}})", "/augment/mix/mixup", "must be at most 1000000, got 2e6"),
      train(R"("augment": {"mix": {"cutmix": 1e7}})", "/augment/mix/cutmix", "every lambda is one half"),
      train(R"("epochs": 1e300)", "/epochs", "is more than a float can hold"),
      train(R"("epochs": 1e10)", "/epochs", "must be at most 1000000000"),
      train(R"("eval_every_epochs": 1e30)", "/eval_every_epochs", "must be at most 1000000000"),
      train(R"("schedule": {"warmup_epochs": 1e30})", "/schedule/warmup_epochs", "must be at most 1000000000"),
      train(R"("clip_norm": 1e-300)", "/clip_norm", "becomes 0 as a float (the smallest is 1.2e-38); got 1e-300"),
      train(R"("optimizer": {"lr": 1e39})", "/optimizer/lr", "is more than a float can hold"),
      train(R"("optimizer": {"eps": 1e-60})", "/optimizer/eps", "becomes 0 as a float"),
      train(R"("optimizer": {"beta2": 0.99999999})", "/optimizer/beta2", "becomes 1 as a float; got"),
      train(R"("label_smoothing": 0.999999999)", "/label_smoothing", "becomes 1 as a float; got"),
      train(R"("augment": {"crop_padding": 2147483648})", "/augment/crop_padding", "must be at most 65536"),
      train(R"("augment": {"randaugment": {"dialect": "timm", "layers": 1000000}})", "/augment/randaugment/layers",
            "must be at most 100"),
      train(R"("augment": {"randaugment": {"dialect": "timm", "interpolation": "bicubic", "magnitude": 15}})",
            "/augment/randaugment/magnitude", "timm's levels end at 10"),
      train(R"("batch_size": 9223372036854775807, "drop_last": false)", "/batch_size", "must be at most 16777216"),
      train(R"("steps": 9223372036854775807)", "/steps", "must be at most 1125899906842624"),
      {concat(R"({"model": {"patch_size": 8, "embed_dim": 16, "num_heads": 2, "dropout": 0.99999999}})"),
       "/model/dropout", "becomes 1 as a float; got"},
      {concat(R"({"model": {"patch_size": 8, "embed_dim": 16, "num_heads": 2, "placement":
          {"final": {"kind": "layer_norm", "eps": 1e-300}}}})"),
       "/model/placement/final/eps", "becomes 0 as a float"},
  });
}

TEST_CASE("meaning: a pixel mean or deviation that is no share of 255 is refused") {
  check_each({
      dataset(R"("mean": [123.7, 0.4, 0.4])", "/mean/0",
              "must be at most 1, got 123.7; a pixel value of 255 counts as 1 here: divide by 255"),
      dataset(R"("mean": [0.5, 0.4, -0.1])", "/mean/2", "must be at least 0, got -0.1"),
      dataset(R"("std": [0.2, 58.4, 0.2])", "/std/1", "must be at most 1, got 58.4"),
      dataset(R"("std": [0.2, 0.2, 0])", "/std/2", "must be above 0, got 0"),
      dataset(R"("std": [0.2, 0.2, -0.2])", "/std/2", "must be above 0, got -0.2"),
      dataset(R"("mean": [0.5])", "/mean", "1 values for 3 channels"),
      dataset(R"("std": [0.2, 0.2])", "/std", "2 values for 3 channels"),
  });
  DescriptorFiles files;
  CHECK(files.problems(concat(kHead, R"("dataset": {"mean": [0, 1, 0.5], "std": [1, 1, 1]}})")) == "");
}

TEST_CASE("meaning: settings that contradict each other are refused") {
  check_each({
      train(R"("eval_every_epochs": 0, "early_stop": {"metric": "minival/loss"}}, "dataset": {"train": "train[:90%]",
            "minival": "train[90%:]")",
            "/early_stop", "eval_every_epochs is 0"),
      train(R"("early_stop": {"metric": "minival/accuracy", "min_delta": 1}}, "dataset": {"train": "train[:90%]",
            "minival": "train[90%:]")",
            "/early_stop/min_delta", "one percentage point is 0.01"),
      train(R"("eval_transform": {"crop": "center", "resize_to": 16})", "/eval_transform/resize_to",
            "a crop of 32 x 32 pixels does not fit"),
  });
}

TEST_CASE("meaning: policies exclude each other, and their order names each step once") {
  const auto ordered = [](const std::string& order) {
    return concat(R"("augment": {"crop_padding": 4, "autoaugment": {"dialect": "torchvision"}, "order": )", order, "}");
  };
  check_each({
      train(R"("augment": {"randaugment": {"dialect": "torchvision"}, "autoaugment": {"dialect": "deepvoltaire"}})",
            "/augment/autoaugment", "randaugment is on too; set the dialect of one to none"),
      train(R"("augment": {"autoaugment": {"dialect": "torchvision"}, "trivialaugment": {"dialect": "torchvision"}})",
            "/augment/trivialaugment", "autoaugment is on too"),
      train(ordered(R"(["policy", "flip"])"), "/augment/order",
            "crop_padding is missing; list crop_padding, flip and policy once each"),
      train(ordered(R"([])"), "/augment/order", "crop_padding is missing"),
      train(ordered(R"(["policy", "flip", "flip"])"), "/augment/order/2", "flip is given twice; list"),
      train(ordered(R"(["policy", "flip", "crop"])"), "/augment/order/2", "\"crop\""),
      train(ordered(R"("policy")"), "/augment/order", "expected a list"),
      train(R"("augment": {"crop_padding": 4, "order": ["policy", "crop_padding", "flip"]})", "/augment/order",
            "at most one of crop_padding, flip and a policy is on"),
      train(R"("augment": {"autoaugment": {"dialect": "deepvoltaire", "interpolation": "bilinear"}})",
            "/augment/autoaugment/interpolation", "the dialect deepvoltaire has no interpolation"),
      train(R"("augment": {"trivialaugment": {"fill": [1, 2, 3]}})", "/augment/trivialaugment/fill",
            "without a dialect the policy is off"),
      train(R"("augment": {"randaugment": {"dialect": "ildoonee", "magnitude": 31}})", "/augment/randaugment/magnitude",
            "ildoonee's levels end at 30, got 31"),
      train(R"("augment": {"randaugment": {"dialect": "ildoonee", "interpolation": "bilinear"}})",
            "/augment/randaugment/interpolation", "the dialect ildoonee has no interpolation"),
      train(R"("augment": {"mix": {"off_epoch": 3}})", "/augment/mix/off_epoch", "neither mixup nor cutmix is on"),
      train(R"("augment": {"mix": {"mixup": 0.2, "off_epoch": -1}})", "/augment/mix/off_epoch", "must be at least 0"),
  });
}

TEST_CASE("meaning: the default order of a padded crop, a flip and a policy changes no id") {
  DescriptorFiles files;
  const auto id_of = [&](const std::string& order) {
    return trial_id(files
                        .load(concat(kHead, R"("train": {"augment": {"crop_padding": 4, "trivialaugment": {
        "dialect": "torchvision"}, "mix": {"mixup": 0.2, "off_epoch": 0})",
                                     order, "}}}"))
                        .trials.front()
                        .config);
  };
  CHECK(id_of("") == id_of(R"(, "order": ["crop_padding", "flip", "policy"])"));
  CHECK(id_of("") != id_of(R"(, "order": ["policy", "crop_padding", "flip"])"));
}

TEST_CASE("meaning: settings that a run refuses on any data are refused") {
  check_each({
      train(R"("batch_size": 2001)", "/batch_size", "2001 is more than the 2000 training images"),
      train(R"("epochs": 1e-9)", "/epochs", "steps round to 0 steps"),
      train(R"("images": 5)", "/images", "images round to 0 steps of 128 images"),
      train(R"("steps": 5, "schedule": {"cooldown_steps": 6})", "/schedule/cooldown_steps",
            "is more than the 5 steps of the training"),
      train(R"("steps": 5, "schedule": {"warmup_steps": 6})", "/schedule/warmup_steps",
            "6 is more than the 5 steps of the training, so the rate would never reach lr"),
      train(R"("epochs": 2, "schedule": {"warmup_epochs": 5})", "/schedule/warmup_epochs",
            "5 epochs, 75 steps, is more than the 30 steps of the training"),
      train(R"("steps": 5, "ema": {"decay": 0.9, "every_steps": 6})", "/ema/every_steps",
            "is more than the 5 steps of the training"),
      {concat(kHead, R"("dataset": "cifar10", "train": {"batch_size": 60000}})"), "/train/batch_size",
       "more than the 50000 training images"},
      {concat(kHead, R"("dataset": {"name": "cifar10", "train": "train[:100]"}, "train": {}})"), "/train",
       "batch_size: 128 is more than the 100 training images"},
      dataset(R"("train_images": 9)", "/train_images", "lack 1 of the 10 classes"),
      dataset(R"("train": "train[:10]")", "/train", "of the 10 classes"),
      dataset(R"("per_class": 300)", "/per_class", "300 images for each of 10 classes exceed the 2000"),
      dataset(R"("train_images": 2000000)", "/train_images", "must be at most 1000000"),
      dataset(R"("train": "train[:99")", "/train", "is not [begin:end]"),
      dataset(R"("eval": "train[50%:50%]")", "/eval", "is empty"),
      dataset(R"("train": "train[:3000]")", "/train", "but the split has 2000 images"),
      dataset(R"("eval": "val")", "/eval", "\"train\" and \"test\""),
      dataset(R"("eval": "train[90%:]")", "/eval", "shares images with dataset.train"),
      dataset(R"("train": "train[:90%]", "minival": "train[80%:]")", "/minival", "shares images with dataset.train"),
      {R"({"model": {"patch_size": 8, "embed_dim": 4, "num_heads": 1, "pos_embed": "sincos2d"}})", "/model/pos_embed",
       "at least 8, got 4"},
      {R"({"dataset": {"path": "p", "layout": "image_folder", "train": "train", "eval": "train[90%:]"},
           "model": {"num_classes": 3, "image_size": 16}})",
       "/dataset/eval", "shares images with"},
      {R"({"dataset": {"path": "p", "layout": "image_folder", "eval": "val"},
           "model": {"num_classes": 3, "image_size": 16, "channels": 1}})",
       "/model/channels", "has channels 3"},
      {R"({"dataset": {"path": "p", "layout": "idx"}, "model": {"num_classes": 3, "image_size": 16, "channels": 3}})",
       "/model/channels", "has channels 1"},
  });
  DescriptorFiles files;
  CHECK(files.problems(concat(kHead, R"("dataset": {"train_images": 9, "allow_absent_classes": true},
        "train": {"batch_size": 9}})")) == "");
  CHECK(files.problems(R"({"dataset": {"path": "p", "layout": "webdataset", "eval": "train", "train_shards": "a-0.tar",
        "eval_shards": "b-0.tar"}, "model": {"num_classes": 3, "image_size": 16}})") == "");
}

TEST_CASE("meaning: settings of results of earlier versions stay readable") {
  DescriptorFiles files;
  TrialConfig config = files.load(concat(kHead, R"("train": {"epochs": 2}})")).trials.front().config;
  const auto reads = [&] { return config_from_json(full_json(config), "full") == config; };
  CHECK(reads());  // states "steps": 0 and "images": 0
  config.dataset.mean = {123.7, 116.3, 103.5};
  config.dataset.std = {58.4, 57.1, 57.4};
  CHECK(reads());
  config.train.augment.mix.mixup = 1e300;
  config.train.optimizer.eps = 1e-300;
  config.train.epochs = 1e-9;
  CHECK(reads());
}

TEST_CASE("meaning: settings without a meaning beside the others are refused") {
  check_each({
      train(R"("augment": {"randaugment": {"layers": 2}})", "/augment/randaugment/layers",
            "without a dialect RandAugment is off"),
      train(R"("augment": {"randaugment": {"dialect": "big_vision", "magnitude_std": 0.5}})",
            "/augment/randaugment/magnitude_std", "the dialect big_vision has no magnitude_std"),
      train(R"("augment": {"erasing": {"probability": 0.5}})", "/augment/erasing/probability",
            "without a dialect random erasing is off"),
      train(R"("augment": {"erasing": {"dialect": "timm", "fill": "pixel", "value": 1}})", "/augment/erasing/value",
            "fill pixel has no value"),
      train(R"("augment": {"mix": {"mixup": 0.5, "switch_probability": 0.5}})", "/augment/mix/switch_probability",
            "mixup and cutmix are not both on"),
      train(R"("augment": {"mix": {"scope": "batch"}})", "/augment/mix/scope", "neither mixup nor cutmix is on"),
      train(R"("augment": {"crop_area": [0.2, 1]})", "/augment/crop_area", "crop none has no crop_area"),
      train(R"("eval_transform": {"crop_pct": 0.9})", "/eval_transform/crop_pct", "crop none has no crop_pct"),
      train(R"("eval_transform": {"crop": "center", "resize_to": 40, "crop_pct": 0.9})", "/eval_transform/crop_pct",
            "resize_to sets the size already"),
  });
}
