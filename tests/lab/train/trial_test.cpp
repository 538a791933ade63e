#include "experiments/lab/train/trial.h"

#include <doctest/doctest.h>

#include <cmath>

#include "core/memory.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/data/picked_images.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/train/evaluation.h"
#include "experiments/lab/trials/correctness_file.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/weights/convert_files.h"
#include "tests/cuda_emulation/lt_control.h"
#include "tests/devices.h"
#include "tests/lab/train/small_trial.h"

using namespace normlab;

namespace {

std::string correct_bits(const TrialFolder& folder) {
  return read_file(attempt_folder(folder.path(), folder.load_result()->attempt) / kCorrectnessFile);
}

/// Checks all that a stop and a resume must not change.
void check_same(const TrialFolder& a, const TrialFolder& b) {
  const TrialResult x = *a.load_result(), y = *b.load_result();
  CHECK(x.status == y.status);
  CHECK(x.steps == y.steps);
  CHECK(x.metrics == y.metrics);
  CHECK(x.diverged_step == y.diverged_step);
  CHECK(x.diverged_site == y.diverged_site);
  CHECK(x.message == y.message);
  CHECK(x.stopped_early_step == y.stopped_early_step);
  CHECK(read_file(a.metrics(x.attempt)) == read_file(b.metrics(y.attempt)));
}

/// A result has the metrics of the last line but its rate, and the first loss.
void check_last_line(const std::vector<MetricsLine>& lines, const TrialResult& result) {
  std::map<std::string, double> metrics = lines.back().values;
  CHECK(metrics.erase("train/lr") == 1);
  metrics["train/first_loss"] = result.metrics.at("train/first_loss");
  CHECK(metrics == result.metrics);
}

/// A trial that is done.
struct FinishedTrial {
  FinishedTrial() {
    CHECK(trial.run(out / "a") == TrialOutcome::done);
    result = *folder.load_result();
  }
  const TemporaryFolder out;
  const SmallTrial trial{SmallTrial::settings()};
  const TrialFolder folder = trial.folder(out / "a");
  TrialResult result;
};
/// One for all tests that only read it.
const FinishedTrial& finished() {
  static const FinishedTrial kFinished;
  return kFinished;
}

/// With a rate so high that the loss never returns to the level of the warm-up.
TrialConfig collapsing() {
  TrialConfig config = SmallTrial::settings();
  config.train.schedule.name = ScheduleName::constant;
  config.train.optimizer.name = OptimizerName::sgd;
  config.train.optimizer.momentum = 0.0;
  config.train.optimizer.lr = 30.0;
  config.train.schedule.warmup_steps = 2;
  config.train.clip_norm = 1.0;
  config.train.collapse_steps = 4;
  return config;
}

TrialConfig stopping_early() {
  TrialConfig config = SmallTrial::settings();
  config.train.early_stop.metric = "minival/accuracy";
  config.train.early_stop.patience = 1;
  config.train.early_stop.min_delta = 0.5;  // hardly ever reached
  return config;
}

}  // namespace

TEST_CASE("trial: the accuracy on training images is measured at each evaluation") {
  TrialConfig config = SmallTrial::settings();
  const TemporaryFolder out;
  CHECK(SmallTrial(config).run(out / "plain") == TrialOutcome::done);
  const TrialResult plain = *SmallTrial(config).folder(out / "plain").load_result();
  config.eval.train_images = 20;
  config.train.ema.decay = 0.5;
  const SmallTrial some(config);
  CHECK(some.run(out / "some") == TrialOutcome::done);
  const TrialResult result = *some.folder(out / "some").load_result();
  REQUIRE(result.metrics.count("train/accuracy") == 1);
  CHECK(result.metrics.count("train/ema_accuracy") == 1);
  CHECK(result.metrics.count("train/ema_loss") == 0);
  CHECK(result.metrics.at("train/loss") == plain.metrics.at("train/loss"));  // that of the steps
  CHECK(result.metrics.at("eval/accuracy") == plain.metrics.at("eval/accuracy"));
  // Every third image of the slice is an image of the slice "train[:60]"; as an evaluation slice they give the same.
  DataPair same = some.data;
  same.minival.reset();
  same.eval = picked_images(some.data.train, evenly_spaced(60, 20));
  same.eval.hash = some.data.eval.hash;
  TrialConfig by_eval = config;
  by_eval.eval = {};
  by_eval.train.ema = {};
  SmallTrial again(by_eval);
  again.data = same;
  again.id = std::string(64, 'a');
  CHECK(again.run(out / "again") == TrialOutcome::done);
  CHECK(again.folder(out / "again").load_result()->metrics.at("eval/accuracy") == result.metrics.at("train/accuracy"));
}

TEST_CASE("trial: a result states attempt, steps and data") {
  const TrialResult& result = finished().result;
  CHECK(result.attempt == 1);
  CHECK(result.steps == 24);
  CHECK(!result.early_stop_rule);
  CHECK(!result.stopped_early_step);
  const DataPair& data = finished().trial.data;
  CHECK(result.provenance.at("data_hash") == data.train.hash + "+" + data.eval.hash + "+" + data.minival->hash);
}

TEST_CASE("trial: a result has the peak memory of its own training") {
  const TemporaryFolder out;
  host_memory().restart_peak();
  if (host_memory().peak() == 0) {
    MESSAGE("skipped: this system does not let a process restart its peak memory");
    return;
  }
  const auto peak_of = [&](const TrialConfig& config, const std::filesystem::path& to) {
    const SmallTrial trial(config);
    CHECK(trial.run(to) == TrialOutcome::done);
    return trial.folder(to).load_result()->peak_mb;
  };
  TrialConfig large = SmallTrial::settings();
  large.train.epochs = 1;
  auto& model = std::get<ViTConfig>(large.model);
  model.embed_dim = 1024;
  model.mlp_dim = 2048;  // 9 million parameters, of 16 bytes or more with gradient and moments
  const std::int64_t before = peak_of(SmallTrial::settings(), out / "before"), more = peak_of(large, out / "large"),
                     after = peak_of(SmallTrial::settings(), out / "after");
  CHECK(more > before + 100);
  CHECK(after < more - 100);
  remove_file(SmallTrial(large).folder(out / "large").path() / "result.json");  // killed before it was published
  CHECK(peak_of(large, out / "large") == 0);
}

TEST_CASE("trial: the minival is evaluated beside eval") {
  const std::vector<MetricsLine> lines = read_metrics(finished().folder.metrics(1));
  REQUIRE(lines.size() == 4);
  for (const MetricsLine& line : lines) {
    CHECK(line.values.contains("minival/loss"));
    const double right = line.values.at("minival/accuracy") * 20;
    CHECK(right == std::round(right));
  }
  check_last_line(lines, finished().result);
}

TEST_CASE("trial: as many images are correct as the accuracy says") {
  const Correctness bits = read_correctness(attempt_folder(finished().folder.path(), 1) / kCorrectnessFile);
  CHECK(bits.images() == 30);
  CHECK(bits.data_hash() == finished().trial.data.eval.hash);
  CHECK(double(bits.count()) / 30 == finished().result.metrics.at("eval/accuracy"));
}

TEST_CASE("trial: the first loss is that of the first step, whatever the rate and the number of steps") {
  TrialConfig config = SmallTrial::settings();
  config.train.optimizer.lr *= 2;
  config.train.epochs = 0;
  config.train.steps = 1;
  config.train.schedule.warmup_steps = 0;
  const TemporaryFolder out;
  const SmallTrial one(config);
  CHECK(one.run(out / "a") == TrialOutcome::done);
  const std::map<std::string, double> metrics = one.folder(out / "a").load_result()->metrics;
  CHECK(metrics.at("train/first_loss") == metrics.at("train/loss"));
  CHECK(metrics.at("train/first_loss") == finished().result.metrics.at("train/first_loss"));
  CHECK(finished().result.metrics.at("train/first_loss") != finished().result.metrics.at("train/loss"));
}

TEST_CASE("trial: a diverged trial has a first loss unless its first step diverged") {
  const TemporaryFolder out;
  const SmallTrial later(SmallTrial::diverging());
  CHECK(later.run(out / "a") == TrialOutcome::diverged);
  const std::map<std::string, double> metrics = later.folder(out / "a").load_result()->metrics;
  CHECK(metrics ==
        std::map<std::string, double>{{"train/first_loss", finished().result.metrics.at("train/first_loss")}});
  TrialConfig config = SmallTrial::settings();
  std::get<ViTConfig>(config.model).head_bias_init = 1e39;  // infinite as a float
  const SmallTrial at_once(config);
  CHECK(at_once.run(out / "b") == TrialOutcome::diverged);
  CHECK(at_once.folder(out / "b").load_result()->diverged_step == 0);
  CHECK(at_once.folder(out / "b").load_result()->metrics.empty());
}

TEST_CASE("trial: a resume from a checkpoint of a version without first losses gives a result without one") {
  const TemporaryFolder out;
  const SmallTrial& trial = finished().trial;
  CHECK(trial.run(out / "a", SmallTrial::until(13)) == TrialOutcome::stopped);
  const auto path = trial.folder(out / "a").checkpoint(1);
  const SafetensorsFile file = SafetensorsFile::read(path);
  std::map<std::string, std::string> metadata = file.metadata();
  CHECK(metadata.erase("normlab.first_loss") == 1);
  save_sealed_safetensors(path, std::move(metadata), file.tensors());
  CHECK(trial.run(out / "a") == TrialOutcome::done);
  std::map<std::string, double> metrics = trial.folder(out / "a").load_result()->metrics;
  CHECK(!metrics.contains("train/first_loss"));
  metrics["train/first_loss"] = finished().result.metrics.at("train/first_loss");
  CHECK(metrics == finished().result.metrics);
}

TEST_CASE("trial: a stop on the way changes no result") {
  const TemporaryFolder out;
  const SmallTrial& trial = finished().trial;
  CHECK(trial.run(out / "b", SmallTrial::until(13)) == TrialOutcome::stopped);
  CHECK(trial.run(out / "b") == TrialOutcome::done);
  check_same(finished().folder, trial.folder(out / "b"));
  CHECK(correct_bits(finished().folder) == correct_bits(trial.folder(out / "b")));
}

TEST_CASE("trial: a kill after the last checkpoint changes no result") {
  const FinishedTrial killed;
  remove_file(killed.folder.path() / "result.json");
  CHECK(killed.trial.run(killed.out / "a") == TrialOutcome::done);
  CHECK(killed.folder.load_result()->attempt == 2);
  check_same(finished().folder, killed.folder);
  CHECK(correct_bits(killed.folder) == correct_bits(finished().folder));
}

TEST_CASE("trial: a rate that is too high ends a trial with step, site and value") {
  const SmallTrial trial(SmallTrial::diverging());
  const TemporaryFolder out;
  CHECK(trial.run(out / "a") == TrialOutcome::diverged);
  const TrialResult result = *trial.folder(out / "a").load_result();
  CHECK(result.status == TrialEnd::diverged);
  CHECK(result.diverged_rule == "nonfinite");
  REQUIRE(result.diverged_step);
  CHECK(*result.diverged_step == result.steps);
  REQUIRE(result.diverged_site);
  CHECK(!result.diverged_site->empty());
  REQUIRE(result.diverged_value);
  CHECK(!std::isfinite(*result.diverged_value));
}

TEST_CASE("trial: a resumed training diverges at the same step") {
  const SmallTrial trial(SmallTrial::diverging());
  const TemporaryFolder out;
  CHECK(trial.run(out / "a") == TrialOutcome::diverged);
  REQUIRE(*trial.folder(out / "a").load_result()->diverged_step >= 1);
  CHECK(trial.run(out / "b", SmallTrial::until(1)) == TrialOutcome::stopped);
  CHECK(trial.run(out / "b") == TrialOutcome::diverged);
  check_same(trial.folder(out / "a"), trial.folder(out / "b"));
}

TEST_CASE("trial: a collapse is a result") {
  const SmallTrial trial(collapsing());
  const TemporaryFolder out;
  CHECK(trial.run(out / "a") == TrialOutcome::diverged);
  const TrialResult result = *trial.folder(out / "a").load_result();
  CHECK(result.diverged_rule == "collapse");
  CHECK(result.diverged_site == "train/loss");
  CHECK(std::isfinite(*result.diverged_value));
  CHECK(*result.diverged_step == result.steps);
  CHECK(*result.diverged_step % 4 == 0);
  CHECK(result.message->find("collapsed: for 4 steps") != std::string::npos);
}

TEST_CASE("trial: a resumed training collapses at the same step") {
  const SmallTrial trial(collapsing());
  const TemporaryFolder out;
  CHECK(trial.run(out / "a") == TrialOutcome::diverged);
  for (const std::int64_t step : {1L, 5L, 7L}) {
    const auto folder = out / std::to_string(step);
    CHECK(trial.run(folder, SmallTrial::until(step)) == TrialOutcome::stopped);
    CHECK(trial.run(folder) == TrialOutcome::diverged);
    check_same(trial.folder(out / "a"), trial.folder(folder));
  }
}

TEST_CASE("trial: a collapse does not end a trial without the rule") {
  TrialConfig config = collapsing();
  config.train.collapse_steps = 0;
  const TemporaryFolder out;
  CHECK(SmallTrial(config).run(out / "b") == TrialOutcome::done);
}

TEST_CASE("trial: an early stop is stated in the result") {
  const SmallTrial trial(stopping_early());
  const TemporaryFolder out;
  CHECK(trial.run(out / "a") == TrialOutcome::done);
  const TrialResult result = *trial.folder(out / "a").load_result();
  CHECK(result.steps == 12);  // two evaluations
  CHECK(result.stopped_early_step == 12);
  CHECK(result.early_stop_rule == "minival/accuracy has not risen by more than 0.5 for 1 evaluation");
  check_last_line(read_metrics(trial.folder(out / "a").metrics(1)), result);
}

TEST_CASE("trial: a resumed training stops early at the same step") {
  const SmallTrial trial(stopping_early());
  const TemporaryFolder out;
  CHECK(trial.run(out / "a") == TrialOutcome::done);
  for (const std::int64_t step : {3L, 7L}) {
    const auto folder = out / std::to_string(step);
    CHECK(trial.run(folder, SmallTrial::until(step)) == TrialOutcome::stopped);
    CHECK(trial.run(folder) == TrialOutcome::done);
    check_same(trial.folder(out / "a"), trial.folder(folder));
  }
  remove_file(trial.folder(out / "a").path() / "result.json");  // as if killed just before it was published
  CHECK(trial.run(out / "a") == TrialOutcome::done);
  check_same(trial.folder(out / "7"), trial.folder(out / "a"));
}

TEST_CASE("trial: a rule of early stopping that does not apply is stated too") {
  TrialConfig config = stopping_early();
  config.train.early_stop.patience = 9;
  const TemporaryFolder out;
  const SmallTrial patient(config);
  CHECK(patient.run(out / "b") == TrialOutcome::done);
  CHECK(!patient.folder(out / "b").load_result()->stopped_early_step);
  CHECK(patient.folder(out / "b").load_result()->early_stop_rule ==
        "minival/accuracy has not risen by more than 0.5 for 9 evaluations");
}

TEST_CASE("trial: a checkpoint of other data is refused with both hashes") {
  TrialConfig config = SmallTrial::settings();
  const TemporaryFolder out;
  SmallTrial trial(config);
  CHECK(trial.run(out / "a", SmallTrial::until(3)) == TrialOutcome::stopped);
  const std::string before = data_hash(trial.data);
  config.dataset.shapes_seed = 9;
  trial.data = load_dataset(config.dataset, std::nullopt, 1);
  try {
    trial.run(out / "a");
    FAIL("went on with other data");
  } catch (const InputError& error) {
    const std::string what = error.what();
    CHECK(what.find(before) != what.npos);
    CHECK(what.find(data_hash(trial.data)) != what.npos);
  }
}

TEST_CASE("trial: only a resumed training multiplies by the algorithms of its checkpoint") {
  const ControlOfTest control;
  for (const TestDevice& device : devices_under_test()) {
    if (device.name != "cuda (emulated)") continue;
    const TemporaryFolder out;
    const SmallTrial trial(SmallTrial::settings());
    TrialOptions options = SmallTrial::until(8);
    options.backend = &device.backend;
    emulation::lt_control().algorithm = 66;
    REQUIRE(trial.run(out.path(), options) == TrialOutcome::stopped);
    emulation::lt_control().algorithm = 7;
    device.backend.choose_products("");  // as in another process
    options.stop_at = 0;
    REQUIRE(trial.run(out.path(), options) == TrialOutcome::done);
    const std::string products = trial.folder(out.path()).load_result()->provenance.at("products");
    CHECK_MESSAGE(products.find("40x32x8 nt f32 bias: algo 66 tile 1 stages 1 split-k 1") != std::string::npos,
                  products);

    // Another trial on the same device chooses its own.
    SmallTrial other(trial);
    other.id = "another";
    const TemporaryFolder elsewhere;
    REQUIRE(other.run(elsewhere.path(), options) == TrialOutcome::done);
    const std::string own = other.folder(elsewhere.path()).load_result()->provenance.at("products");
    CHECK_MESSAGE(own.find("algo 66") == std::string::npos, own);
  }
}

TEST_CASE("trial: an evaluation multiplies by the algorithms of weights that the same program trained") {
  const ControlOfTest control;
  for (const TestDevice& device : devices_under_test()) {
    if (device.name != "cuda (emulated)") continue;
    const TemporaryFolder out;
    const SmallTrial trial(SmallTrial::settings());
    TrialOptions options;
    options.backend = &device.backend;
    emulation::lt_control().algorithm = 66;
    REQUIRE(trial.run(out.path(), options) == TrialOutcome::done);
    emulation::lt_control().algorithm = 7;
    WeightFile file = read_weight_file(trial.folder(out.path()).checkpoint(1));
    const auto algorithms = [&] {
      device.backend.choose_products("");
      evaluate_again(trial.config, file, trial.data, 1, device.backend);
      return device.backend.provenance().at("products");
    };
    CHECK(algorithms().find("algo 7 ") == std::string::npos);
    // Another program has its own, and may have another version of cuBLASLt.
    file.metadata["normlab.bits"] = "another program";
    file.metadata["normlab.products"] = "cuBLASLt 9.9.9";
    CHECK(algorithms().find("algo 66 ") == std::string::npos);
  }
}
