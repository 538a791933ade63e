#include "experiments/train/trial.h"

#include <doctest/doctest.h>

#include <cmath>

#include "experiments/base/files.h"
#include "experiments/base/safetensors.h"
#include "experiments/results/correctness_file.h"
#include "experiments/results/metrics_log.h"
#include "experiments/train/checkpoint.h"
#include "experiments/train/keep.h"
#include "tests/cuda_emulation/lt_control.h"
#include "tests/devices.h"
#include "tests/experiments/train/small_trial.h"

using namespace normlab;

namespace {

std::string correct_bits(const TrialFolder& folder) {
  return read_file(attempt_folder(folder.path(), folder.load_result()->attempt) / kCorrectnessFile);
}

/// What a stop and a resume must not change.
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

}  // namespace

TEST_CASE("trial: the minival is evaluated beside eval, and the bits of each image are as many as the accuracy says") {
  const TemporaryFolder out;
  const SmallTrial trial(SmallTrial::settings());
  CHECK(trial.run(out / "a") == TrialOutcome::done);
  const TrialFolder folder = trial.folder(out / "a");
  const TrialResult result = *folder.load_result();
  CHECK(result.attempt == 1);
  CHECK(result.steps == 24);
  CHECK(!result.early_stop_rule);
  CHECK(!result.stopped_early_step);
  const std::string hash = trial.data.train.hash + "+" + trial.data.eval.hash + "+" + trial.data.minival->hash;
  CHECK(result.provenance.at("data_hash") == hash);
  const std::vector<MetricsLine> lines = read_metrics(folder.metrics(1));
  REQUIRE(lines.size() == 4);
  for (const MetricsLine& line : lines) {
    CHECK(line.values.contains("minival/loss"));
    const double right = line.values.at("minival/accuracy") * 20;
    CHECK(right == std::round(right));
  }
  CHECK(lines.back().values == result.metrics);
  const Correctness bits = read_correctness(attempt_folder(folder.path(), 1) / kCorrectnessFile);
  CHECK(bits.images() == 30);
  CHECK(bits.data_hash() == trial.data.eval.hash);
  CHECK(double(bits.count()) / 30 == result.metrics.at("eval/accuracy"));

  // Stopped on the way, and at the very end after the last checkpoint: the same.
  CHECK(trial.run(out / "b", SmallTrial::until(13)) == TrialOutcome::stopped);
  CHECK(trial.run(out / "b") == TrialOutcome::done);
  check_same(folder, trial.folder(out / "b"));
  CHECK(correct_bits(folder) == correct_bits(trial.folder(out / "b")));
  remove_file(folder.path() / "result.json");
  CHECK(trial.run(out / "a") == TrialOutcome::done);
  CHECK(trial.folder(out / "a").load_result()->attempt == 2);
  check_same(trial.folder(out / "b"), folder);
  CHECK(correct_bits(folder) == correct_bits(trial.folder(out / "b")));
}

TEST_CASE("trial: a rate that blows it up ends it with step, site and value, wherever it was stopped before") {
  TrialConfig config = SmallTrial::settings();
  config.train.optimizer.name = OptimizerName::sgd;
  config.train.optimizer.lr = 1e30;
  const SmallTrial trial(config);
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
  REQUIRE(*result.diverged_step >= 1);
  CHECK(trial.run(out / "b", SmallTrial::until(1)) == TrialOutcome::stopped);
  CHECK(trial.run(out / "b") == TrialOutcome::diverged);
  check_same(trial.folder(out / "a"), trial.folder(out / "b"));
}

TEST_CASE("trial: a collapse is a result, and a resumed training collapses at the same step") {
  TrialConfig config = SmallTrial::settings();
  config.train.schedule.name = ScheduleName::constant;
  config.train.optimizer.name = OptimizerName::sgd;
  config.train.optimizer.momentum = 0.0;
  config.train.optimizer.lr = 30.0;  // too much: the loss leaves the level of the warm-up for good
  config.train.schedule.warmup_steps = 2;
  config.train.clip_norm = 1.0;
  config.train.collapse_steps = 4;
  const SmallTrial trial(config);
  const TemporaryFolder out;
  CHECK(trial.run(out / "a") == TrialOutcome::diverged);
  const TrialResult result = *trial.folder(out / "a").load_result();
  CHECK(result.diverged_rule == "collapse");
  CHECK(result.diverged_site == "train/loss");
  CHECK(std::isfinite(*result.diverged_value));
  CHECK(*result.diverged_step == result.steps);
  CHECK(*result.diverged_step % 4 == 0);
  CHECK(result.message->find("collapsed: for 4 steps") != std::string::npos);
  for (const std::int64_t step : {1L, 5L, 7L}) {
    const auto folder = out / std::to_string(step);
    CHECK(trial.run(folder, SmallTrial::until(step)) == TrialOutcome::stopped);
    CHECK(trial.run(folder) == TrialOutcome::diverged);
    check_same(trial.folder(out / "a"), trial.folder(folder));
  }
  config.train.collapse_steps = 0;
  CHECK(SmallTrial(config).run(out / "b") == TrialOutcome::done);
}

TEST_CASE("trial: an early stop is stated in the result, the same after a stop on the way") {
  TrialConfig config = SmallTrial::settings();
  config.train.early_stop.metric = "minival/accuracy";
  config.train.early_stop.patience = 1;
  config.train.early_stop.min_delta = 0.5;  // hardly ever reached
  const SmallTrial trial(config);
  const TemporaryFolder out;
  CHECK(trial.run(out / "a") == TrialOutcome::done);
  const TrialResult result = *trial.folder(out / "a").load_result();
  CHECK(result.steps == 12);  // two evaluations
  CHECK(result.stopped_early_step == 12);
  CHECK(result.early_stop_rule == "minival/accuracy has not risen by more than 0.5 for 1 evaluation");
  CHECK(read_metrics(trial.folder(out / "a").metrics(1)).back().values == result.metrics);
  for (const std::int64_t step : {3L, 7L}) {
    const auto folder = out / std::to_string(step);
    CHECK(trial.run(folder, SmallTrial::until(step)) == TrialOutcome::stopped);
    CHECK(trial.run(folder) == TrialOutcome::done);
    check_same(trial.folder(out / "a"), trial.folder(folder));
  }
  remove_file(trial.folder(out / "a").path() / "result.json");  // as if killed just before it was published
  CHECK(trial.run(out / "a") == TrialOutcome::done);
  check_same(trial.folder(out / "7"), trial.folder(out / "a"));
  config.train.early_stop.patience = 9;
  const SmallTrial patient(config);
  CHECK(patient.run(out / "b") == TrialOutcome::done);
  CHECK(!patient.folder(out / "b").load_result()->stopped_early_step);
  CHECK(patient.folder(out / "b").load_result()->early_stop_rule);
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

TEST_CASE("trial: a resumed training multiplies by the algorithms of its checkpoint") {
  struct Restore {
    ~Restore() { emulation::lt_control() = {}; }
  } restore;
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
    CHECK_MESSAGE(products.find("40x32x8 nt f32: algo 66 tile 1 stages 1 split-k 1") != std::string::npos, products);

    // Another trial on the same device chooses for itself.
    SmallTrial other(trial);
    other.id = "another";
    const TemporaryFolder elsewhere;
    REQUIRE(other.run(elsewhere.path(), options) == TrialOutcome::done);
    const std::string own = other.folder(elsewhere.path()).load_result()->provenance.at("products");
    CHECK_MESSAGE(own.find("algo 66") == std::string::npos, own);
  }
}

TEST_CASE("trial: what is kept of the checkpoints") {
  const SmallTrial trial(SmallTrial::settings());
  const TemporaryFolder out;
  const auto run = [&](KeepCheckpoint keep, const std::string& name) {
    TrialOptions options = SmallTrial::until(5);
    options.checkpoint.keep = keep;
    CHECK(trial.run(out / name, options) == TrialOutcome::stopped);
    CHECK(std::filesystem::exists(trial.folder(out / name).checkpoint(1)));  // it has no result yet
    CHECK(superfluous_files(trial.folder(out / name), KeepCheckpoint::none).empty());
    options.stop_at = 0;
    CHECK(trial.run(out / name, options) == TrialOutcome::done);
    CHECK(!std::filesystem::exists(trial.folder(out / name).checkpoint(1)));
    return trial.folder(out / name);
  };
  const TrialFolder last = run(KeepCheckpoint::last, "last");
  const TrialFolder weights = run(KeepCheckpoint::weights, "weights");
  const TrialFolder none = run(KeepCheckpoint::none, "none");
  const auto weights_file = [](const TrialFolder& f) { return attempt_folder(f.path(), 2) / kWeightsFile; };
  CHECK(std::filesystem::exists(last.checkpoint(2)));
  CHECK(!std::filesystem::exists(weights.checkpoint(2)));
  CHECK(!std::filesystem::exists(none.checkpoint(2)));
  CHECK(!std::filesystem::exists(weights_file(none)));
  const SafetensorsFile all = SafetensorsFile::read(last.checkpoint(2)),
                        kept = SafetensorsFile::read(weights_file(weights));
  CHECK(all.tensors().size() == 3 * kept.tensors().size());  // AdamW: two moments
  for (const TensorView& t : kept.tensors()) {
    const TensorView& same = all.get(t.name);
    CHECK(std::equal(t.data.begin(), t.data.end(), same.data.begin(), same.data.end()));
  }
  // Later, by hand: first said, then done.
  const std::vector<Removal> said = superfluous_files(last, KeepCheckpoint::weights);
  REQUIRE(said.size() == 1);
  CHECK(said[0].path == last.checkpoint(2));
  CHECK(said[0].bytes == std::filesystem::file_size(last.checkpoint(2)));
  apply_keep(last, KeepCheckpoint::weights);
  const SafetensorsFile later = SafetensorsFile::read(weights_file(last));
  CHECK(tensors_hash(later.tensors()) == tensors_hash(kept.tensors()));
  CHECK(!std::filesystem::exists(last.checkpoint(2)));
  apply_keep(last, KeepCheckpoint::weights);  // nothing left to do
  CHECK(std::filesystem::exists(weights_file(last)));
  {
    const Claim somebody = *Claim::acquire(last.path());
    CHECK(superfluous_files(last, KeepCheckpoint::none).empty());
  }
  apply_keep(last, KeepCheckpoint::none);
  CHECK(!std::filesystem::exists(weights_file(last)));
  CHECK(last.load_result()->metrics == none.load_result()->metrics);
}
