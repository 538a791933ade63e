// What the losses, rates and times that a training writes mean.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/sweep/verify_files.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/trials/loss_meaning.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/trial_files.h"
#include "nn/training/schedule.h"
#include "tests/devices.h"
#include "tests/lab/train/small_trial.h"

using namespace normlab;

namespace {

constexpr std::int64_t kSteps = 120;

/// 120 steps in 20 epochs; evaluated at the end, or after each epoch.
TrialConfig long_training(bool evaluates = false) {
  TrialConfig config = SmallTrial::settings();
  config.train.epochs = 20;
  config.train.eval_every_epochs = evaluates ? 1 : 0;
  return config;
}

/// 120 epochs of one step.
TrialConfig evaluated_after_each_step() {
  TrialConfig config = long_training(true);
  config.dataset.train = "train[:10]";
  config.train.epochs = double(kSteps);
  return config;
}

std::map<std::int64_t, double> training_losses(const TrialFolder& folder) {
  std::map<std::int64_t, double> losses;
  for (const MetricsLine& line : read_metrics(folder.metrics(folder.load_result()->attempt)))
    if (const auto found = line.values.find(kTrainLoss); found != line.values.end()) losses[line.step] = found->second;
  return losses;
}

/// The metrics of evaluations in the lines of a finished trial.
std::vector<std::map<std::string, double>> evaluations(const SmallTrial& trial, const std::filesystem::path& out,
                                                       TrialOptions options = {}) {
  options.probes.without_block = true;
  REQUIRE(trial.run(out, options) == TrialOutcome::done);
  std::vector<std::map<std::string, double>> all;
  for (MetricsLine& line : read_metrics(trial.folder(out).metrics(1))) {
    std::erase_if(line.values, [](const auto& metric) { return metric.first.starts_with("train/"); });
    all.push_back(std::move(line.values));
  }
  return all;
}

std::vector<nlohmann::json> times(const TrialFolder& folder, std::int64_t attempt) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(attempt_folder(folder.path(), attempt) / kTimesFile);
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

}  // namespace

TEST_CASE("losses: evaluations do not contain the training's label smoothing") {
  for (const TestDevice& device : devices_under_test())
    for (const LossKind loss : {LossKind::softmax, LossKind::sigmoid}) {
      CAPTURE(device.name);
      TrialConfig config = SmallTrial::settings();
      config.train.loss = loss;
      std::get<ViTConfig>(config.model).init.head = HeadInit::xavier;  // with a zero head smoothing changes no loss
      config.train.optimizer.lr = 0;  // so that both trainings evaluate the same weights
      config.train.ema.decay = 0.5;
      config.train.early_stop.metric = "minival/loss";
      config.train.early_stop.patience = 2;
      const TemporaryFolder out;
      TrialOptions options;
      options.backend = &device.backend;
      const auto plain = evaluations(SmallTrial(config), out / "plain", options);
      config.train.label_smoothing = 0.2;
      const SmallTrial trial(config);
      CHECK(evaluations(trial, out / "smoothed", options) == plain);
      CHECK(plain.front().contains("eval/ema_loss"));
      CHECK(plain.size() == 4);  // the third evaluation ends it, with a line of the blocks
      const TrialResult a = *trial.folder(out / "smoothed").load_result();
      config.train.label_smoothing = 0;
      const TrialResult b = *SmallTrial(config).folder(out / "plain").load_result();
      CHECK(std::abs(a.metrics.at(kTrainLoss) - b.metrics.at(kTrainLoss)) > 1e-3);
      CHECK(a.provenance.at(kEvalLossMeaning) == kPlainLoss);
      CHECK(smoothing_in_losses(a, trial.config) == 0.0);
    }
}

TEST_CASE("losses: a result of an older version has the label smoothing in its evaluation losses") {
  TrialConfig config = SmallTrial::settings();
  CHECK(smoothing_in_losses(TrialResult(), config) == 0.0);
  config.train.label_smoothing = 0.1;
  CHECK(smoothing_in_losses(TrialResult(), config) == 0.1);
  for (const char* name : {"eval/loss", "eval/ema_loss", "minival/loss", "without_block.loss/3"})
    CHECK(is_evaluation_loss(name));
  for (const char* name : {"train/loss", "eval/accuracy", "train/first_loss", "without_block.accuracy/3"})
    CHECK(!is_evaluation_loss(name));
}

TEST_CASE("losses: train/loss is the mean of the last 50 steps, whatever evaluations lie between") {
  const TemporaryFolder out;
  TrialConfig config = evaluated_after_each_step();
  const SmallTrial each(config);
  REQUIRE(each.run(out / "each") == TrialOutcome::done);
  const auto means = training_losses(each.folder(out / "each"));
  REQUIRE(std::ssize(means) == kSteps);
  std::vector<double> losses;  // of the steps
  for (const auto& [step, mean] : means) {
    const double before = step == 1 ? 0 : means.at(step - 1);
    losses.push_back(step <= 50 ? double(step) * mean - double(step - 1) * before
                                : 50 * (mean - before) + losses[std::size_t(step - 51)]);
    CHECK(losses.back() > 0);
  }
  CHECK(losses.front() == each.folder(out / "each").load_result()->metrics.at(kFirstLoss));
  config.train.eval_every_epochs = 0;
  const SmallTrial once(config);
  REQUIRE(once.run(out / "once") == TrialOutcome::done);
  const auto rare = training_losses(once.folder(out / "once"));
  REQUIRE(rare.size() == 3);
  for (const std::int64_t step : {50L, 100L, kSteps}) CHECK(rare.at(step) == means.at(step));
  const TrialResult result = *once.folder(out / "once").load_result();
  CHECK(result.metrics.at(kTrainLoss) == rare.at(kSteps));
  CHECK(result.provenance.at(kTrainLossMeaning) == kLastStepsLoss);
}

TEST_CASE("losses: a stop anywhere changes no line") {
  const SmallTrial trial(long_training(true));
  const TemporaryFolder out;
  REQUIRE(trial.run(out / "a") == TrialOutcome::done);
  const std::string whole = read_file(trial.folder(out / "a").metrics(1));
  for (const std::int64_t step : {1L, 6L, 49L, 50L, 51L, 99L, 119L}) {
    const auto folder = out / std::to_string(step);
    REQUIRE(trial.run(folder, SmallTrial::until(step)) == TrialOutcome::stopped);
    REQUIRE(trial.run(folder) == TrialOutcome::done);
    CHECK(read_file(trial.folder(folder).metrics(2)) == whole);
  }
  remove_file(trial.folder(out / "a").path() / "result.json");  // as if killed just before it was published
  REQUIRE(trial.run(out / "a") == TrialOutcome::done);
  CHECK(trial.folder(out / "a").load_result()->metrics == trial.folder(out / "50").load_result()->metrics);
}

TEST_CASE("losses: a resume from an older checkpoint averages the steps since then, and says so") {
  const SmallTrial trial(long_training());
  const TemporaryFolder out;
  const auto resumed = [&](const std::filesystem::path& to, std::int64_t step) {
    REQUIRE(trial.run(to, SmallTrial::until(step)) == TrialOutcome::stopped);
    const auto path = trial.folder(to).checkpoint(1);
    const SafetensorsFile file = SafetensorsFile::read(path);
    std::map<std::string, std::string> metadata = file.metadata();
    CHECK(metadata.erase("normlab.losses") == 1);
    metadata["normlab.loss_sum"] = "0x1p+0";
    metadata["normlab.loss_count"] = "1";
    save_sealed_safetensors(path, std::move(metadata), file.tensors());
    REQUIRE(trial.run(to) == TrialOutcome::done);
    CHECK(
        read_file(trial.folder(to).log(2)).find("an older version kept no losses in it; until 50 steps after step ") !=
        std::string::npos);
    return *trial.folder(to).load_result();
  };
  const TrialResult early = resumed(out / "early", 60), late = resumed(out / "late", 110);
  CHECK(averages_last_steps(early));  // the last 50 steps are of this version
  CHECK(!averages_last_steps(late));
  CHECK(early.metrics.at(kTrainLoss) != late.metrics.at(kTrainLoss));
  CHECK(early.metrics.at("eval/loss") == late.metrics.at("eval/loss"));
}

TEST_CASE("losses: damaged losses of a checkpoint are refused") {
  const SmallTrial trial(SmallTrial::settings());
  const TemporaryFolder out;
  REQUIRE(trial.run(out / "a", SmallTrial::until(3)) == TrialOutcome::stopped);
  const auto path = trial.folder(out / "a").checkpoint(1);
  const SafetensorsFile file = SafetensorsFile::read(path);
  std::string many;
  for (int i = 0; i < 51; ++i) many += "0x1p+0 ";
  for (const std::string& text : {std::string("x"), std::string("0x1p+0x"), many}) {
    std::map<std::string, std::string> metadata = file.metadata();
    metadata["normlab.losses"] = text;
    save_sealed_safetensors(out / "damaged.safetensors", std::move(metadata), file.tensors());
    std::filesystem::copy_file(out / "damaged.safetensors", path, std::filesystem::copy_options::overwrite_existing);
    CHECK_THROWS_WITH_AS(trial.run(out / "a"), doctest::Contains("a number in its metadata cannot be read"),
                         InputError);
  }
}

TEST_CASE("losses: each line has the rate of its last step, and the norm of its gradient if it clips") {
  TrialConfig config = long_training(true);
  config.train.clip_norm = 0.5;
  config.train.optimizer.layer_decay = 0.5;  // lr is the base rate
  const TemporaryFolder out;
  const SmallTrial trial(config);
  TrialOptions options;
  options.probes.of(ProbeKind::gradients).every = 1;
  REQUIRE(trial.run(out / "a", options) == TrialOutcome::done);
  const Schedule schedule(config.train.schedule, config.train.optimizer.lr, kSteps, 4);
  std::map<std::int64_t, double> norms;
  std::size_t lines = 0;
  for (const MetricsLine& line : read_metrics(trial.folder(out / "a").metrics(1))) {
    if (const auto norm = line.values.find("grad_norm/global"); norm != line.values.end())
      norms[line.step] = norm->second;
    if (!line.values.contains(kTrainLoss)) continue;
    ++lines;
    CHECK(line.values.at("train/lr") == schedule.rate(line.step - 1));
    CHECK(line.values.at("train/gradient_norm") == doctest::Approx(norms.at(line.step - 1)).epsilon(1e-5));
  }
  CHECK(lines == 22);  // after 20 epochs, and steps 50 and 100
  config.train.clip_norm = 0;
  const SmallTrial without(config);
  REQUIRE(without.run(out / "b") == TrialOutcome::done);
  for (const MetricsLine& line : read_metrics(without.folder(out / "b").metrics(1))) {
    CHECK(line.values.contains("train/lr"));
    CHECK(!line.values.contains("train/gradient_norm"));
  }
}

TEST_CASE("losses: the times of epochs are in a file that nothing seals") {
  const SmallTrial trial(SmallTrial::settings());  // 4 epochs of 6 steps
  const TemporaryFolder out;
  REQUIRE(trial.run(out / "a", SmallTrial::until(8)) == TrialOutcome::stopped);
  REQUIRE(trial.run(out / "a") == TrialOutcome::done);
  const TrialFolder folder = trial.folder(out / "a");
  const auto first = times(folder, 1), second = times(folder, 2);
  REQUIRE(first.size() == 1);
  CHECK(first[0]["epoch"] == 1);
  REQUIRE(second.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(second[i]["epoch"] == 2 + i);
    CHECK(second[i]["step"] == 12 + 6 * i);
    CHECK(second[i]["steps"] == (i == 0 ? 4 : 6));
    CHECK(second[i]["seconds"].get<double>() > second[i]["evaluation_seconds"].get<double>());
    CHECK(second[i]["evaluation_seconds"].get<double>() > 0);
  }
  CHECK(!folder.load_result()->files.contains(kTimesFile));
  std::ofstream(attempt_folder(folder.path(), 2) / kTimesFile) << "x";
  CHECK(verify_files(ResultStore(out / "a")).problems.empty());
}

TEST_CASE("losses: the last line of times is that of a training's last step") {
  TrialConfig config = SmallTrial::settings();
  config.train.epochs = 0;
  config.train.steps = 9;
  const TemporaryFolder out;
  const SmallTrial nine(config);
  REQUIRE(nine.run(out / "a") == TrialOutcome::done);
  const auto lines = times(nine.folder(out / "a"), 1);
  REQUIRE(lines.size() == 2);
  CHECK(lines[1]["epoch"] == 2);
  CHECK(lines[1]["steps"] == 3);
}

TEST_CASE("losses: a result of an older version and a newer one of the same trial agree but for what these measured") {
  TrialResult newer;
  newer.metrics = {{"eval/accuracy", 0.5}, {"eval/loss", 1.0}, {kTrainLoss, 2.0}};
  newer.provenance = {{kEvalLossMeaning, kPlainLoss}, {kTrainLossMeaning, kLastStepsLoss}};
  TrialResult older = newer;
  older.provenance.clear();
  older.metrics["eval/loss"] = 1.4;
  older.metrics[kTrainLoss] = 2.2;
  const auto compare = [](const TrialResult& a, const TrialResult& b) {
    return counts_instead({a, true, "a"}, {b, false, "b"});
  };
  CHECK(compare(older, newer));
  CHECK(compare(newer, older));
  older.metrics["eval/accuracy"] = 0.6;
  CHECK_THROWS_WITH_AS(compare(older, newer), doctest::Contains("eval/accuracy is 0.5 and 0.6"), InputError);
  TrialResult other = newer;
  other.metrics["eval/loss"] = 1.4;
  CHECK_THROWS_WITH_AS(compare(other, newer), doctest::Contains("eval/loss is 1 and 1.4"), InputError);
}
