// Probes of whole trainings, and the command that measures one moment.
#include <doctest/doctest.h>

#include <cmath>

#include "experiments/base/safetensors.h"
#include "experiments/base/strict_json.h"
#include "experiments/results/metrics_log.h"
#include "experiments/results/store.h"
#include "tests/experiments/cli/program.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

const char* const kProbed = R"({
  "about": "a test",
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "dropout": 0.1},
  "train": {"epochs": 3, "batch_size": 20, "clip_norm": 0.1},
  "probes": {"signal": [0, 29], "gradients": [0, 13]},
  "sweep": {"model.placement": ["pre_pre", "bn_ffnbn"]}
})";

struct Files {
  TemporaryFolder folder;
  std::string descriptor = (folder / "d.json").string();
  Files() { std::ofstream(descriptor) << kProbed; }
  Finished run(const std::string& out, const std::string& more = "") const {
    return run_program(folder, "run " + descriptor + " --out " + (folder / out).string() + " " + more);
  }
  Finished plan(const std::string& out, const std::string& more = "") const {
    return run_program(folder, "plan " + descriptor + " --out " + (folder / out).string() + " " + more);
  }
  Finished probe(const std::string& more) const { return run_program(folder, "probe " + descriptor + " " + more); }
  std::vector<TrialFolder> trials(const std::string& out) const {
    const ResultStore store(folder / out);
    std::vector<TrialFolder> all;
    for (const std::string& id : store.trial_ids()) all.push_back(store.trial(id));
    return all;
  }
};

std::string tensors(const TrialFolder& trial) {
  std::string all;
  const SafetensorsFile file = SafetensorsFile::read(trial.checkpoint(1));
  for (const TensorView& t : file.tensors())
    all += t.name + std::string(reinterpret_cast<const char*>(t.data.data()), t.data.size());
  return all;
}

bool is_probe(const MetricsLine& line) { return !line.values.contains("train/loss"); }

}  // namespace

TEST_CASE("probe: a training with probes has the bits of one without, and their lines for any number of threads") {
  const Files files;
  REQUIRE(files.run("probed", "--threads 1 --workers 1").code == 0);
  REQUIRE(files.run("threads", "--threads 3 --workers 2").code == 0);
  REQUIRE(files.run("plain", "--set 'probes.signal=[]' --set 'probes.gradients=[]'").code == 0);
  const auto probed = files.trials("probed"), threads = files.trials("threads"), plain = files.trials("plain");
  REQUIRE(probed.size() == 2);
  REQUIRE(plain.size() == 2);
  for (std::size_t t = 0; t < 2; ++t) {
    CHECK(probed[t].path().filename() == plain[t].path().filename());
    CHECK(tensors(probed[t]) == tensors(plain[t]));
    CHECK(text_of(probed[t].metrics(1)) == text_of(threads[t].metrics(1)));
    std::vector<MetricsLine> lines = read_metrics(probed[t].metrics(1));
    std::vector<std::pair<std::int64_t, std::size_t>> probes;  // step, values
    for (const MetricsLine& line : lines)
      if (is_probe(line)) probes.emplace_back(line.step, line.values.size());
    // 2 blocks of 2 branches: 6 numbers each; gradients of patch_embed, stem, 6 of blocks, final, head, global.
    CHECK(probes == std::vector<std::pair<std::int64_t, std::size_t>>{{0, 24 + 11}, {13, 11}, {29, 24}});
    std::erase_if(lines, is_probe);
    CHECK(lines == read_metrics(plain[t].metrics(1)));
  }
}

TEST_CASE("probe: the command gives the numbers of a training's first step, and those of a checkpoint") {
  const Files files;
  REQUIRE(files.run("r").code == 0);
  const Finished json = files.probe("--format json --threads 2");
  REQUIRE_MESSAGE(json.code == 0, json.err);
  const nlohmann::json rows = parse_strict_json(json.out, "probe");
  REQUIRE(rows.size() == 2);
  for (const nlohmann::json& row : rows) {
    const TrialFolder trial = ResultStore(files.folder / "r").trial(row.at("trial").get<std::string>());
    CHECK(take_numbers(row.at("values"), nullptr, "probe") == read_metrics(trial.metrics(1)).front().values);
    CHECK(row.at("axis") == (row.at("row") == "pre_pre, seed 0" ? "position" : "channel"));

    const std::string weights = "--format json --weights " + trial.checkpoint(1).string();
    const Finished trained = files.probe(weights);
    REQUIRE_MESSAGE(trained.code == 0, trained.err);
    const nlohmann::json one = parse_strict_json(trained.out, "probe");
    REQUIRE(one.size() == 1);
    CHECK(one[0].at("row") == row.at("row"));
    CHECK(one[0].at("values") != row.at("values"));
  }
  const Finished text = files.probe("--images 7");
  CHECK(text.out.find("bn_ffnbn, seed 0: 7 training images in training mode, initial weights; axis channel") !=
        std::string::npos);
  CHECK(text.out.find("blocks.1.mlp") != std::string::npos);
  const Finished csv = files.probe("--format csv");
  CHECK(csv.out.starts_with("row,trial,images,measure,layer,value\n\"pre_pre, seed 0\","));
}

TEST_CASE("probe: bad input of the command exits with 2 and says what to do") {
  const Files files;
  const auto refused = [&](const std::string& arguments, const std::string& words) {
    const Finished f = files.probe(arguments);
    CHECK(f.code == 2);
    CHECK_MESSAGE(f.err.find(words) != std::string::npos, f.err);
  };
  refused("--images 201", "--images: 201 is not between 1 and the 200 training images");
  refused("--images 0", "--images");
  refused("--weights " + files.descriptor, "d.json");
  REQUIRE(files.run("r", "--set 'sweep={\"model.placement\": [\"pre_pre\"]}'").code == 0);
  const std::string checkpoint = files.trials("r").front().checkpoint(1).string();
  refused("--set 'sweep={\"model.placement\": [\"dpn\"]}' --weights " + checkpoint, "belongs to another network");
  const SafetensorsFile stored = SafetensorsFile::read(checkpoint);
  const auto save = [&](const std::vector<TensorView>& kept, std::map<std::string, std::string> metadata) {
    save_safetensors(files.folder / "w.safetensors", std::move(metadata), kept);
    return "--weights " + (files.folder / "w.safetensors").string();
  };
  std::vector<TensorView> kept = stored.tensors();
  refused(save(kept, {}), "fits several rows");
  const std::string one_row = " --set 'sweep={\"model.placement\": [\"pre_pre\"]}'";
  std::erase_if(kept, [](const TensorView& t) { return t.name == "head.bias"; });
  refused(save(kept, {}) + one_row, "there is no tensor head.bias");
  kept = stored.tensors();
  std::erase_if(kept, [](const TensorView& t) { return t.name.starts_with("optimizer."); });
  CHECK(files.probe(save(kept, {}) + one_row).code == 0);
  kept.push_back(kept.front());
  kept.back().name = "head.extra";
  refused(save(kept, {}) + one_row, "this network has no tensor head.extra");
}

TEST_CASE("probe: finished trials without the probes are named by plan and run, which says what to do") {
  const Files files;
  REQUIRE(files.run("r", "--set 'probes.signal=[29]'").err.find("Finished, but") == std::string::npos);
  for (const Finished& f : {files.plan("r"), files.run("r")}) {
    CHECK(f.code == 0);
    const std::string all = f.out + f.err;
    CHECK_MESSAGE(all.find("(pre_pre, seed 0): signal at 0\n") != std::string::npos, all);
    CHECK(all.find("Remove these folders, or give another --out") != std::string::npos);
  }
  const Finished many = files.plan("r", "--set probes.gradients=2");
  CHECK_MESSAGE(
      many.out.find("(pre_pre, seed 0): signal at 0; gradients at 2, 4, 6 and 11 more\n") != std::string::npos,
      many.out);
  CHECK(files.run("fresh", "--set 'probes.signal=[30]'").err.find("step 30 is after the end of") != std::string::npos);
  CHECK(!fs::exists(files.folder / "fresh" / "trials"));
  for (const TrialFolder& trial : files.trials("r")) fs::remove_all(trial.path());
  CHECK(files.run("r").err.find("Finished, but") == std::string::npos);
}

TEST_CASE("probe: a training that has passed a step asked for is refused") {
  const Files files;
  const std::string often = " --set 'checkpoint={\"steps\": 1, \"seconds\": 1000}' --set train.epochs=400";
  const Program program(files.folder, "run " + files.descriptor + often + " --set 'probes.signal=[29]' --out " +
                                          (files.folder / "r").string());
  for (int i = 0; i < 6000; ++i) {
    bool saved = false;
    if (fs::exists(files.folder / "r" / "trials"))
      for (const TrialFolder& trial : files.trials("r")) saved = saved || fs::exists(trial.checkpoint(1));
    if (saved) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  program.signal_all(SIGTERM);
  CHECK(program.wait().code == 128 + SIGTERM);
  const Finished again = files.run("r", often);
  CHECK(again.code == 2);
  CHECK_MESSAGE(again.err.find(
                    "the training up to there has not recorded these probes: signal at 0; remove the trial's folder") !=
                    std::string::npos,
                again.err);
}

TEST_CASE("probe: a training that diverges records the step at which it does") {
  const Files files;
  const Finished run = files.run(
      "r",
      "--set train.optimizer.name=sgd --set train.optimizer.lr=1e30 --set train.clip_norm=0 --set train.schedule.name="
      "constant --set 'sweep={\"model.placement\": [\"none\"]}' --set 'probes={\"signal\": [0,1,2,3,29], "
      "\"gradients\": 1}'");
  REQUIRE(run.code == 0);
  CHECK(run.err.find("Finished, but") == std::string::npos);  // steps behind the end are not missing
  const TrialFolder trial = files.trials("r").front();
  const std::int64_t end = trial.load_result()->diverged_step.value_or(-1);
  REQUIRE(end >= 0);
  const MetricsLine last = read_metrics(trial.metrics(1)).back();
  CHECK(last.step == end);
  CHECK(!std::isfinite(last.values.at("grad_norm/global")));
}
