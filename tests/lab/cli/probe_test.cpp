// Probes of whole trainings, and the command that measures one moment.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <cmath>

#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/base/save_safetensors.h"
#include "tests/lab/cli/program.h"

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
  Finished probe(const std::string& more) const {
    return run_program(folder, "eval --probe " + descriptor + " " + more);
  }
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

namespace {

const std::string kAllProbes =
    " --set 'probes={\"signal\": {\"at\": [3], \"every\": 4, \"last\": 2}, \"gradients\": 7, \"updates\": [0, 20], "
    "\"attention\": {\"every\": 10, \"last\": 1}, \"activations\": [5, 29], \"mapping\": {\"every\": 9, \"last\": 1}, "
    "\"stem_scale\": [0, 29], \"batch_accuracy\": {\"at\": [7], \"every\": 8, \"last\": 1}, \"without_block\": true}' "
    "--set 'sweep={\"model.placement\": [\"dpn\", \"bn_ffnbn\"]}'";

/// The steps of the lines that hold a name that begins so, after those that waited took their places.
std::vector<std::int64_t> steps_of(const TrialFolder& trial, const std::string& begins) {
  std::vector<std::int64_t> steps;
  for (const MetricsLine& line : by_measured_step(read_metrics(trial.metrics(1)))) {
    const auto at = line.values.lower_bound(begins);
    const bool has = at != line.values.end() && at->first.starts_with(begins);
    if (has) steps.push_back(line.step);
  }
  return steps;
}

}  // namespace

TEST_CASE("probe: every kind is measured, with the bits of a training without, for any number of threads") {
  const Files files;
  REQUIRE(files.run("a", "--threads 1" + kAllProbes).code == 0);
  REQUIRE(files.run("b", "--threads 3" + kAllProbes).code == 0);
  REQUIRE(files.run("c", kAllProbes + " --set 'probes={}'").code == 0);
  const auto a = files.trials("a"), b = files.trials("b"), c = files.trials("c");
  REQUIRE(a.size() == 2);
  for (std::size_t t = 0; t < 2; ++t) {
    CHECK(text_of(a[t].metrics(1)) == text_of(b[t].metrics(1)));
    CHECK(tensors(a[t]) == tensors(c[t]));
    CHECK(steps_of(a[t], "afsm.") == std::vector<std::int64_t>{3, 24, 28});
    CHECK(steps_of(a[t], "update/") == std::vector<std::int64_t>{0, 20});
    CHECK(steps_of(a[t], "attention.") == std::vector<std::int64_t>{20});
    CHECK(steps_of(a[t], "activation.") == std::vector<std::int64_t>{5, 29});
    CHECK(steps_of(a[t], "train/batch_accuracy") == std::vector<std::int64_t>{7, 24});
    CHECK(steps_of(a[t], "mapping.") == std::vector<std::int64_t>{27});
    CHECK(steps_of(a[t], "without_block.") == std::vector<std::int64_t>{30});
  }
  // Only the first row has a norm before the patch embedding, and the other misses nothing.
  CHECK(steps_of(a[0], "stem_scale").size() + steps_of(a[1], "stem_scale").size() == 2);
  CHECK(files.plan("a", kAllProbes).out.find("Finished, but") == std::string::npos);
  const std::string plan = files.plan("new", kAllProbes).out;
  CHECK_MESSAGE(plan.find("Probes add about ") != plan.npos, plan);
  CHECK(files.plan("c", kAllProbes).out.find("signal at 3, 24, 28;") != std::string::npos);
}

TEST_CASE("probe: a killed training keeps the measurements that wait for its end") {
  const Files files;
  const std::string slow = kAllProbes + " --workers 1 --set 'checkpoint={\"steps\": 1, \"seconds\": 1000}'";
  REQUIRE(files.run("whole", kAllProbes).code == 0);
  for (int kills = 0; kills < 5; ++kills) {
    const Program program(files.folder, "run " + files.descriptor + slow + " --out " + (files.folder / "r").string());
    std::this_thread::sleep_for(std::chrono::milliseconds(120 + 60 * kills));
    program.signal_all(SIGKILL);
    program.wait();
  }
  REQUIRE(files.run("r", slow).code == 0);
  const ResultStore whole(files.folder / "whole"), killed(files.folder / "r");
  for (const std::string& id : whole.trial_ids()) {
    const auto read = [&](const ResultStore& store) {
      const TrialFolder trial = store.trial(id);
      return text_of(trial.metrics(trial.load_result()->attempt));
    };
    CHECK(read(killed) == read(whole));
  }
}

TEST_CASE("probe: a training that diverges keeps a checkpoint of shortly before") {
  const Files files;
  const std::string diverges =
      "--set train.optimizer.name=sgd --set train.optimizer.lr=1e3 --set train.clip_norm=0 --set "
      "train.schedule.name=constant --set 'sweep={\"model.placement\": [\"none\"]}' --set 'probes={\"signal\": "
      "{\"every\": 1, \"last\": 2}}' --set 'checkpoint={\"seconds\": 1000, \"keep\": \"none\"";
  REQUIRE(files.run("gone", diverges + "}'").code == 0);
  const TrialFolder gone = files.trials("gone").front();
  const std::int64_t end = gone.load_result()->diverged_step.value_or(-1);
  REQUIRE(end > 1);
  CHECK(!fs::exists(gone.checkpoint(1)));
  CHECK(steps_of(gone, "afsm.") == std::vector<std::int64_t>{end - 1, end});
  REQUIRE(files.run("kept", diverges + ", \"keep_before_divergence\": 1}'").code == 0);
  CHECK(fs::exists(files.trials("kept").front().checkpoint(1)));
}

TEST_CASE("figures: the program draws what it can, names what is missing and ends with 2") {
  const Files files;
  REQUIRE(files.run("r", kAllProbes).code == 0);
  const std::string out = (files.folder / "figures").string();
  const auto figures = [&](const std::string& more) {
    return run_program(files.folder, "report " + files.descriptor + kAllProbes + " --out " +
                                         (files.folder / "r").string() + " --figures " + out + " " + more);
  };
  const Finished all = figures("");
  CHECK_MESSAGE(all.code == 0, all.err);
  for (const char* name :
       {"xspp", "gradients", "embedding", "stem_scale", "mapping", "mapping-curvature", "attention", "activations",
        "activations-histogram", "updates", "strip", "curves-eval-loss", "without_block"})
    for (const char* suffix : {".svg", ".csv", ".md"}) CHECK(fs::exists(out + "/" + name + suffix));
  const Finished missing =
      run_program(files.folder, "report " + files.descriptor + " --out " + (probed_runs().folder / "probed").string() +
                                    " --figures " + out);
  CHECK(missing.code == 2);
  CHECK_MESSAGE(missing.err.find("updates: no trial has been measured by the probe \"updates\" (norm of each layer's "
                                 "update over that of its weights); set \"probes\": {\"updates\": 100} and run "
                                 "again") != std::string::npos,
                missing.err);
  CHECK(figures("--only xspp,nothing").err.find("--only: unknown figure \"nothing\"; one of") != std::string::npos);
  CHECK(figures("--only lr_sensitivity").code == 2);
  CHECK(figures("--only mapping --sites blocks.0.attn.pre").code == 0);
  const Finished unknown = figures("--only mapping --sites blocks.0.atn.pre");
  CHECK(unknown.code == 2);
  CHECK(unknown.err.find("--sites: unknown site \"blocks.0.atn.pre\"; did you mean") != std::string::npos);
  const Finished none = run_program(files.folder, "report " + files.descriptor + " --out none --figures " + out);
  CHECK(none.code == 2);
  CHECK_MESSAGE(
      none.err.find("xspp, gradients, embedding, stem_scale, mapping, attention, activations, updates, curves, "
                    "without_block: no trial has written metrics") != std::string::npos,
      none.err);
}

TEST_CASE("eval: a block is left out") {
  const Files files;
  REQUIRE(files.run("r", kAllProbes).code == 0);
  for (const TrialFolder& trial : files.trials("r")) {
    const std::string id = trial.path().filename().string();
    const auto eval = [&](const std::string& more) {
      return run_program(files.folder, "eval " + id + " --out " + (files.folder / "r").string() + " " + more);
    };
    const Finished one = eval("--without-block 1");
    REQUIRE_MESSAGE(one.code == 0, one.err);
    const MetricsLine line = [&] {
      for (const MetricsLine& l : read_metrics(trial.metrics(1)))
        if (l.values.contains("without_block.loss/1")) return l;
      return MetricsLine();
    }();
    CHECK_MESSAGE(one.out.find(fmt::format("loss {:.6g}", line.values.at("without_block.loss/1"))) != std::string::npos,
                  one.out);
    CHECK(eval("--without-block 2").err.find("2 is not a block of this network, which has blocks 0 to 1") !=
          std::string::npos);
  }
}
