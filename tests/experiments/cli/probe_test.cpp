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

/// The descriptor trained with probes, with other threads and without probes, once.
struct ProbedRuns : Files {
  ProbedRuns() {
    REQUIRE(run("probed", "--threads 1 --workers 1").code == 0);
    REQUIRE(run("threads", "--threads 3 --workers 2").code == 0);
    REQUIRE(run("plain", "--set 'probes.signal=[]' --set 'probes.gradients=[]'").code == 0);
    REQUIRE(trials("probed").size() == 2);
    REQUIRE(trials("plain").size() == 2);
  }
};
const ProbedRuns& probed_runs() {
  static const ProbedRuns once;
  return once;
}

bool is_probe(const MetricsLine& line) { return !line.values.contains("train/loss"); }

/// What the command prints of the initial weights, and the trial that a row of it names.
nlohmann::json initial_rows() {
  const Finished json = probed_runs().probe("--format json --threads 2");
  REQUIRE_MESSAGE(json.code == 0, json.err);
  return parse_strict_json(json.out, "probe");
}
TrialFolder trial_of(const nlohmann::json& row) {
  return ResultStore(probed_runs().folder / "probed").trial(row.at("trial").get<std::string>());
}

void refused(const Files& files, const std::string& arguments, const std::string& words) {
  const Finished f = files.probe(arguments);
  CHECK(f.code == 2);
  CHECK_MESSAGE(f.err.find(words) != std::string::npos, f.err);
}

std::string pre_pre_checkpoint() {
  for (const nlohmann::json& row : initial_rows())
    if (row.at("row") == "pre_pre, seed 0") return trial_of(row).checkpoint(1).string();
  FAIL("no row is pre_pre");
  return {};
}

/// The option that names a file of these tensors and nothing else.
std::string bare_weights(const std::vector<TensorView>& tensors) {
  const auto path = probed_runs().folder / "w.safetensors";
  save_safetensors(path, {}, tensors);
  return "--weights " + path.string();
}

}  // namespace

TEST_CASE("probe: a training with probes has the bits of one without") {
  const auto probed = probed_runs().trials("probed"), plain = probed_runs().trials("plain");
  for (std::size_t t = 0; t < 2; ++t) {
    CHECK(probed[t].path().filename() == plain[t].path().filename());
    CHECK(tensors(probed[t]) == tensors(plain[t]));
    std::vector<MetricsLine> lines = read_metrics(probed[t].metrics(1));
    std::erase_if(lines, is_probe);
    CHECK(lines == read_metrics(plain[t].metrics(1)));
  }
}

TEST_CASE("probe: the lines are the same for any number of threads") {
  const auto probed = probed_runs().trials("probed"), threads = probed_runs().trials("threads");
  for (std::size_t t = 0; t < 2; ++t) CHECK(text_of(probed[t].metrics(1)) == text_of(threads[t].metrics(1)));
}

TEST_CASE("probe: a training records each probe at its steps") {
  for (const TrialFolder& trial : probed_runs().trials("probed")) {
    std::vector<std::pair<std::int64_t, std::size_t>> probes;  // step, values
    for (const MetricsLine& line : read_metrics(trial.metrics(1)))
      if (is_probe(line)) probes.emplace_back(line.step, line.values.size());
    // 2 blocks of 2 branches: 6 numbers each; gradients of patch_embed, stem, 6 of blocks, final, head, global.
    CHECK(probes == std::vector<std::pair<std::int64_t, std::size_t>>{{0, 24 + 11}, {13, 11}, {29, 24}});
  }
}

TEST_CASE("probe: the command gives the numbers of a training's first step") {
  const nlohmann::json rows = initial_rows();
  REQUIRE(rows.size() == 2);
  for (const nlohmann::json& row : rows) {
    CHECK(take_numbers(row.at("values"), nullptr, "probe") == read_metrics(trial_of(row).metrics(1)).front().values);
    CHECK(row.at("axis") == (row.at("row") == "pre_pre, seed 0" ? "position" : "channel"));
  }
}

TEST_CASE("probe: a checkpoint's weights are measured in the row of its trial") {
  for (const nlohmann::json& row : initial_rows()) {
    const Finished trained = probed_runs().probe("--format json --weights " + trial_of(row).checkpoint(1).string());
    REQUIRE_MESSAGE(trained.code == 0, trained.err);
    const nlohmann::json one = parse_strict_json(trained.out, "probe");
    REQUIRE(one.size() == 1);
    CHECK(one[0].at("row") == row.at("row"));
    CHECK(one[0].at("values") != row.at("values"));
  }
}

TEST_CASE("probe: the text says what was measured") {
  const Finished text = Files().probe("--images 7");
  CHECK(text.out.find("bn_ffnbn, seed 0: 7 training images in training mode, initial weights; axis channel") !=
        std::string::npos);
  CHECK(text.out.find("blocks.1.mlp") != std::string::npos);
}

TEST_CASE("probe: the CSV has a line for each measure and layer") {
  const Finished csv = Files().probe("--format csv");
  CHECK(csv.out.starts_with("row,trial,images,measure,layer,value\n\"pre_pre, seed 0\","));
}

TEST_CASE("probe: a number of images beyond the training images is refused") {
  const Files files;
  refused(files, "--images 201", "--images: 201 is not between 1 and the 200 training images");
  refused(files, "--images 0", "--images");
}

TEST_CASE("probe: a file that has no weights is refused") {
  const Files files;
  refused(files, "--weights " + files.descriptor, "d.json");
}

TEST_CASE("probe: weights of another network are refused") {
  refused(probed_runs(), "--set 'sweep={\"model.placement\": [\"dpn\"]}' --weights " + pre_pre_checkpoint(),
          "belongs to another network");
}

TEST_CASE("probe: weights that fit several rows are refused") {
  refused(Files(), bare_weights(SafetensorsFile::read(pre_pre_checkpoint()).tensors()), "fits several rows");
}

TEST_CASE("probe: weights with a tensor too few or too many are refused") {
  const Files files;
  const std::string one_row = " --set 'sweep={\"model.placement\": [\"pre_pre\"]}'";
  const SafetensorsFile stored = SafetensorsFile::read(pre_pre_checkpoint());
  std::vector<TensorView> kept = stored.tensors();
  std::erase_if(kept, [](const TensorView& t) { return t.name == "head.bias"; });
  refused(files, bare_weights(kept) + one_row, "there is no tensor head.bias");
  kept = stored.tensors();
  std::erase_if(kept, [](const TensorView& t) { return t.name.starts_with("optimizer."); });
  CHECK(files.probe(bare_weights(kept) + one_row).code == 0);
  kept.push_back(kept.front());
  kept.back().name = "head.extra";
  refused(files, bare_weights(kept) + one_row, "this network has no tensor head.extra");
}

TEST_CASE("probe: plan and run name finished trials without the probes") {
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
  for (const TrialFolder& trial : files.trials("r")) fs::remove_all(trial.path());
  CHECK(files.run("r").err.find("Finished, but") == std::string::npos);
}

TEST_CASE("probe: a step after the end is refused before any training") {
  const Files files;
  CHECK(files.run("fresh", "--set 'probes.signal=[30]'").err.find("step 30 is after the end of") != std::string::npos);
  CHECK(!fs::exists(files.folder / "fresh" / "trials"));
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
  CHECK(run.err.find("Finished, but") == std::string::npos);  // steps after the end are not missing
  const TrialFolder trial = files.trials("r").front();
  const std::int64_t end = trial.load_result()->diverged_step.value_or(-1);
  REQUIRE(end >= 0);
  const MetricsLine last = read_metrics(trial.metrics(1)).back();
  CHECK(last.step == end);
  CHECK(!std::isfinite(last.values.at("grad_norm/global")));
}
