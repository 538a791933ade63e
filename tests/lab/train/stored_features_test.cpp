// A training of the head alone computes the head's inputs once, which changes no bit of its results.
#include "experiments/lab/train/stored_features.h"

#include <doctest/doctest.h>

#include "experiments/lab/base/files.h"
#include "experiments/lab/train/verify.h"
#include "experiments/lab/trials/metrics_log.h"
#include "tests/devices.h"
#include "tests/lab/train/small_trial.h"

using namespace normlab;

namespace {

TrialConfig head_only() {
  TrialConfig c = SmallTrial::settings();
  c.train.freeze = {"stem", "blocks", "final"};
  c.train.optimizer.lr = 0.05;
  return c;
}

SliceSizes sizes() { return {60, 30, 20}; }
std::string obstacle(const TrialConfig& config) { return feature_plan(config, sizes()).obstacle; }

/// The lines of steps, without those of probes.
std::vector<std::map<std::string, double>> lines(const TrialFolder& folder) {
  std::vector<std::map<std::string, double>> out;
  for (const MetricsLine& line : read_metrics(folder.metrics(1)))
    if (line.values.contains("train/loss")) out.push_back(line.values);
  return out;
}

std::string log_of(const TrialFolder& folder) { return read_file(folder.log(1)); }

constexpr const char* kOnce = "the head's inputs are computed once: 110 images";

/// With a probe, each epoch passes the images through the network.
void check_same_bits(const TrialConfig& config, TrialOptions options = {}) {
  const TemporaryFolder once, anew;
  const SmallTrial trial(config);
  options.threads = 3;
  options.data_threads = 2;
  REQUIRE(trial.run(once.path(), options) == TrialOutcome::done);
  options.threads = 1;
  options.data_threads = 0;
  options.probes.of(ProbeKind::gradients).listed.push_back({.step = 0, .where = "train"});
  REQUIRE(trial.run(anew.path(), options) == TrialOutcome::done);
  const TrialFolder a = trial.folder(once.path()), b = trial.folder(anew.path());
  CHECK(log_of(a).find(kOnce) != std::string::npos);
  CHECK(log_of(b).find("computed in every epoch: the descriptor probes") != std::string::npos);
  CHECK(lines(a) == lines(b));
  CHECK(lines(a).size() >= 4);
  CHECK(a.load_result()->metrics == b.load_result()->metrics);
}

}  // namespace

TEST_CASE("stored features: a training has the same bits with and without") {
  on_each_device([] {
    TrialOptions options;
    options.backend = &current_device().backend;
    TrialConfig c = head_only();
    check_same_bits(c, options);
    c.train.ema.decay = 0.9;
    c.train.precision = current_device().name == "cpu" ? Precision::bf16_emulated : Precision::bf16;
    c.eval.fewshot.shots = {1};
    c.train.accumulate = 2;
    check_same_bits(c, options);
  });
  TrialConfig c = head_only();
  c.train.drop_last = false;
  c.train.batch_size = 16;
  c.train.augment.repeats = 2;
  auto& vit = std::get<ViTConfig>(c.model);
  vit.placement = find_placement("bn_ffnbn")->placement;
  vit.drop_path = 0.3;
  vit.embed_dim = 136;
  vit.mlp_dim = 544;
  vit.num_heads = 4;
  vit.patch_size = 4;
  check_same_bits(c);
}

TEST_CASE("stored features: resumed trainings have the same bits") {
  const SmallTrial trial(head_only());
  const TemporaryFolder whole, halves;
  REQUIRE(trial.run(whole.path()) == TrialOutcome::done);
  REQUIRE(trial.run(halves.path(), SmallTrial::until(7)) == TrialOutcome::stopped);
  REQUIRE(trial.run(halves.path()) == TrialOutcome::done);
  CHECK(trial.folder(whole.path()).load_result()->metrics == trial.folder(halves.path()).load_result()->metrics);
  VerifyOptions from_start;
  from_start.from = 0;
  const VerifyReport report = verify_trial(trial.config, trial.folder(whole.path()), trial.data, from_start);
  CHECK_FALSE(report.difference);
  CHECK(report.result);
}

TEST_CASE("stored features: a signal stops the training while they are computed") {
  const SmallTrial trial(head_only());
  const TemporaryFolder folder;
  const std::atomic<bool> stop = true;
  TrialOptions options;
  options.stop = &stop;
  CHECK(trial.run(folder.path(), options) == TrialOutcome::stopped);
  CHECK(trial.run(folder.path()) == TrialOutcome::done);
}

TEST_CASE("stored features: only a training of the head alone has them") {
  TrialConfig c = head_only();
  CHECK(feature_plan(c, sizes()).once());
  CHECK(feature_plan(c, sizes()).width == 8);
  CHECK(feature_plan(c, sizes()).bytes == 110 * 8 * 4);
  CHECK(feature_plan(c, sizes()).words() == "the head's inputs are computed once: 110 images, 0.0 MB");
  CHECK(feature_plan(c, {}).words() == "the head's inputs are computed once");
  c.train.freeze = {"stem", "blocks"};
  CHECK(feature_plan(c, sizes()).width == 0);
  CHECK(feature_plan(c, sizes()).words().empty());
  c.train.freeze = {};
  CHECK(feature_plan(c, sizes()).width == 0);
  c.train.freeze = {"stem", "blocks", "final", "head.bias"};
  CHECK(feature_plan(c, sizes()).once());
  c.train.freeze = {"stem", "blocks", "final", "head.weight"};
  CHECK(feature_plan(c, sizes()).once());
}

TEST_CASE("stored features: whatever changes images or features is an obstacle, by name") {
  const auto with = [](auto&& change) {
    TrialConfig c = head_only();
    change(c);
    return obstacle(c);
  };
  const auto changes = [&](auto&& change) { return with([&](TrialConfig& c) { change(c.train.augment); }); };
  CHECK(changes([](AugmentConfig& a) { a.flip = true; }) == "train.augment.flip changes the images");
  CHECK(changes([](AugmentConfig& a) { a.crop_padding = 4; }) == "train.augment.crop_padding changes the images");
  CHECK(changes([](AugmentConfig& a) { a.crop = CropName::inception_torchvision; }) ==
        "train.augment.crop changes the images");
  CHECK(changes([](AugmentConfig& a) {
          a.crop = CropName::stretch;
          a.resize = ResizeMethod::random;
        }) == "train.augment.resize changes the images");
  CHECK(changes([](AugmentConfig& a) { a.randaugment.dialect = RandAugmentDialect::timm; }) ==
        "train.augment.randaugment changes the images");
  CHECK(changes([](AugmentConfig& a) { a.autoaugment.dialect = AutoAugmentDialect::torchvision; }) ==
        "train.augment.autoaugment changes the images");
  CHECK(changes([](AugmentConfig& a) { a.trivialaugment.dialect = TrivialAugmentDialect::torchvision; }) ==
        "train.augment.trivialaugment changes the images");
  CHECK(changes([](AugmentConfig& a) { a.color_jitter.hue = 0.1; }) == "train.augment.color_jitter changes the images");
  CHECK(changes([](AugmentConfig& a) { a.erasing.dialect = ErasingDialect::timm; }) ==
        "train.augment.erasing changes the images");
  CHECK(changes([](AugmentConfig& a) { a.mix.mixup = 0.2; }) == "train.augment.mix changes the images");
  CHECK(changes([](AugmentConfig& a) { a.mix.cutmix = 1; }) == "train.augment.mix changes the images");
  CHECK(changes([](AugmentConfig& a) { a.crop = CropName::stretch; }).empty());
  CHECK(changes([](AugmentConfig& a) { a.repeats = 3; }).empty());
  CHECK(with([](TrialConfig& c) { c.train.epochs = 1; }) == "there is but one epoch");
  CHECK(with([](TrialConfig& c) {
          c.train.ema.decay = 0.9;
          std::get<ViTConfig>(c.model).placement = find_placement("bn_ffnbn")->placement;
        }) == "train.ema averages the statistics of batch norms");
  CHECK(with([](TrialConfig& c) { c.train.ema.decay = 0.9; }).empty());
  CHECK(feature_plan(head_only(), {200'000'000, 30, 20}).obstacle ==
        "all together they would take 6.4 GB, more than 4 GB");
}
