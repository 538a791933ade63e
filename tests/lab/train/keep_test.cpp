#include "experiments/lab/train/keep.h"

#include <doctest/doctest.h>

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/train/checkpoint.h"
#include "tests/lab/train/small_trial.h"

using namespace normlab;

namespace {

/// Stops and resumes a trial that keeps `keep` of its checkpoints.
TrialFolder run_keeping(KeepCheckpoint keep, const std::filesystem::path& out) {
  const SmallTrial trial(SmallTrial::settings());
  TrialOptions options = SmallTrial::until(5);
  options.checkpoint.keep = keep;
  CHECK(trial.run(out, options) == TrialOutcome::stopped);
  CHECK(std::filesystem::exists(trial.folder(out).checkpoint(1)));  // it has no result yet
  CHECK(superfluous_files(trial.folder(out), KeepCheckpoint::none).empty());
  options.stop_at = 0;
  CHECK(trial.run(out, options) == TrialOutcome::done);
  CHECK(!std::filesystem::exists(trial.folder(out).checkpoint(1)));
  return trial.folder(out);
}

/// A trial for each choice of what is kept, for tests that only read them.
struct KeptTrials {
  const TemporaryFolder out;
  const TrialFolder last = run_keeping(KeepCheckpoint::last, out / "last"),
                    weights = run_keeping(KeepCheckpoint::weights, out / "weights"),
                    none = run_keeping(KeepCheckpoint::none, out / "none");
};
const KeptTrials& kept_trials() {
  static const KeptTrials kKept;
  return kKept;
}

std::filesystem::path weights_file(const TrialFolder& folder) {
  return attempt_folder(folder.path(), 2) / kWeightsFile;
}

}  // namespace

TEST_CASE("keep: a finished trial keeps what is asked for") {
  const auto& [out, last, weights, none] = kept_trials();
  CHECK(std::filesystem::exists(last.checkpoint(2)));
  CHECK(!std::filesystem::exists(weights.checkpoint(2)));
  CHECK(!std::filesystem::exists(none.checkpoint(2)));
  CHECK(!std::filesystem::exists(weights_file(none)));
}

TEST_CASE("keep: kept weights are those of the checkpoint") {
  const SafetensorsFile all = SafetensorsFile::read(kept_trials().last.checkpoint(2)),
                        kept = SafetensorsFile::read(weights_file(kept_trials().weights));
  CHECK(all.tensors().size() == 3 * kept.tensors().size());  // AdamW: two moments
  for (const TensorView& t : kept.tensors()) {
    const TensorView& same = all.get(t.name);
    CHECK(std::equal(t.data.begin(), t.data.end(), same.data.begin(), same.data.end()));
  }
}

TEST_CASE("keep: superfluous files are listed before they are removed") {
  const TrialFolder& last = kept_trials().last;
  const std::vector<Removal> said = superfluous_files(last, KeepCheckpoint::weights);
  REQUIRE(said.size() == 1);
  CHECK(said[0].path == last.checkpoint(2));
  CHECK(said[0].bytes == std::filesystem::file_size(last.checkpoint(2)));
}

TEST_CASE("keep: a kept checkpoint can be reduced to its weights") {
  const TemporaryFolder out;
  const TrialFolder last = run_keeping(KeepCheckpoint::last, out / "last");
  apply_keep(last, KeepCheckpoint::weights);
  const SafetensorsFile later = SafetensorsFile::read(weights_file(last)),
                        kept = SafetensorsFile::read(weights_file(kept_trials().weights));
  CHECK(tensors_hash(later.tensors()) == tensors_hash(kept.tensors()));
  CHECK(!std::filesystem::exists(last.checkpoint(2)));
  apply_keep(last, KeepCheckpoint::weights);  // nothing is left to do
  CHECK(std::filesystem::exists(weights_file(last)));
  apply_keep(last, KeepCheckpoint::none);
  CHECK(!std::filesystem::exists(weights_file(last)));
  CHECK(last.load_result()->metrics == kept_trials().none.load_result()->metrics);
}

TEST_CASE("keep: a trial without weights says why, and what to do") {
  const TemporaryFolder out;
  const auto refusal = [](const TrialFolder& trial) {
    try {
      return kept_weights(trial).string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  const auto says = [&](const TrialFolder& trial, const std::string& words) {
    CHECK_MESSAGE(refusal(trial).find(words) != std::string::npos, refusal(trial));
  };
  says(kept_trials().none, "its descriptor set \"checkpoint\": {\"keep\": \"none\"}; set \"checkpoint\": {\"keep\": ");
  const TrialFolder lost = run_keeping(KeepCheckpoint::last, out / "lost");
  std::filesystem::remove(lost.checkpoint(2));
  says(lost, "checkpoint.safetensors is missing, but its result lists it");
  const TrialFolder cleaned = run_keeping(KeepCheckpoint::last, out / "cleaned");
  apply_keep(cleaned, KeepCheckpoint::none);
  says(cleaned, "checkpoint.safetensors was deleted by `normlab clean`, or left out of an archive; remove this folder");
  CHECK(refusal(cleaned).find("\"keep\"") == std::string::npos);
  TrialConfig config = SmallTrial::settings();
  config.train.schedule.warmup_steps = 0;
  config.train.optimizer.name = OptimizerName::sgd;
  config.train.optimizer.lr = 1e30;
  const SmallTrial diverges(config);
  REQUIRE(diverges.run(out / "diverged") == TrialOutcome::diverged);
  const TrialFolder diverged = diverges.folder(out / "diverged");
  says(diverged, concat("it diverged at step ", *diverged.load_result()->diverged_step, " and kept no checkpoint"));
  says(diverged, "\"checkpoint\": {\"keep_before_divergence\": N}");
  says(ResultStore(out / "none").trial(diverges.id),
       "it has no result and saved no checkpoint; `normlab run` trains it");
}

TEST_CASE("keep: no file of a claimed trial is superfluous") {
  const TemporaryFolder out;
  const TrialFolder weights = run_keeping(KeepCheckpoint::weights, out / "weights");
  CHECK(!superfluous_files(weights, KeepCheckpoint::none).empty());
  const Claim other = *Claim::acquire(weights.path());
  CHECK(superfluous_files(weights, KeepCheckpoint::none).empty());
}

TEST_CASE("keep: the checkpoint of the result's attempt is kept, whichever attempt comes later") {
  const TemporaryFolder out;
  const TrialFolder last = run_keeping(KeepCheckpoint::last, out / "last");
  make_folders(attempt_folder(last.path(), 3));  // of a process that another one was faster than
  std::filesystem::copy(last.checkpoint(2), last.checkpoint(3));
  apply_keep(last, KeepCheckpoint::last);
  CHECK(std::filesystem::exists(last.checkpoint(2)));
  CHECK(!std::filesystem::exists(last.checkpoint(3)));
  std::filesystem::copy(last.checkpoint(2), last.checkpoint(3));
  apply_keep(last, KeepCheckpoint::weights);
  CHECK(std::filesystem::exists(weights_file(last)));
  CHECK(kept_weights(last) == weights_file(last));
}

TEST_CASE("keep: a claim to clean leaves no attempt, and other processes' claims are respected") {
  const TemporaryFolder out;
  const TrialFolder last = run_keeping(KeepCheckpoint::last, out / "last");
  const std::vector<std::int64_t> attempts = attempts_in(last.path());
  {
    const std::optional<Claim> other = Claim::acquire(last.path());
    CHECK(apply_keep(last, KeepCheckpoint::none).empty());
    CHECK(std::filesystem::exists(last.checkpoint(2)));
  }
  CHECK(apply_keep(last, KeepCheckpoint::none).size() == 1);
  CHECK(attempts_in(last.path()).size() == attempts.size() + 1);  // the other's
  CHECK(!read_claim(last.path()));
}
