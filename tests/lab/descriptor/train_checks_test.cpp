// Optimisers, schedules, averages and accumulation in a descriptor: what is refused, and where it says so.
#include <doctest/doctest.h>

#include "experiments/lab/descriptor/canonical.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

TEST_CASE("descriptor: the factors of a compound schedule have what they need") {
  DescriptorFiles files;
  const auto schedule = [&](const std::string& settings) {
    return files.problems(R"({"train": {"schedule": {"name": "compound", )" + settings + "}}}");
  };
  CHECK(schedule(R"("factors": "constant * linear_warmup * polynomial", "warmup_steps": 5, "warmup": "line",
                    "power": 0.9, "final_lr": 1e-5)") == "");
  CHECK(schedule(R"("factors": "constant * rsqrt_dekay")") ==
        "d.json:1:56: /train/schedule/factors: unknown factor \"rsqrt_dekay\"; did you mean \"rsqrt_decay\"?");
  CHECK(schedule(R"("factors": "polynomial")") ==
        "d.json:1:56: /train/schedule/factors: the factor constant, which is lr, is missing, so lr would have no "
        "effect; add it");
  CHECK(schedule(R"("factors": "constant*linear_warmup")") ==
        "d.json:1:56: /train/schedule/factors: linear_warmup needs warmup_steps or warmup_epochs");
  CHECK(schedule(R"("factors": "constant*linear_cooldown")") ==
        "d.json:1:56: /train/schedule/factors: linear_cooldown needs cooldown_steps");
  CHECK(schedule(R"("factors": "constant", "warmup_steps": 5)") ==
        "d.json:1:68: /train/schedule/warmup_steps: there is no linear_warmup among the factors");
  CHECK(schedule(R"("factors": "constant", "decay_factor": 0.1)") ==
        "d.json:1:68: /train/schedule/decay_factor: there is no decay_every among the factors");
  CHECK(
      schedule(R"("factors": "constant", "final_lr": 0.1)") ==
      "d.json:1:68: /train/schedule/final_lr: there is no polynomial, cosine_decay or linear_decay among the factors");
  CHECK(files.problems(R"({"train": {"schedule": {"name": "compound"}}})").find("unknown factor \"\"") !=
        std::string::npos);
  CHECK(files.problems(R"({"train": {"schedule": {"decay_every": 5}}})") ==
        "d.json:1:25: /train/schedule/decay_every: a cosine schedule has no decay_every");
}

TEST_CASE("descriptor: milestones rise, lie within the training and change the rate") {
  DescriptorFiles files;
  const auto schedule = [&](const std::string& settings, const char* train = "") {
    return files.problems(concat(R"({"train": {"schedule": {"name": "milestones", )", settings, "}", train, "}}"));
  };
  CHECK(schedule(R"("milestones": [4, 7.5], "decay_factor": 0.1)") == "");
  CHECK(schedule(R"("milestones": [7, 4], "decay_factor": 0.1)") ==
        "d.json:1:61: /train/schedule/milestones: give rising epochs above 0, such as [100, 150]");
  CHECK(schedule(R"("decay_factor": 0.1)").find("give rising epochs above 0") != std::string::npos);
  CHECK(schedule(R"("milestones": [4])").find("a factor of 1 changes no rate; PyTorch's default is 0.1") !=
        std::string::npos);
  CHECK(schedule(R"("milestones": [4], "decay_factor": 0.1, "final_lr": 0)").find("a milestones schedule has no") !=
        std::string::npos);
  CHECK(files.problems(R"({"train": {"schedule": {"milestones": [4]}}})") ==
        "d.json:1:25: /train/schedule/milestones: a cosine schedule has no milestones");
  CHECK(files
            .problems(R"({"dataset": {"name": "gratings", "train_images": 1000},
    "train": {"epochs": 5, "batch_size": 100,
              "schedule": {"name": "milestones", "milestones": [3, 5], "decay_factor": 0.1}}})")
            .find("the training ends before epoch 5, after 50 steps of 10 an epoch; remove it") != std::string::npos);
}

TEST_CASE("descriptor: deviations of initial values need what they draw, and drop-path rates a drop-path") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"model": {"pool": "token", "init": {"base": "timm", "position_std": 0.2,
                                                                "token_std": 1}}})") == "");
  CHECK(files.problems(R"({"model": {"pos_embed": "none", "init": {"base": "timm", "position_std": 0.2}}})")
            .find("/model/init/position_std: the network has no learned positions; leave it out") != std::string::npos);
  CHECK(files.problems(R"({"model": {"init": {"base": "timm", "token_std": 1}}})")
            .find("/model/init/token_std: the network has no class token; set pool to \"token\"") != std::string::npos);
  CHECK(files.problems(R"({"model": {"drop_path_rates": "constant"}})") ==
        "d.json:1:12: /model/drop_path_rates: there is no drop_path");
}

TEST_CASE("descriptor: a sweep may complete a compound schedule") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"train": {"schedule": {"name": "compound"}},
    "sweep": {"train.schedule.factors": ["constant", "constant * cosine_decay"]}})");
  CHECK(e.trials.size() == 2);
  CHECK(e.trials[1].config.train.schedule.factors == "constant * cosine_decay");
}

TEST_CASE("descriptor: a multiplier that matches no parameter is refused with a pattern that does") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"train": {"optimizer": {"multipliers": [{"name": "head.*", "lr": 2},
    {"name": "block.*.bias", "lr": 0.5}]}}})") ==
        "d.json:2:14: /train/optimizer/multipliers/1/name: no parameter matches \"block.*.bias\"; did you mean "
        "\"blocks.*.bias\"?");
  CHECK(files.problems(R"({"train": {"optimizer": {"multipliers": [{"lr": 2}]}}})")
            .find("/train/optimizer/multipliers/0: no parameter matches \"\"") != std::string::npos);
}

TEST_CASE("descriptor: multipliers are part of a trial") {
  DescriptorFiles files;
  const Experiment e =
      files.load(R"({"train": {"optimizer": {"multipliers": [{"name": "*.bias", "weight_decay": 0}]}}})");
  CHECK(e.trials[0].config.train.optimizer.multipliers == std::vector<Multiplier>{{"*.bias", 1.0, 0.0}});
  CHECK(config_from_json(canonical_json(e.trials[0].config), "c") == e.trials[0].config);
}

TEST_CASE("descriptor: a freeze pattern that matches no parameter is refused with one that does") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"train": {"freeze": ["stem",
    "block.0"]}})") == "d.json:2:5: /train/freeze/1: no parameter matches \"block.0\"; did you mean \"blocks.*\"?");
  CHECK(files.problems(R"({"train": {"freeze": ["blocks.0-12"]}})").find("there is no block 12") != std::string::npos);
}

TEST_CASE("descriptor: what is frozen is part of a trial") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"sweep": {"train.freeze": [[], ["stem", "blocks.0"]]}})");
  REQUIRE(e.trials.size() == 2);
  CHECK(e.trials[1].config.train.freeze == std::vector<std::string>{"stem", "blocks.0"});
  CHECK(config_from_json(canonical_json(e.trials[1].config), "c") == e.trials[1].config);
  CHECK(e.trials[0].id == trial_id(files.load("{}").trials[0].config));
}

TEST_CASE("descriptor: accumulated parts must divide a batch") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"train": {"batch_size": 96, "accumulate": 5}})") ==
        "d.json:1:44: /train/accumulate: 5 does not divide batch_size 96");
}

TEST_CASE("descriptor: the images of a batch statistic must divide a part") {
  DescriptorFiles files;
  const std::string model = R"({"model": {"placement": {"base": "bn_ffnbn", "final":
    {"kind": "batch_norm", "statistics_batch": 32}}}, "train": {"batch_size": 96, "accumulate": )";
  CHECK(files.problems(model + "1}}") == "");
  CHECK(files.problems(model + "3}}") == "");
  CHECK(
      files.problems(model + "2}}")
          .find("statistics_batch 32 of final does not divide the 48 images of a part (batch_size 96, accumulate 2)") !=
      std::string::npos);
}

TEST_CASE("descriptor: an early stop needs a metric of the minival") {
  DescriptorFiles files;
  const auto rule = [&](const std::string& settings, const std::string& dataset = R"("minival": "train[90%:]")") {
    return files.problems(R"({"dataset": {"train": "train[:90%]", )" + dataset + R"(}, "train": {"early_stop": {)" +
                          settings + "}}}");
  };
  CHECK(rule(R"("metric": "minival/accuracy", "patience": 3, "min_delta": 0.001, "mode": "max")") == "");
  CHECK(rule(R"("metric": "minival/loss")") == "");
  CHECK(rule(R"("metric": "eval/accuracy")").find("is measured on the slice that the table shows") !=
        std::string::npos);
  CHECK(rule(R"("metric": "eval/accuracy")").find("use \"minival/accuracy\"") != std::string::npos);
  CHECK(rule(R"("metric": "minival/acuracy")").find("unknown metric \"minival/acuracy\"") != std::string::npos);
  CHECK(
      rule(R"("metric": "minival/ema_loss")").find("there are no averaged weights to evaluate; set train.ema.decay") !=
      std::string::npos);
  CHECK(rule(R"("metric": "minival/loss")", R"("eval": "test")").find("needs dataset.minival") != std::string::npos);
  CHECK(rule(R"("patience": 3)").find("without a metric early stopping is off") != std::string::npos);
  CHECK(rule(R"("metric": "minival/loss", "patience": 0)").find("/train/early_stop/patience") != std::string::npos);
}

TEST_CASE("descriptor: a setting of another optimiser is refused") {
  DescriptorFiles files;
  const auto optimizer = [&](const std::string& settings) {
    return files.problems(R"({"train": {"optimizer": {)" + settings + "}}}");
  };
  CHECK(optimizer(R"("name": "lion", "beta2": 0.99, "layer_decay": 0.65)") == "");
  CHECK(optimizer(R"("name": "muon", "momentum": 0.9, "scale": "match_rms_adamw", "adamw": {"lr": 1e-4})") == "");
  CHECK(optimizer(R"("name": "muon", "beta1": 0.9)").find("muon has no beta1") != std::string::npos);
  CHECK(optimizer(R"("name": "adamw", "scale": "original")").find("adamw has no scale") != std::string::npos);
  CHECK(optimizer(R"("name": "lion", "eps": 1e-6)").find("lion has no eps") != std::string::npos);
  CHECK(optimizer(R"("name": "lamb", "bf16_moment": true)").find("lamb has no bf16_moment") != std::string::npos);
  CHECK(optimizer(R"("name": "momentum_hp", "moment_product": "rounded")").find("bf16_moment is off") !=
        std::string::npos);
  CHECK(optimizer(R"("name": "momentum_hp", "bf16_moment": true, "moment_product": "rounded")") == "");
}

TEST_CASE("descriptor: settings that Muon's descriptor leaves out are Muon's own") {
  DescriptorFiles files;
  TrialConfig config = files.load(R"({"train": {"optimizer": {"name": "muon", "lr": 0.02}}})").trials.at(0).config;
  CHECK(config.train.optimizer.momentum == 0.95);
  CHECK(config.train.optimizer.nesterov);
  CHECK(config.train.optimizer.weight_decay == 0.1);
  CHECK(canonical_json(config).find("momentum") == std::string::npos);
  CHECK(config_from_json(canonical_json(config), "canonical") == config);
  CHECK(config_from_json(full_json(config), "full") == config);
}

TEST_CASE("descriptor: an average of weights needs a decay") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"train": {"ema": {"every_steps": 2}}})").find("without a decay") != std::string::npos);
}
