// A training in which anything is NaN or infinity has no accuracy as its result.
#include <doctest/doctest.h>

#include <cmath>

#include "experiments/lab/base/files.h"
#include "experiments/lab/train/evaluation.h"
#include "experiments/lab/trials/correctness_file.h"
#include "experiments/lab/trials/metrics_log.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "nn/training/nonfinite.h"
#include "tests/lab/train/small_trial.h"
#include "tests/lab/weights/poison.h"

using namespace normlab;

namespace {

/// 6 steps in 2 epochs on 30 images.
TrialConfig short_settings() {
  TrialConfig c = SmallTrial::settings();
  c.dataset.train_images = 60;
  c.dataset.eval_images = 20;
  c.dataset.train = "train[:30]";
  c.dataset.minival = "train[30:]";
  c.train.epochs = 2;
  c.train.schedule.warmup_steps = 1;
  return c;
}

void check_diverged(const TrialFolder& folder, const std::vector<MetricsLine>& before) {
  const TrialResult result = *folder.load_result();
  CHECK(result.status == TrialEnd::diverged);
  CHECK(result.diverged_rule == "nonfinite");
  CHECK(result.diverged_site);
  for (const auto& [name, value] : result.metrics) CHECK(name == "train/first_loss");
  REQUIRE(result.diverged_value);
  CHECK(!std::isfinite(*result.diverged_value));
  CHECK(!std::filesystem::exists(attempt_folder(folder.path(), result.attempt) / kCorrectnessFile));
  // Earlier measurements stay, and later ones have no evaluation.
  const std::vector<MetricsLine> lines = read_metrics(folder.metrics(result.attempt));
  REQUIRE(lines.size() >= before.size());
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(lines[i] == before[i]);
  for (std::size_t i = before.size(); i < lines.size(); ++i)
    for (const auto& [name, value] : lines[i].values) CHECK(name.starts_with("train/"));
}

std::vector<MetricsLine> metrics_of(const TrialFolder& folder) {
  const auto path = folder.metrics(last_attempt(folder.path()));
  return std::filesystem::exists(path) ? read_metrics(path) : std::vector<MetricsLine>();
}

}  // namespace

TEST_CASE("nonfinite: weights that the last update breaks diverge in the evaluation") {
  TrialConfig config = short_settings();
  config.train.epochs = 1.0 / 3;  // one step
  config.train.schedule.warmup_steps = 0;
  config.train.optimizer.name = OptimizerName::sgd;
  config.train.optimizer.lr = 1e30;
  std::get<ViTConfig>(config.model).init = Init::timm;  // a head of zeros would leave all other weights unchanged
  for (const Precision precision : {Precision::fp32, Precision::bf16_emulated}) {
    config.train.precision = precision;
    const SmallTrial trial(config);
    const TemporaryFolder out;
    CHECK(trial.run(out / "a") == TrialOutcome::diverged);
    const TrialFolder folder = trial.folder(out / "a");
    check_diverged(folder, {});
    const TrialResult result = *folder.load_result();
    CHECK(result.diverged_step == 1);
    CHECK(result.steps == 1);
    CHECK(result.diverged_site == "evaluation");
    REQUIRE(result.message);
    CHECK(result.message->starts_with("step 1: the evaluation is not finite: eval/accuracy: image 0 ("));
    const std::vector<MetricsLine> lines = metrics_of(folder);
    REQUIRE(lines.size() == 1);
    CHECK(std::isfinite(lines[0].values.at("train/loss")));
  }
}

TEST_CASE("nonfinite: a checkpoint with NaN or infinity never becomes an accuracy") {
  for (const char* placement : {"pre_pre", "dyt", "bn_ffnbn"}) {
    TrialConfig config = short_settings();
    std::get<ViTConfig>(config.model).placement = find_placement(placement)->placement;
    config.train.ema.decay = 0.9;
    const SmallTrial trial(config);
    const TemporaryFolder out;
    REQUIRE(trial.run(out / "at_5", SmallTrial::until(5)) == TrialOutcome::stopped);
    REQUIRE(trial.run(out / "at_6") == TrialOutcome::done);
    remove_file(trial.folder(out / "at_6").path() /
                "result.json");  // killed between the last checkpoint and the result
    std::size_t number = 0;
    for (const char* start : {"at_5", "at_6"}) {
      const TrialFolder from = trial.folder(out / start);
      const std::vector<MetricsLine> before = metrics_of(from);
      const SafetensorsFile checkpoint = SafetensorsFile::read(from.checkpoint(1));
      for (const TensorView& tensor : checkpoint.tensors()) {
        CAPTURE(placement);
        CAPTURE(start);
        CAPTURE(tensor.name);
        // One kind of value in turn, anywhere in the tensor; all kinds in long tests.
        const std::size_t values = tensor.data.size() / sizeof(float), kinds = std::getenv("NORMLAB_LONG") ? 3 : 1;
        for (std::size_t k = 0; k < kinds; ++k, ++number) {
          const float value = kNonFinite[(number + k) % 3];
          CAPTURE(value);
          const auto copy = out / ("copy-" + std::to_string(number));
          std::filesystem::copy(out / start, copy, std::filesystem::copy_options::recursive);
          poison(trial.folder(copy).checkpoint(1), tensor.name, 7919 * number % values, value);
          CHECK(trial.run(copy) == TrialOutcome::diverged);
          check_diverged(trial.folder(copy), before);
          std::filesystem::remove_all(copy);
        }
      }
    }
    CHECK(number > 100);
  }
}

TEST_CASE("nonfinite: the error of an evaluation names its slice and average") {
  const SmallTrial trial(short_settings());
  ShardPool pool(1);
  EngineSettings settings = engine_settings(trial.config);
  settings.ema.decay = 0.9;
  Engine engine(cpu_backend(), pool, trial.config.model, settings);
  initialise(engine.parameters(), trial.config.model, 0);
  engine.average()->start();
  BatchSource batches(trial.config, trial.data.train, *trial.data.minival, engine.dtype());
  const auto measure = [&](const std::string& prefix) {
    return evaluate_slice(engine, batches, *trial.data.minival, pool, prefix);
  };
  CHECK(measure("minival/").contains("minival/accuracy"));
  engine.average()->values().data<float>()[0] = INFINITY;
  CHECK_NOTHROW(measure("minival/"));
  CHECK_THROWS_WITH_AS(require_finite_state(engine), doctest::Contains("ema/patch_embed.weight[0] is inf"),
                       NonFiniteError);
  const WeightAverage::InUse in_use(*engine.average());
  CHECK_THROWS_WITH_AS(measure("minival/ema_"), doctest::Contains("minival/ema_accuracy: image 0 ("), NonFiniteError);
}
