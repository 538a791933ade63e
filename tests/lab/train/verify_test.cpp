#include "experiments/lab/train/verify.h"

#include <doctest/doctest.h>

#include "experiments/lab/base/files.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/trials/trial_files.h"
#include "tests/devices.h"
#include "tests/lab/train/small_trial.h"

using namespace normlab;

namespace {

VerifyReport verify(const SmallTrial& trial, const std::filesystem::path& out, std::int64_t steps,
                    std::optional<std::int64_t> from = std::nullopt) {
  VerifyOptions options;
  options.steps = steps;
  options.from = from;
  const TrialFolder folder = trial.folder(out);
  return verify_trial(read_trial_config(folder), folder, trial.data, options);
}

std::string refusal(const SmallTrial& trial, const std::filesystem::path& out, std::int64_t steps,
                    std::optional<std::int64_t> from = std::nullopt) {
  try {
    verify(trial, out, steps, from);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

/// Changes one digit of the file after `mark`.
void damage(const std::filesystem::path& path, const std::string& mark, std::size_t offset) {
  std::string text = read_file(path);
  const auto at = text.find(mark);
  REQUIRE(at != text.npos);
  char& digit = text[at + mark.size() + offset];
  digit = digit == '1' ? '2' : '1';
  write_atomically(path, text);
}

/// A trial of 120 steps that is stopped after 60.
struct StoppedTrial : SmallTrial {
  StoppedTrial() : SmallTrial(config_of()) { CHECK(run(out / "a", until(60)) == TrialOutcome::stopped); }
  static TrialConfig config_of() {
    TrialConfig config = settings();
    config.train.epochs = 20;
    config.train.eval_every_epochs = 10;
    return config;
  }
  /// The steps whose state an attempt recorded.
  std::vector<std::int64_t> states(std::int64_t attempt) const {
    std::vector<std::int64_t> steps;
    for (const StateRecord& r : read_state_records(attempt_folder(folder(out / "a").path(), attempt) / kStatesFile))
      steps.push_back(r.step);
    return steps;
  }
  const TemporaryFolder out;
};

/// A trial whose rate is too high.
struct DivergedTrial : SmallTrial {
  DivergedTrial() : SmallTrial(config_of()) { CHECK(run(out / "a") == TrialOutcome::diverged); }
  static TrialConfig config_of() {
    TrialConfig config = settings();
    config.train.epochs = 20;
    config.train.schedule.warmup_steps = 100;
    config.train.optimizer.name = OptimizerName::sgd;
    config.train.optimizer.lr = 1e5;
    return config;
  }
  const TemporaryFolder out;
};

}  // namespace

TEST_CASE("verify: a stopped trial has the bits of one that is run again") {
  const StoppedTrial trial;
  CHECK(trial.states(1) == std::vector<std::int64_t>{50, 60});
  const VerifyReport report = verify(trial, trial.out / "a", 60);
  CHECK(!report.difference);
  CHECK(report.from == 0);
  CHECK(report.states == 2);
  CHECK(report.tensors > 10);
  CHECK(report.metrics == 2);  // at 50 and at 60, the evaluation
}

TEST_CASE("verify: steps without a recorded state cannot be checked") {
  const StoppedTrial trial;
  CHECK(refusal(trial, trial.out / "a", 20).find("use --steps 50") != std::string::npos);
}

TEST_CASE("verify: a check begins only at a checkpoint") {
  const StoppedTrial trial;
  CHECK(refusal(trial, trial.out / "a", 20, 7).find("no checkpoint at step 7; the check can begin at step 0, 60") !=
        std::string::npos);
}

TEST_CASE("verify: a resumed trial has the bits of one that is run again") {
  const StoppedTrial trial;
  TrialOptions options;
  options.checkpoint.steps = 25;
  CHECK(trial.run(trial.out / "a", options) == TrialOutcome::done);  // its checkpoint replaces the first attempt's
  CHECK(trial.states(2) == std::vector<std::int64_t>{85, 110, 120});
  const VerifyReport report = verify(trial, trial.out / "a", 1000);
  CHECK_MESSAGE(!report.difference, report.difference.value_or(""));
  CHECK(report.states == 5);
  CHECK(report.metrics == 4);
  CHECK(report.result);
  CHECK(!std::filesystem::exists(std::filesystem::temp_directory_path() / concat("normlab-verify-", ::getpid())));
}

TEST_CASE("verify: a result of a version that recorded no first loss is the same when run again") {
  TrialConfig config = SmallTrial::settings();
  config.train.epochs = 10;  // 60 steps
  const SmallTrial trial(config);
  const TemporaryFolder out;
  CHECK(trial.run(out / "a") == TrialOutcome::done);
  const TrialFolder folder = trial.folder(out / "a");
  TrialResult result = *folder.load_result();
  const double first = result.metrics.at("train/first_loss");
  result.metrics.erase("train/first_loss");
  write_atomically(folder.path() / "result.json", write_trial_result(result));
  VerifyReport report = verify(trial, out / "a", 60);
  CHECK_MESSAGE(!report.difference, report.difference.value_or(""));
  CHECK(report.result);
  result.metrics["train/first_loss"] = first / 2;
  write_atomically(folder.path() / "result.json", write_trial_result(result));
  report = verify(trial, out / "a", 60);
  REQUIRE(report.difference);
  CHECK(report.difference->find("step 60: train/first_loss is ") == 0);
}

TEST_CASE("verify: a check begins at the last checkpoint before a recorded state") {
  TrialConfig config = SmallTrial::settings();
  config.train.epochs = 20;
  const SmallTrial trial(config);
  const TemporaryFolder out;
  CHECK(trial.run(out / "a", SmallTrial::until(60)) == TrialOutcome::stopped);
  // A second attempt that leaves records and no checkpoint, as one that is killed.
  TrialOptions options = SmallTrial::until(115);
  options.record_at = {111};
  CHECK(trial.run(out / "a", options) == TrialOutcome::stopped);
  std::filesystem::remove(trial.folder(out / "a").checkpoint(2));
  const VerifyReport report = verify(trial, out / "a", 55);
  CHECK_MESSAGE(!report.difference, report.difference.value_or(""));
  CHECK(report.from == 60);
  CHECK(report.start == "the checkpoint of attempt 1");
  CHECK(report.states == 3);  // 110, 111, 115
}

TEST_CASE("verify: the first step and value that differ are named") {
  TrialConfig config = SmallTrial::settings();
  config.train.epochs = 10;  // 60 steps
  const SmallTrial trial(config);
  const TemporaryFolder out;
  CHECK(trial.run(out / "a") == TrialOutcome::done);
  const TrialFolder folder = trial.folder(out / "a");
  const auto states = attempt_folder(folder.path(), 1) / kStatesFile;
  const std::string good = read_file(states);
  const auto refused_until_sealed = [&](const std::filesystem::path& path) {
    CHECK(refusal(trial, out / "a", 60).find(path.string() + ": ") == 0);
    TrialResult result = *folder.load_result();
    result.files[path.filename().string()] = seal_of_file(path);
    write_atomically(folder.path() / "result.json", write_trial_result(result));
  };
  damage(states, "\"tensors\":\"", 8);
  refused_until_sealed(states);
  VerifyReport report = verify(trial, out / "a", 60);
  REQUIRE(report.difference);
  CHECK(report.difference->find("step 50: tensor optimizer.") == 0);
  write_atomically(states, good);
  damage(states, "\"state\":\"", 3);
  refused_until_sealed(states);
  report = verify(trial, out / "a", 60);
  CHECK(report.difference == "step 50: the hash of all tensors differs");
  write_atomically(states, good);
  refused_until_sealed(states);
  damage(folder.metrics(1), "\"train/loss\":", 5);
  refused_until_sealed(folder.metrics(1));
  std::filesystem::remove(folder.checkpoint(1));  // it holds the metrics' hash as well
  report = verify(trial, out / "a", 60);
  REQUIRE(report.difference);
  CHECK(report.difference->find("step 6: train/loss is ") == 0);
}

TEST_CASE("verify: a value that differs is named in a precision that only GPUs have") {
  for (const TestDevice& device : devices_under_test()) {
    if (!device.backend.whole_batch()) continue;
    CAPTURE(device.name);
    TrialConfig config = SmallTrial::settings();
    config.train.precision = Precision::tf32;
    const SmallTrial trial(config);
    const TemporaryFolder out;
    TrialOptions options = SmallTrial::until(3);
    options.backend = &device.backend;
    CHECK(trial.run(out / "a", options) == TrialOutcome::stopped);
    const TrialFolder folder = trial.folder(out / "a");
    damage(attempt_folder(folder.path(), 1) / kStatesFile, "\"tensors\":\"", 8);
    VerifyOptions again;
    again.backend = &device.backend;
    const VerifyReport report = verify_trial(config, folder, trial.data, again);
    REQUIRE(report.difference);
    CHECK(report.difference->find("step 3: tensor optimizer.") == 0);
  }
}

TEST_CASE("verify: a diverged trial diverges again") {
  const DivergedTrial trial;
  const std::int64_t step = *trial.folder(trial.out / "a").load_result()->diverged_step;
  if (step > 50) {
    const VerifyReport report = verify(trial, trial.out / "a", 120);
    CHECK_MESSAGE(!report.difference, report.difference.value_or(""));
  } else {
    CHECK(refusal(trial, trial.out / "a", 120).find("no state is recorded") != std::string::npos);
  }
}

TEST_CASE("verify: a trial that diverges before its first record has nothing to compare with") {
  TrialConfig config = DivergedTrial::config_of();
  config.train.schedule.warmup_steps = 0;
  config.train.optimizer.lr = 1e30;
  const SmallTrial trial(config);
  const TemporaryFolder out;
  REQUIRE(trial.run(out / "a") == TrialOutcome::diverged);
  const std::int64_t step = *trial.folder(out / "a").load_result()->diverged_step;
  REQUIRE(step < 50);
  for (const std::optional<std::int64_t> from : {std::optional<std::int64_t>(), {0}}) {
    const std::string message = refusal(trial, out / "a", 50, from);
    CHECK_MESSAGE(message.find(concat("no state is recorded, so there is nothing to compare with: a trial records its "
                                      "first after 50 steps, and this one diverged at step ",
                                      step)) != std::string::npos,
                  message);
    CHECK(message.find("can begin") == std::string::npos);
  }
}

TEST_CASE("verify: the last step is the one that the training reached") {
  const SmallTrial trial(SmallTrial::settings());  // 24 steps
  const TemporaryFolder out;
  REQUIRE(trial.run(out / "a") == TrialOutcome::done);
  const VerifyReport report = verify(trial, out / "a", 100000);
  CHECK(!report.difference);
  CHECK(report.from == 0);
  CHECK(report.to == 24);
  CHECK(refusal(trial, out / "a", 50, 24)
            .find("no state is recorded after step 24, so there is nothing to compare with; use --from-step 0") !=
        std::string::npos);
}

TEST_CASE("verify: metrics that are missing or damaged are refused, unless they were left out") {
  const SmallTrial finished(SmallTrial::settings());
  const TemporaryFolder out;
  REQUIRE(finished.run(out / "a") == TrialOutcome::done);
  const StoppedTrial stopped;
  const TrialFolder done = finished.folder(out / "a");
  for (const auto& [trial, place] :
       {std::pair<const SmallTrial*, std::filesystem::path>{&finished, out / "a"}, {&stopped, stopped.out / "a"}}) {
    const std::filesystem::path metrics = trial->folder(place).metrics(1);
    const std::string good = read_file(metrics);
    for (const std::string& text : {std::string(), good.substr(0, good.size() / 2), "x" + good}) {
      write_atomically(metrics, text);
      CHECK(refusal(*trial, place, 60).find(metrics.string()) != std::string::npos);
    }
    std::filesystem::remove(metrics);
    CHECK(refusal(*trial, place, 60).find(metrics.string()) != std::string::npos);
  }
  note_removed(attempt_folder(done.path(), 1), {"metrics.jsonl"});
  std::filesystem::remove(done.checkpoint(1));
  const VerifyReport report = verify(finished, out / "a", 60);
  CHECK_MESSAGE(!report.difference, report.difference.value_or(""));
  CHECK(report.metrics == 0);
  CHECK(report.result);
  std::filesystem::remove(attempt_folder(done.path(), 1) / kStatesFile);
  CHECK(refusal(finished, out / "a", 60).find("states.jsonl is missing or empty; `normlab verify --files`") !=
        std::string::npos);
  note_removed(attempt_folder(done.path(), 1), {kStatesFile});
  CHECK(refusal(finished, out / "a", 60).find("states.jsonl was left out of an archive") != std::string::npos);
}

TEST_CASE("verify: losses that an older version measured otherwise are not compared") {
  TrialConfig config = SmallTrial::settings();
  config.train.epochs = 10;  // 60 steps
  config.train.label_smoothing = 0.1;
  const SmallTrial trial(config);
  const TemporaryFolder out;
  REQUIRE(trial.run(out / "a") == TrialOutcome::done);
  const TrialFolder folder = trial.folder(out / "a");
  TrialResult result = *folder.load_result();
  // As an older version would have written it, but for the values.
  const auto age = [](std::map<std::string, double>& metrics) {
    for (const char* name : {"train/lr", "train/gradient_norm"}) metrics.erase(name);
    for (auto& [name, value] : metrics)
      if (name.ends_with("/loss")) value += 0.25;
  };
  std::string text;
  for (MetricsLine& line : read_metrics(folder.metrics(1))) {
    age(line.values);
    text += metrics_text(line) + "\n";
  }
  age(result.metrics);
  std::filesystem::remove(folder.checkpoint(1));  // it holds the metrics' hash
  result.files.erase("checkpoint.safetensors");
  const auto publish = [&] {
    write_atomically(folder.metrics(1), text);
    result.files["metrics.jsonl"] = seal_of_file(folder.metrics(1));
    write_atomically(folder.path() / "result.json", write_trial_result(result));
  };
  publish();
  CHECK(verify(trial, out / "a", 60).difference->starts_with("step 60: eval/loss is "));  // of the result
  for (const char* key : {"eval_loss", "train_loss"}) result.provenance.erase(key);
  publish();
  const VerifyReport report = verify(trial, out / "a", 60);
  CHECK_MESSAGE(!report.difference, report.difference.value_or(""));
  CHECK(report.older);
  CHECK(report.result);
  CHECK(report.states > 0);
  damage(folder.metrics(1), "\"eval/accuracy\":", 2);
  text = read_file(folder.metrics(1));
  publish();
  CHECK(verify(trial, out / "a", 60).difference->find("eval/accuracy is ") != std::string::npos);
}

TEST_CASE("verify: a trial of another program is refused") {
  const DivergedTrial trial;
  const TrialFolder folder = trial.folder(trial.out / "a");
  TrialResult result = *folder.load_result();
  const std::filesystem::path states = attempt_folder(folder.path(), 1) / kStatesFile;
  write_atomically(states, write_state_record({*result.diverged_step, "x", {"00000000"}}) + "\n");
  result.files[kStatesFile] = seal_of_file(states);
  result.provenance["bits"] = "another";
  write_atomically(folder.path() / "result.json", write_trial_result(result));
  CHECK(refusal(trial, trial.out / "a", 120).find("by another program") != std::string::npos);
}

TEST_CASE("verify: settings of another trial are refused") {
  const DivergedTrial trial;
  const TrialFolder folder = trial.folder(trial.out / "a");
  write_atomically(folder.path() / "config.json", full_json(SmallTrial::settings()));
  CHECK_THROWS_WITH_AS(read_trial_config(folder), doctest::Contains("holds the settings of trial "), InputError);
}
