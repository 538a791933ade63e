// Files of algorithms for a GPU's products, with the emulated GPU: made by `bench gemm --tune`, used by trainings.
#include <doctest/doctest.h>

#include <fstream>

#include "core/error.h"
#include "cuda/backend.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/train/device.h"
#include "experiments/lab/train/verify.h"
#include "tests/cuda_emulation/lt_control.h"
#include "tests/devices.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/small_sweep.h"
#include "tests/lab/train/small_trial.h"

namespace normlab {

namespace cuda_emulated {
std::unique_ptr<Backend> make_backend(int number, bool shared);
}

namespace {

/// As the program finds a GPU.
struct EmulatedGpu : ControlOfTest {
  EmulatedGpu() { cuda_backend_maker = cuda_emulated::make_backend; }
  ~EmulatedGpu() { cuda_backend_maker = former_; }

 private:
  std::unique_ptr<Backend> (*former_)(int, bool) = cuda_backend_maker;
};

Experiment small_experiment(const TemporaryFolder& folder) {
  std::ofstream(folder / "small.json") << R"({
    "dataset": {"name": "shapes", "train_images": 20, "eval_images": 10, "allow_absent_classes": true},
    "model": {"patch_size": 16, "embed_dim": 8, "depth": 1, "num_heads": 2},
    "train": {"epochs": 1, "batch_size": 10}, "sweep": {"model.placement": ["pre_pre", "dpn"]}, "seeds": 2})";
  return load_experiment((folder / "small.json").string());
}

/// That the second of cuBLASLt's algorithms is the fastest.
Measured tuned(const Experiment& experiment) {
  emulation::lt_control().candidates = 3;
  emulation::lt_control().seconds = {{66, 100}, {67, 50}, {68, 90}};
  BenchOptions o;
  o.device = DeviceKind::cuda;
  o.tune = "file";
  o.experiment = &experiment;
  o.seconds = 0;
  Measured found = bench_gemm(o);
  emulation::lt_control().seconds = {};
  return found;
}

TrialOptions trained_on(const ComputeDevice& computer) {
  TrialOptions options;
  options.backend = &computer.backend();
  options.checkpoint.keep = KeepCheckpoint::last;
  return options;
}

}  // namespace

TEST_CASE("bench gemm --tune: a table has each product of a step of each row, and a sum over its calls") {
  const EmulatedGpu gpu;
  const TemporaryFolder folder;
  const Experiment experiment = small_experiment(folder);
  const Measured found = tuned(experiment);
  const Json& document = found.document;
  CHECK(document["descriptor"] == "small");
  CHECK(document["gain_share"].get<double>() == doctest::Approx(0.5).epsilon(0.01));
  std::int64_t calls = 0;
  for (const Json& row : document["products"]) {
    calls += row["calls"].get<std::int64_t>();
    CHECK(row["taken"] == 1);
    CHECK(row["of"] == 3);
    CHECK(row["first_us"].get<double>() == doctest::Approx(1e8).epsilon(0.01));
    CHECK(row["best_us"].get<double>() == doctest::Approx(5e7).epsilon(0.01));
  }
  // Of each row's network, not of each seed: qkv, proj, fc1, fc2 and head, and patches, with dx for the norm before them.
  CHECK(calls == 2 * 5 * 3 + 2 + 3);
  CHECK(document["first_ms"].get<double>() == doctest::Approx(1e5 * double(calls)).epsilon(0.01));
  CHECK(found.algorithms.starts_with("cuBLASLt 0.0.0\nGPU emulated\n"));
  CHECK(std::count(found.algorithms.begin(), found.algorithms.end(), '\n') == 2 + std::ssize(document["products"]));
}

TEST_CASE("bench gemm --tune: what cannot be tuned is refused") {
  const TemporaryFolder folder;
  const std::string experiment = in_folder(folder, "small.json");
  small_experiment(folder);
  const auto refusal = [&](const std::string& words) {
    const Finished refused = run_program(folder, "bench gemm " + words);
    CHECK_MESSAGE(refused.code == 2, words << ": " << refused.err);
    CHECK(refused.out.empty());
    return refused.err;
  };
  CHECK(has(refusal("--tune file"), "--tune: times algorithms of a GPU's library; add --device cuda"));
  CHECK(has(refusal(experiment), "a descriptor's products are measured with --tune FILE only"));
  CHECK(has(refusal(experiment + " --tune file --shape tiny"), "--shape: the descriptor describes the networks"));
  CHECK(has(refusal("--tune " + folder.path().string()), "is a folder; give another file to write"));
  CHECK(has(refusal(experiment + " --tune " + experiment), "small.json"));
}

TEST_CASE("--gpu-algorithms: each command refuses a file that it cannot use") {
  const TemporaryFolder folder;
  small_experiment(folder);
  const std::string experiment = in_folder(folder, "small.json"), out = in_folder(folder, "out");
  std::ofstream(folder / "file") << "cuBLASLt 0.0.0\nGPU emulated\n";
  for (const std::string& command :
       {"run " + experiment + " --out " + out, "eval --probe " + experiment, "verify abc --out " + out,
        std::string("bench step"), std::string("bench profile")}) {
    const Finished missing = run_program(folder, command + " --gpu-algorithms nothing"),
                   without_gpu = run_program(folder, command + " --gpu-algorithms " + in_folder(folder, "file"));
    CAPTURE(command);
    CHECK(missing.code == 2);
    CHECK_MESSAGE(has(missing.err, "--gpu-algorithms nothing: there is no such file"), missing.err);
    CHECK(without_gpu.code == 2);
    CHECK_MESSAGE(has(without_gpu.err, "--gpu-algorithms: are for products on a GPU; add --device cuda"),
                  without_gpu.err);
  }
  CHECK(ResultStore(out).trial_ids().empty());
}

TEST_CASE("--gpu-algorithms: a training uses the file, names it, and resumes and verifies with it alone") {
  const EmulatedGpu gpu;
  const TemporaryFolder folder;
  const SmallTrial trial(SmallTrial::settings());
  emulation::lt_control().algorithm = 66;
  const ComputeDevice plain(DeviceKind::cuda);
  // The trial's own algorithms, as a file of other ones.
  REQUIRE(trial.run(folder / "plain", trained_on(plain)) == TrialOutcome::done);
  const std::string text = [&] {
    emulation::lt_control().algorithm = 7;
    const ComputeDevice other(DeviceKind::cuda);
    REQUIRE(trial.run(folder / "other", trained_on(other)) == TrialOutcome::done);
    return other.backend().product_choices();
  }();
  std::ofstream(folder / "file") << text;
  emulation::lt_control().algorithm = 66;
  const ProductAlgorithms file = read_algorithms(in_folder(folder, "file"));
  CHECK(file.sha256 == sha256_hex(text));
  const ComputeDevice with_file(DeviceKind::cuda, file);
  TrialOptions options = trained_on(with_file);
  options.stop_at = 8;
  REQUIRE(trial.run(folder / "out", options) == TrialOutcome::stopped);
  options.stop_at = 0;

  CHECK_THROWS_WITH_AS(trial.run(folder / "out", trained_on(plain)), doctest::Contains(file.sha256.c_str()),
                       InputError);
  REQUIRE(trial.run(folder / "out", options) == TrialOutcome::done);
  const TrialResult result = *trial.folder(folder / "out").load_result();
  CHECK(*result.stated("gpu_algorithms") == file.sha256);
  CHECK(result.stated("bits")->ends_with(" | gpu_algorithms " + file.sha256));
  CHECK(result.stated("products")->find("algo 66") == std::string::npos);
  CHECK(trial.folder(folder / "plain").load_result()->stated("gpu_algorithms") == nullptr);

  VerifyOptions again;
  static_cast<TrialOptions&>(again) = options;
  again.from = 0;
  CHECK(!verify_trial(trial.config, trial.folder(folder / "out"), trial.data, again).difference);
  again.backend = &plain.backend();
  CHECK_THROWS_WITH_AS(verify_trial(trial.config, trial.folder(folder / "out"), trial.data, again),
                       doctest::Contains("was trained by another program"), InputError);
}

TEST_CASE("--gpu-algorithms: a file of another GPU is refused before the first step") {
  const EmulatedGpu gpu;
  const TemporaryFolder folder;
  const Experiment experiment = small_experiment(folder);
  std::string text = tuned(experiment).algorithms;
  text.replace(text.find("emulated"), 8, "of today");
  RunOptions options;
  options.out = folder / "out";
  options.threads = options.workers = 1;
  options.device = DeviceKind::cuda;
  options.algorithms = {"file", text, "hash"};
  CHECK_THROWS_WITH_AS(run_experiment(experiment, options),
                       doctest::Contains("file:2: recorded under \"GPU of today\""), Error);
  CHECK(ResultStore(options.out).trial_ids().empty());
}

}  // namespace normlab
