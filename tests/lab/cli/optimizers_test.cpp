// Every optimiser, averages of weights and accumulation through the whole program.
#include <doctest/doctest.h>

#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/cli/program.h"

using namespace normlab;

namespace {

const char* const kOptimisers = R"({
  "about": "a test",
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "placement": "bn_ffnbn"},
  "train": {"epochs": 6, "batch_size": 20, "accumulate": 2, "ema": {"decay": 0.9, "every_steps": 2},
    "schedule": {"name": "compound", "factors": "constant * linear_warmup * cosine_decay", "warmup_epochs": 1},
    "optimizer": {"lr": 0.01, "lr_batch": 40, "layer_decay": 0.8, "multipliers": [{"name": "*.bias", "lr": 0.5}]},
    "clip_norm": 1, "clip_form": "optax"},
  "sweep": {"train.optimizer.name": ["adamw", "sgd", "big_vision_adam", "momentum_hp", "lamb", "lion", "muon"]},
  "checkpoint": {"steps": 7, "seconds": 1000}
})";

/// Weights, state and metrics that each trial ended with, by id.
std::map<std::string, std::string> ends(const ResultStore& store) {
  std::map<std::string, std::string> all;
  for (const std::string& id : store.trial_ids()) {
    const TrialFolder folder = store.trial(id);
    const std::int64_t attempt = last_attempt(folder.path());
    const SafetensorsFile file = SafetensorsFile::read(folder.checkpoint(attempt));
    for (const TensorView& t : file.tensors())
      all[id] += t.name + std::string(reinterpret_cast<const char*>(t.data.data()), t.data.size());
    all[id] += text_of(folder.metrics(attempt));
  }
  return all;
}

/// All trials, trained once without a stop.
struct Whole {
  TemporaryFolder folder;
  ResultStore store{folder / "whole"};
  std::string run = "run '" + (folder / "optimisers.json").string() + "' --workers 2 --out ";
  Whole() {
    std::ofstream(folder / "optimisers.json") << kOptimisers;
    const Finished done = run_program(folder, run + in("whole"));
    REQUIRE_MESSAGE(done.code == 0, done.err);
    REQUIRE(store.trial_ids().size() == 7);
  }
  std::string in(const char* name) const { return "'" + (folder / name).string() + "'"; }
};
const Whole& whole() {
  static const Whole once;
  return once;
}

/// What `eval` prints of a file of weights.
std::string evaluation(const std::string& weights_and_options) {
  const Finished done = run_program(whole().folder, "eval --data shapes --weights " + weights_and_options);
  CHECK_MESSAGE(done.code == 0, done.err);
  return done.out;
}
std::string first_weights() {
  const ResultStore& store = whole().store;
  return "'" + store.trial(store.trial_ids().front()).checkpoint(1).string() + "'";
}

}  // namespace

TEST_CASE("optimisers: every one trains to a result with its average evaluated") {
  const ResultStore& store = whole().store;
  for (const std::string& id : store.trial_ids()) {
    const std::optional<TrialResult> result = store.trial(id).load_result();
    REQUIRE(result.has_value());
    CHECK(result->status == TrialEnd::done);
    CHECK(result->metrics.at("eval/ema_accuracy") > 0.0);
    CHECK(result->metrics.at("eval/ema_loss") != result->metrics.at("eval/loss"));
    CHECK(read_metrics(store.trial(id).metrics(1)).back().values.contains("eval/ema_loss"));
  }
}

TEST_CASE("optimisers: every one goes on after a kill to the same bits") {
  const TemporaryFolder& folder = whole().folder;
  const std::string run = whole().run + whole().in("killed");
  for (int round = 0; round < 3; ++round) {
    const Program program(folder, run);
    std::this_thread::sleep_for(std::chrono::milliseconds(120 + 60 * round));
    program.signal_all(SIGKILL);
    program.wait();
  }
  const Finished last = run_program(folder, run);
  REQUIRE_MESSAGE(last.code == 0, last.err);
  CHECK(ends(whole().store) == ends(ResultStore(folder / "killed")));
}

TEST_CASE("optimisers: eval --ema evaluates the average") {
  CHECK(evaluation(first_weights()) != evaluation(first_weights() + " --ema"));
}

TEST_CASE("optimisers: convert --ema writes the average alone") {
  const TemporaryFolder& folder = whole().folder;
  const std::string average = whole().in("average.safetensors");
  const Finished converted = run_program(folder, "convert --ema " + first_weights() + " " + average);
  CHECK_MESSAGE(converted.code == 0, converted.err);
  const Finished none = run_program(folder, "eval --ema --data shapes --weights " + average);
  CHECK(none.code == 2);
  CHECK_MESSAGE(none.err.find("holds no averaged weights") != std::string::npos, none.err);
  CHECK(evaluation(average) == evaluation(first_weights() + " --ema"));
}
