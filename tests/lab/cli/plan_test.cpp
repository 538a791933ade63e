// `plan` of trials that have not begun.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include <fmt/format.h>

#include "core/cpu/instruction_set.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/sweep/runner.h"
#include "experiments/lab/train/step_time.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;

namespace {

constexpr const char* kWide = "export COLUMNS=200; ";

bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

/// The same where lines are wrapped.
bool tells(std::string text, const std::string& what) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return says(text, what);
}

/// `plan` of a small network on the folder's images, in train/ and val/.
Finished plan_of_files(const TemporaryFolder& folder, const std::string& options = "") {
  return run_program(
      folder,
      "plan experiments/recipes/cifar_small.json --set dataset.name=mine --set dataset.path=mine --set "
      "dataset.layout=image_folder --set dataset.eval=val --set model.image_size=32 --set train.batch_size=5 "
      "--set model.channels=3 --set 'dataset.mean=[0.5,0.5,0.5]' --set 'dataset.std=[0.2,0.2,0.2]' --data '" +
          folder.path().string() + "' --out none" + options,
      kWide);
}

constexpr const char* kCrop =
    " --set train.augment.crop=inception_torchvision --set train.augment.crop_padding=0 --set "
    "train.eval_transform.crop=center";
constexpr const char* kNotIncluded = "Decoding of photographs is not included.";

void write_images(const TemporaryFolder& folder, const std::function<std::string(int)>& image) {
  for (const char* split : {"train", "val"})
    for (int i = 0; i < 20; ++i)
      test::write_file(folder / "mine" / split / (i % 2 == 0 ? "a" : "b") / (std::to_string(i) + ".png"), image(i));
}

}  // namespace

TEST_CASE("plan: a paper's descriptor is shown with its source and cost") {
  const TemporaryFolder folder;
  const std::string out = " --out " + (folder / "r").string();
  const Finished plan = run_program(folder, "plan experiments/papers/dual_patchnorm/b16.json" + out, kWide);
  REQUIRE_MESSAGE(plan.code == 0, plan.err);
  CHECK(says(plan.out, "\nSource: Dual PatchNorm, appendix C"));
  CHECK(says(plan.out, "\nDiffers from the source: train.drop_last is false there and true here: "));
  CHECK(says(plan.out, "  92897 steps of 4096 images, 309 per epoch of 1268355 images; warm-up 10000 steps\n"));
  CHECK(says(plan.out, "\n  row 1: 87157480 parameters, 17564418048 macs per image"));
  CHECK(says(plan.out, "EFLOP in matrix products\n"));
  CHECK(says(plan.out, "for weights, gradients and moments"));
  CHECK(says(plan.out, "from measured steps of"));
  CHECK(says(plan.out, "0 of 6 done"));
}

TEST_CASE("plan: --gflops sets the rate of the products") {
  const TemporaryFolder folder;
  const std::string out = " --out " + (folder / "r").string();
  const Finished told =
      run_program(folder, "plan experiments/papers/dual_patchnorm/b16.json --gflops 64.5" + out, kWide);
  CHECK(says(told.out, "at 64.5"));
}

TEST_CASE("explain: a paper's descriptor is shown with its source") {
  const TemporaryFolder folder;
  const Finished explain = run_program(folder, "explain experiments/papers/dual_patchnorm/b16.json");
  CHECK(says(explain.out, "Source: Dual PatchNorm, appendix C"));
}

TEST_CASE("plan: steps and time are unknown without the data") {
  const TemporaryFolder folder;
  const std::string out = " --out " + (folder / "r").string();
  const Finished unknown = run_program(
      folder,
      "plan experiments/recipes/cifar_small.json --set dataset.name=mine --set dataset.path=mine --set "
      "dataset.layout=image_folder --set model.image_size=32 --set model.num_classes=10 --set model.channels=3" +
          out);
  REQUIRE_MESSAGE(unknown.code == 0, unknown.err);
  CHECK(says(unknown.out, "steps and time: unknown until the data of \"mine\" is there"));
  CHECK_FALSE(says(unknown.out, "All trials about"));
}

TEST_CASE("plan: each row has its own time, also in bf16") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "depths.json";
  std::ofstream(file) << R"({"dataset": "gratings", "model": {"kind": "vit", "patch_size": 4, "embed_dim": 192},
    "train": {"precision": "bf16", "epochs": 2000}, "sweep": {"model.depth": [8, 1, 4]}, "seeds": 1})";
  const std::string plan =
      run_program(folder, "plan " + file.string() + " --gflops 1 --out " + (folder / "r").string(), kWide).out;
  for (const char* row : {"1 8, 75 days", "2 1, 9.5 days", "3 4, 38 days"}) CHECK_MESSAGE(says(plan, row), plan);
}

TEST_CASE("plan: --gflops 0 is refused") {
  const TemporaryFolder folder;
  const std::string out = " --out " + (folder / "r").string();
  const Finished wrong = run_program(folder, "plan experiments/recipes/cifar_small.json --gflops 0" + out);
  CHECK(wrong.code == 2);
}

TEST_CASE("plan: what rows have in common is printed once") {
  const TemporaryFolder folder;
  const std::string out = " --out " + (folder / "r").string(), file = "experiments/placements_gratings.json";
  const Finished plan = run_program(folder, "plan " + file + out, kWide);
  REQUIRE_MESSAGE(plan.code == 0, plan.err);
  CHECK(std::count(plan.out.begin(), plan.out.end(), '\n') < 40);
  for (const Trial& trial : load_experiment(file).trials)
    CHECK_MESSAGE(says(plan.out, " " + trial.id.substr(0, 8)), trial.label);
  CHECK(says(plan.out, "\n  rows 1-2,4-5: 90826 parameters, 6636000 macs per image, with norms 6657504\n"));
  CHECK(says(plan.out, "\n  row 12: 91018 parameters, "));
  CHECK(says(plan.out, "\n  300 steps of 50 images, 50 per epoch of 2500 images; warm-up 50 steps\n"));
  CHECK(says(plan.out, "\nRows, the time of a trial on one core, and their trials, seeds 0-4 missing:\n  1 pre_pre, "));
}

TEST_CASE("plan: no line is wider than the terminal") {
  const TemporaryFolder folder;
  for (const std::size_t columns : {40u, 80u}) {
    const Finished plan =
        run_program(folder, "plan experiments/placements_gratings.json --out " + (folder / "r").string(),
                    "export COLUMNS=" + std::to_string(columns) + "; ");
    std::istringstream lines(plan.out);
    for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(display_width(line) <= columns, line);
  }
}

TEST_CASE("plan: the images of a folder are counted with broken ones") {
  const TemporaryFolder folder;
  write_images(folder, [](int) { return "no image"; });
  const Finished plan = plan_of_files(folder);
  REQUIRE_MESSAGE(plan.code == 0, plan.err);
  CHECK(says(plan.out, "40 steps of 5 images, 4 per epoch of 20 images"));
  CHECK(says(plan.out, "All trials take about "));
  CHECK(tells(plan.out, kNotIncluded));
}

TEST_CASE("plan: photographs that are decoded in each step are timed") {
  const TemporaryFolder folder;
  write_images(folder, [](int i) { return test::make_jpeg(1000, 1500 + 8 * unsigned(i), unsigned(i)); });
  const Finished plan = plan_of_files(
      folder, std::string(kCrop) + " --set model.patch_size=16 --set model.embed_dim=16 --set model.depth=1");
  REQUIRE_MESSAGE(plan.code == 0, plan.err);
  CHECK_MESSAGE(says(plan.out, "\n  images: "), plan.out);
  CHECK_MESSAGE(says(plan.out, " ms of a core for each (decode, crop, flip, normalise), "), plan.out);
  CHECK_MESSAGE(says(plan.out, "% of a step; bound by input: each of --threads needs "), plan.out);
  CHECK(!tells(plan.out, kNotIncluded));
  const Finished told = plan_of_files(folder, std::string(kCrop) + " --gflops 100");
  CHECK(tells(told.out, kNotIncluded));
  CHECK(!says(told.out, "\n  images: "));
}

TEST_CASE("plan: images that are decoded once are not timed") {
  const TemporaryFolder folder;
  write_images(folder, [](int i) { return test::make_jpeg(1000, 1500, unsigned(i)); });
  const Finished plan = plan_of_files(folder, kCrop);
  REQUIRE_MESSAGE(plan.code == 0, plan.err);
  CHECK(!says(plan.out, "(decode"));
  CHECK(!tells(plan.out, kNotIncluded));
}

TEST_CASE("plan: photographs that were not listed may take more time") {
  const TemporaryFolder folder;
  const std::string out = " --out " + (folder / "r").string();
  const auto plan = [&](const std::string& file) { return run_program(folder, "plan " + file + out, kWide).out; };
  CHECK(tells(plan("experiments/papers/dual_patchnorm/b16.json"), kNotIncluded));
  CHECK(!tells(plan("experiments/placements_gratings.json"), kNotIncluded));
}

TEST_CASE("plan: the making of images is shown where it is more than a tenth of a step") {
  const TemporaryFolder folder;
  const std::string command = "plan experiments/recipes/cifar_small.json --out " + (folder / "r").string();
  // The time that an idle machine would keep.
  setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  const TrialConfig config = load_experiment("experiments/recipes/cifar_small.json").trials[0].config;
  measured_step_times({&config}, available_cores(), [](const LoadMeter&) { return MachineLoad{}; });
  unsetenv("XDG_CACHE_HOME");
  const auto stored = folder / "cache" / "normlab" / "step_times.json";
  const auto plan_with = [&](double making) {
    auto times = nlohmann::json::parse(text_of(stored));
    times["machine"] = fmt::format("{}, {} cores, {}", cpu_model(), available_cores(),
                                   sha256_hex(read_file(program_path())).substr(0, 16));
    for (auto& [key, time] : times.items())
      if (time.is_array()) time = {0.008, 0.002, making};
    std::ofstream(stored) << times;
    return run_program(folder, command, kWide).out;
  };
  const std::string much = plan_with(0.002);
  CHECK_MESSAGE(says(much,
                     "\n  images: 2 ms of a core for each (crop, flip, normalise), 25% of a step; each of "
                     "--data-threads on a free core feeds 3 of --threads\n"),
                much);
  CHECK(tells(much, "estimated from measured steps of each network. "));
  CHECK(says(plan_with(0.006), "; bound by input: each of --threads needs 3 of --data-threads on free cores\n"));
  CHECK(!says(plan_with(0.0007), "images: "));
}

TEST_CASE("plan: where bf16 is slower than fp32, it says so") {
  if (!cpu_has("avx512bf16") && !cpu_has("amx-bf16")) return;
  const TemporaryFolder folder;
  const std::string command = "plan experiments/recipes/cifar_small.json --set train.precision=bf16 --out ";
  const auto stored = folder / "cache" / "normlab" / "step_times.json";
  setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  TrialConfig config = load_experiment("experiments/recipes/cifar_small.json").trials[0].config;
  std::set<std::string> of_fp32;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    config.train.precision = precision;
    measured_step_times({&config}, available_cores(), [](const LoadMeter&) { return MachineLoad{}; });
    if (precision == Precision::bf16) continue;
    const auto times = nlohmann::json::parse(text_of(stored));
    for (const auto& [key, time] : times.items()) of_fp32.insert(key);
  }
  unsetenv("XDG_CACHE_HOME");
  const auto plan_with = [&](double in_bf16) {
    auto times = nlohmann::json::parse(text_of(stored));
    times["machine"] = fmt::format("{}, {} cores, {}", cpu_model(), available_cores(),
                                   sha256_hex(read_file(program_path())).substr(0, 16));
    for (auto& [key, time] : times.items())
      if (time.is_array()) time = {of_fp32.contains(key) ? 0.008 : in_bf16, 0.002, 0.0001};
    std::ofstream(stored) << times;
    return run_program(folder, command + (folder / "r").string(), kWide).out;
  };
  const std::string slow = plan_with(0.012);
  CHECK_MESSAGE(tells(slow,
                      "On this CPU a step in \"bf16\" takes 1.5 times as long as in \"fp32\"; set "
                      "train.precision to \"fp32\" for speed."),
                slow);
  CHECK(!tells(plan_with(0.0082), "as long as in"));
}

TEST_CASE("plan: networks that there was no time to measure are not called measured") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "many.json";
  std::string depths;
  for (int depth = 1; depth <= 20 * available_cores(); ++depth) depths += concat(depth > 1 ? ", " : "", depth);
  std::ofstream(file) << R"({"dataset": "gratings", "model": {"kind": "vit", "patch_size": 4, "embed_dim": 384},
    "train": {"epochs": 1}, "seeds": 1, "sweep": {"model.depth": [)"
                      << depths << "]}}";
  const std::string plan =
      run_program(folder, "plan " + file.string() + " --out " + (folder / "r").string(), kWide).out;
  CHECK_MESSAGE(tells(plan, "estimated from measured steps of some of its networks"), plan);
}

TEST_CASE("plan: times measured while another process works are said to be so, and are not kept") {
  const TemporaryFolder folder;
  const pid_t other = fork();
  if (other == 0)
    while (true) continue;
  const Finished plan =
      run_program(folder, "plan experiments/recipes/cifar_small.json --out " + (folder / "r").string(), kWide);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  CHECK_MESSAGE(tells(plan.out, "estimated from measured steps of each network while other processes used "), plan.out);
  CHECK_MESSAGE(tells(plan.out, "such times are not kept for the next plan."), plan.out);
  CHECK(!std::filesystem::exists(folder / "cache" / "normlab" / "step_times.json"));
}
