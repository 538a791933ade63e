#include "experiments/lab/sweep/dispatcher.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/group.h"
#include "cuda/backend.h"
#include "experiments/lab/sweep/worker.h"
#include "tests/lab/base/child_process.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/lab/pictures/fake_results.h"
#include "tests/nccl/on_gpus.h"
#include "tests/system_calls.h"

using namespace normlab;

namespace normlab::cuda_emulated {
extern std::string (*emulated_formula_compiler)();
}

static Experiment two_trials(const TemporaryFolder& folder) {
  std::ofstream(folder / "two.json") << R"({
    "dataset": {"name": "shapes", "train_images": 40, "eval_images": 20},
    "model": {"patch_size": 16, "embed_dim": 8, "depth": 1, "num_heads": 2},
    "train": {"epochs": 1, "batch_size": 20},
    "sweep": {"model.placement": ["pre_pre", "post_post"]}, "seeds": 1})";
  return load_experiment((folder / "two.json").string());
}

TEST_CASE("dispatcher: a group of forked ranks trains all trials, as for GPUs") {
  const TemporaryFolder folder;
  const int code = wait_for_child(start_child([&] {
    ::alarm(60);
    const Experiment experiment = two_trials(folder);
    RunSummary summary;
    Team{.forked = 3}.run([&](Group& group) {
      RunOptions options;
      options.out = folder / "out";
      options.threads = options.workers = 1;
      options.json_progress = (folder / "progress").string();
      options.team.group = &group;
      if (!group.root()) return serve_trials(options, experiment);
      summary = run_experiment(experiment, options);
      end_serving(group);
    });
    return summary.finished == 2 && summary.begun == 2 && summary.failed == 0 ? 0 : 1;
  }));
  CHECK(code == 0);
}

/// An emulated GPU, which like a real one is of no use to processes that are forked after its use.
static std::unique_ptr<Backend> emulated_gpu(int, bool) {
  static pid_t user = 0;
  if (user != 0 && user != ::getpid()) throw EnvironmentError("a forked process uses the GPU of its parent");
  user = ::getpid();
  return cuda_emulated::make_backend(0);
}

TEST_CASE("dispatcher: a group on GPUs goes on with trials that start from those before") {
  const Fresh fresh;
  const TemporaryFolder folder;
  std::ofstream(folder / "first.json") << R"({
    "dataset": {"name": "shapes", "train_images": 20, "eval_images": 10, "allow_absent_classes": true},
    "model": {"patch_size": 16, "embed_dim": 8, "depth": 1, "num_heads": 2},
    "train": {"epochs": 1, "batch_size": 10}, "seeds": 1})";
  std::ofstream(folder / "second.json") << R"({"extends": "first.json", "dataset": {"shapes_seed": 9},
    "start": {"from": {"descriptor": "first.json"}}})";
  std::fflush(nullptr);  // what the children would print, too
  const int code = wait_for_child(start_child([&] {
    ::alarm(60);
    cuda_backend_maker = emulated_gpu;
    const Experiment experiment = load_experiment((folder / "second.json").string());
    RunSummary summary;
    Team{.forked = 2}.run([&](Group& group) {
      RunOptions options;
      options.out = folder / "out";
      options.threads = options.workers = 1;
      options.json_progress = (folder / "progress").string();
      options.device = DeviceKind::cuda;
      options.gpu_shards = 2;
      options.team.group = &group;
      group.agree([&] { require_device(options.device, {}, {}, options.gpu); });
      if (!group.root()) return serve_trials(options, experiment);
      summary = run_experiment(experiment, options);
      end_serving(group);
    });
    return summary.finished == 2 && fake().problem() == std::string() ? 0 : 1;
  }));
  CHECK(code == 0);
}

TEST_CASE("dispatcher: a missing compiler of formulas is found before the first trial begins, by what is left to do") {
  const TemporaryFolder folder;
  std::ofstream(folder / "acts.json") << R"({
    "dataset": {"name": "shapes", "train_images": 20, "eval_images": 10},
    "model": {"patch_size": 16, "embed_dim": 8, "depth": 1, "num_heads": 2},
    "train": {"epochs": 1, "batch_size": 10}, "sweep": {"model.activation": ["gelu", "relu"]}, "seeds": 1})";
  const Experiment experiment = load_experiment((folder / "acts.json").string());
  std::fflush(nullptr);  // what the child would print, too
  const int code = wait_for_child(start_child([&] {
    ::alarm(60);
    cuda_backend_maker = [](int, bool) { return cuda_emulated::make_backend(0); };
    cuda_emulated::emulated_formula_compiler = []() -> std::string { throw EnvironmentError("no NVRTC here"); };
    RunOptions options;
    options.out = folder / "out";
    options.threads = options.workers = 1;
    options.json_progress = (folder / "progress").string();
    options.device = DeviceKind::cuda;
    const auto refusal = [&] {
      try {
        run_experiment(experiment, options);
        return std::string();
      } catch (const Error& error) {
        return error.code() == ExitCode::environment ? std::string(error.what()) : "another exit code";
      }
    };
    const ResultStore store(options.out);
    if (refusal() != "no NVRTC here" || store.trial(experiment.trials[0].id).load_result()) return 1;
    if (!device_needs(experiment, options).formulas) return 2;
    fake_done(store, experiment.trials[1], 0.5);
    if (device_needs(experiment, options).formulas) return 3;
    return refusal() == "" && store.trial(experiment.trials[0].id).load_result() ? 0 : 4;
  }));
  CHECK(code == 0);
}

TEST_CASE("dispatcher: a run with nothing left to train logs its begin and its end") {
  const TemporaryFolder folder;
  const Experiment experiment = two_trials(folder);
  for (const Trial& trial : experiment.trials) fake_done(ResultStore(folder / "out"), trial, 0.5);
  RunOptions options;
  options.out = folder / "out";
  options.json_progress = (folder / "progress").string();
  CHECK(run_experiment(experiment, options).done_before == 2);
  std::vector<nlohmann::json> lines;
  std::ifstream file(folder / "progress");
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["event"] == "begin");
  CHECK(lines[0]["experiment"] == "two");
  CHECK(lines[0]["workers"] == 0);
  CHECK(lines[1]["event"] == "end");
  for (const nlohmann::json& line : lines) {
    CHECK(line["trials"] == 2);
    CHECK(line["finished"] == 2);
  }
}

TEST_CASE("dispatcher: a trial that cannot be sent to a worker goes to another") {
  const TemporaryFolder folder;
  const int code = wait_for_child(start_child([&] {
    ::alarm(60);  // on failure, both sides wait for each other
    static pid_t parent;
    parent = ::getpid();
    answer = [](Call call) {
      static int sent = 0;
      return call == Call::send && ::getpid() == parent && sent++ == 0 ? ENOBUFS : 0;
    };
    RunOptions options;
    options.out = folder / "out";
    options.workers = 1;
    options.json_progress = (folder / "progress").string();
    const RunSummary summary = run_experiment(two_trials(folder), options);
    return summary.finished == 2 && summary.begun == 2 && summary.failed == 0 ? 0 : 1;
  }));
  CHECK(code == 0);
}
