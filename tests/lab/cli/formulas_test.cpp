// Networks with norms that are given by formulas, from a descriptor to tables and figures.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/weights/convert_files.h"
#include "tests/lab/cli/killed_runs.h"

using namespace normlab;

namespace {

/// A norm over tokens, one over images and a built-in one.
const char* const kSweep = R"-({
  "about": "a test",
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "drop_path": 0.2},
  "train": {"epochs": 2, "batch_size": 20, "clip_norm": 0.5, "ema": {"decay": 0.9}},
  "norms": {
    "ln": {"formula": "gamma * (x - mean(x)) / std(x) + beta"},
    "mine": {"formula": "gamma * x / (abs(x) + alpha * std_image(x)) + beta * progress",
             "parameters": {"alpha": {"init": "0.8 - 0.5 * (block - 1) / max(depth - 1, 1)"}}}
  },
  "sweep": {"model.placement": ["pre_pre", {"base": "pre_pre", "norm": "ln"}, {"base": "pre_pre", "norm": "mine"}]},
  "baseline": {"model.placement": "pre_pre"}
})-";

struct Files : SweepFiles {
  Files() : SweepFiles(kSweep) {}
};

/// Options that make a placement the only row.
std::string row(const std::string& placement) {
  return " --set 'sweep={\"model.placement\": [" + placement +
         "]}' --set 'baseline={\"model.placement\": " + placement + "}'";
}

}  // namespace

TEST_CASE("formulas: a run has the same bits for any threads and ranks, and verify agrees") {
  check_equal_bits(Files(), 3);
}

TEST_CASE("formulas: a killed run is continued with the same bits") {
  const Files files;
  check_killed_run(files.folder, files.descriptor, " --set train.epochs=2 --workers 1");
}

TEST_CASE("formulas: plan counts parameters and memory, and the mapping is that of the norm it spells") {
  const Files files;
  const std::string probes = R"( --set 'probes={"mapping": [0, 19], "activations": [0]}' --set model.drop_path=0)";
  const auto plan = [&](const std::string& placement) {
    const std::string text = files.call("plan", row(placement) + " --set model.embed_dim=192").out;
    const std::size_t at = text.find(" parameters, ");
    REQUIRE_MESSAGE(at != text.npos, text);
    return text.substr(at - 8, text.find("shards of", at) - at);
  };
  const std::string formula = plan(R"({"base": "pre_pre", "norm": "ln"})");
  CHECK(formula == plan("\"pre_pre\""));
  CHECK(formula != plan(R"({"base": "pre_pre", "norm": "mine"})"));  // one value more for each norm
  REQUIRE(files.run("r", probes).code == 0);
  const ResultStore store(files.folder / "r");
  const Experiment experiment = load_experiment(files.descriptor, std::vector<std::string>{"model.drop_path=0"});
  const auto lines = [&](std::size_t r) {
    return read_metrics(store.trial(first_trial(experiment, experiment.rows[r]).id).metrics(1));
  };
  const auto first = [](const std::vector<MetricsLine>& all, const std::string& key) {
    return *std::find_if(all.begin(), all.end(), [&](const MetricsLine& line) { return line.lists.contains(key); });
  };
  const std::string out = "mapping.out/blocks.1.mlp.pre";
  const MetricsLine built_in = first(lines(0), out), spelled = first(lines(1), out);
  const std::vector<double>&want = built_in.lists.at(out), &have = spelled.lists.at(out);
  REQUIRE(want.size() == have.size());
  for (std::size_t i = 0; i < want.size(); ++i) CHECK(have[i] == doctest::Approx(want[i]).epsilon(1e-4));
  CHECK(spelled.values.at("mapping.curvature/final") ==
        doctest::Approx(built_in.values.at("mapping.curvature/final")).epsilon(1e-3));
  const Finished figure = run_program(
      files.folder, "report " + files.descriptor + probes + " --out " + in_folder(files.folder, "r") + " --figures " +
                        in_folder(files.folder, "figures") + " --only mapping --sites blocks.1.mlp.pre");
  CHECK_MESSAGE(figure.code == 0, figure.err);
  CHECK(text_of(files.folder / "figures" / "mapping.csv").find("norm=mine") != std::string::npos);
}

TEST_CASE("formulas: progress is the share of updates made") {
  const Files files;
  const std::string text = row(R"({"base": "pre_pre", "final": {"formula": "0 * x + progress"}})");
  const Finished run = files.run("r", text + R"( --set 'probes={"mapping": [0, 5, 19]}')");
  REQUIRE_MESSAGE(run.code == 0, run.err);
  const TrialFolder trial = ResultStore(files.folder / "r").trial(ResultStore(files.folder / "r").trial_ids().front());
  std::map<std::int64_t, double> seen;
  for (const MetricsLine& line : read_metrics(trial.metrics(1)))
    if (const auto out = line.lists.find("mapping.out/final"); out != line.lists.end())
      seen[line.step] = out->second[0];
  CHECK(seen == std::map<std::int64_t, double>{{0, 0.0}, {5, 0.25}, {19, 0.95}});
  const auto checkpoint = [&] {
    const ResultStore store(files.folder / "long");
    const auto ids = std::filesystem::exists(store.out() / "trials") ? store.trial_ids() : std::vector<std::string>();
    return ids.empty() ? std::filesystem::path() : store.trial(ids.front()).checkpoint(1);
  };
  const Program program(files.folder, "run " + files.descriptor + text +
                                          " --set train.epochs=2000 --set "
                                          "checkpoint.steps=10 --out " +
                                          in_folder(files.folder, "long"));
  REQUIRE(comes_true([&] { return std::filesystem::exists(checkpoint()); }));
  program.signal_all(SIGKILL);
  program.wait();
  const WeightFile begun = read_weight_file(checkpoint());
  CHECK(stated_progress(begun) > 0);
  CHECK(stated_progress(begun) == std::stod(begun.metadata.at("normlab.step")) / 20000);
  const Finished judged = run_program(files.folder, "eval --weights " + checkpoint().string());
  CHECK_MESSAGE(judged.code == 0, judged.err);
  // A checkpoint says it before the end only; weights that do not say have 1, and initial ones 0.
  const WeightFile ended = read_weight_file(trial.checkpoint(1));
  CHECK(stated_progress(ended) == 1);
  CHECK_FALSE(ended.metadata.contains(std::string(kProgressKey)));
  WeightFile half{Tensors("half"), {{std::string(kProgressKey), "0.5"}}};
  CHECK(stated_progress(half) == 0.5);
  half.metadata[std::string(kProgressKey)] = "2";
  CHECK_THROWS_WITH_AS(stated_progress(half), "half: the metadata's normlab.progress is \"2\", not from 0 to 1",
                       InputError);
  // The inputs of a head that alone is trained change with it.
  const std::string frozen = files.call("explain", text + " --set 'train.freeze=[\"stem\",\"blocks\"]'").out;
  CHECK_MESSAGE(frozen.find("the formula of final") != std::string::npos, frozen);
}

TEST_CASE("formulas: a norm whose values become NaN diverges, and its site is named") {
  const Files files;
  const Finished run = files.run(
      "r",
      row(R"-({"base": "pre_pre", "mlp": {"pre": {"formula": "x / rms(x) + log(a)", "parameters": {"a": 0.01}}}})-") +
          " --set train.optimizer.lr=0.1");
  CHECK_MESSAGE(run.out.find("1/1 diverged @") != std::string::npos, run.out << run.err);
  CHECK_MESSAGE(run.out.find(".mlp.pre") != std::string::npos, run.out);
  const ResultStore store(files.folder / "r");
  const std::string result = store.trial(store.trial_ids().front()).result_text().value();
  CHECK_MESSAGE(result.find("formula (NaN first in log(a)) at blocks.") != std::string::npos, result);
}

TEST_CASE("formulas: multipliers, freeze, averages and layer decay know parameters by their sites") {
  const Files files;
  const Finished run = files.run(
      "r",
      row(R"({"base": "pre_pre", "norm": "mine"})") +
          " --set "
          "'train.freeze=[\"*.attn.pre.alpha\"]' --set 'train.optimizer.multipliers=[{\"name\": \"final.alpha\", \"lr\": "
          "0}]' --set train.optimizer.layer_decay=0.001");
  REQUIRE_MESSAGE(run.code == 0, run.err);
  const ResultStore store(files.folder / "r");
  const SafetensorsFile file = SafetensorsFile::read(store.trial(store.trial_ids().front()).checkpoint(1));
  const auto value = [&](const std::string& name) {
    const auto& all = file.tensors();
    const auto found = std::find_if(all.begin(), all.end(), [&](const TensorView& t) { return t.name == name; });
    REQUIRE_MESSAGE(found != all.end(), name);
    float out = 0;
    std::memcpy(&out, found->data.data(), sizeof out);
    return out;
  };
  CHECK(value("blocks.0.attn.pre.alpha") == 0.8f);
  CHECK(value("blocks.1.attn.pre.alpha") == 0.3f);
  CHECK(value("final.alpha") == 0.3f);
  const float early = std::fabs(value("blocks.0.mlp.pre.alpha") - 0.8f),
              late = std::fabs(value("blocks.1.mlp.pre.alpha") - 0.3f);
  CHECK(late > 0);
  CHECK(early < late / 100);
  CHECK(value("ema/blocks.1.mlp.pre.alpha") != value("blocks.1.mlp.pre.alpha"));
}
