// Faults of a GPU that workers share: trials that meet one are tried alone, and only the one at fault fails.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <nlohmann/json.hpp>

#include "core/backend.h"
#include "core/device_fault.h"
#include "core/trial_stack.h"
#include "cuda/backend.h"
#include "experiments/lab/sweep/signals.h"
#include "experiments/lab/sweep/worker.h"
#include "tests/cuda_emulation/emulated_devices.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/lab/base/child_process.h"
#include "tests/lab/cli/small_sweep.h"

using namespace normlab;

namespace {

/// A GPU that several processes use, in memory that all have.
struct SharedGpuState {
  bool once = false;       // it faults
  bool not_ready = false;  // for the first worker
  bool service = false;    // as NVIDIA's: a fault stops all clients, and it takes no new one before these are gone
  int signal = 0;          // instead of a fault, once: to the worker, or SIGTERM to the run
  int good = 1 << 30;  // kernels of batch norm, which the trial at fault has, before one faults; later ones fault too
  std::atomic<int> kernels = 0, faults = 0, clients = 0;
  std::atomic<bool> shared = false;  // a worker was told so
  struct Client {
    std::atomic<pid_t> pid;
    std::atomic<int> faults;  // before it
  };
  std::array<Client, 64> client{};
};
SharedGpuState* gpu = nullptr;
int faults_before = 0;

cudaError_t fault_of_kernel(const char* op) {
  if (op == std::string_view("batch_norm") && ++gpu->kernels > gpu->good && !(gpu->once && gpu->faults > 0)) {
    ++gpu->faults;
    if (gpu->signal != 0) {
      gpu->good = 1 << 30;
      ::kill(gpu->signal == SIGTERM ? ::getppid() : ::getpid(), gpu->signal);
      return cudaSuccess;
    }
    return cudaErrorIllegalAddress;
  }
  return gpu->service && gpu->faults != faults_before ? cudaErrorIllegalAddress : cudaSuccess;
}

void begin_use(bool shared) {
  faults_before = gpu->faults;
  for (int i = 0; gpu->service && i < gpu->clients; ++i)
    if (const pid_t pid = gpu->client[std::size_t(i)].pid;
        pid != ::getpid() && gpu->client[std::size_t(i)].faults != faults_before && ::kill(pid, 0) == 0)
      throw EnvironmentError("the service has a client from before the fault");
  SharedGpuState::Client& client = gpu->client.at(std::size_t(gpu->clients++));
  client.pid = ::getpid();
  client.faults = faults_before;
  if (shared && !gpu->shared.exchange(true) && gpu->not_ready) throw DeviceFault("the service is not ready");
  emulation::set_fault(fault_of_kernel);
}
std::unique_ptr<Backend> open_gpu(int, bool shared) {
  begin_use(shared);
  return cuda_emulated::make_backend(0, shared);
}
std::unique_ptr<TrialStack> open_stack(int places, int, bool shared) {
  begin_use(shared);
  return cuda_emulated::make_stack(places, 0, shared);
}

/// Four trials, the last of which has batch norm.
struct FaultyGpu {
  TemporaryFolder folder;
  FaultyGpu() {
    void* const memory =
        ::mmap(nullptr, sizeof(SharedGpuState), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    gpu = new (memory) SharedGpuState;
    std::ofstream(folder / "four.json") << R"({
      "dataset": {"name": "shapes", "train_images": 20, "eval_images": 10, "allow_absent_classes": true},
      "model": {"patch_size": 16, "embed_dim": 8, "depth": 1, "num_heads": 2},
      "train": {"epochs": 2, "batch_size": 5},
      "sweep": {"model.placement": ["pre_pre", "bn_ffnbn", "post_post", "dpn"]}, "seeds": 1,
      "checkpoint": {"steps": 1}})";
  }
  ~FaultyGpu() { ::munmap(gpu, sizeof *gpu); }

  Experiment four() const { return load_experiment((folder / "four.json").string()); }
  std::string with_batch_norm() const {
    for (const Trial& trial : four().trials)
      if (trial.label.find("bn_ffnbn") != std::string::npos) return trial.id;
    return "";
  }
  /// "done 3 failed 1 begun 4".
  std::string run(const std::string& out, int workers, int stack = 1) const {
    std::fflush(nullptr);
    const int code = wait_for_child(start_child([&] {
      ::alarm(120);
      cuda_backend_maker = open_gpu;
      cuda_stack_maker = open_stack;
      catch_stop_signals();
      RunOptions options;
      options.out = folder / out;
      options.threads = 1;
      options.workers = workers;
      options.stack = stack;
      options.device = DeviceKind::cuda;
      options.json_progress = (folder / (out + ".progress")).string();
      const RunSummary summary = run_experiment(four(), options);
      std::ofstream(folder / (out + ".summary"))
          << "done " << summary.finished << " failed " << summary.failed << " begun " << summary.begun;
      return 0;
    }));
    CHECK(code == 0);
    return text_of(folder / (out + ".summary"));
  }
  /// The results of a run without faults.
  const std::map<std::string, std::string>& undisturbed() const {
    static const auto results = [this] {
      CHECK(run("whole", 1) == "done 4 failed 0 begun 4");
      return whole_results(folder / "whole");
    }();
    return results;
  }
  /// But for the trial with batch norm.
  std::map<std::string, std::string> others() const {
    auto results = undisturbed();
    CHECK(results.erase(with_batch_norm()) == 1);
    return results;
  }
  /// Messages of a run with these words.
  int said(const std::string& out, const std::string& words) const {
    int count = 0;
    std::ifstream file(folder / (out + ".progress"));
    for (std::string line; std::getline(file, line);)
      if (const auto event = nlohmann::json::parse(line); event["event"] == "message")
        count += event.dump().find(words) != std::string::npos;
    return count;
  }
  void check_failed(const std::string& out) const {
    const auto result = ResultStore(folder / out).trial(with_batch_norm()).load_result();
    REQUIRE(result);
    CHECK(result->status == TrialEnd::failed);
    CHECK(result->message.value_or("").find("an illegal memory access was encountered") != std::string::npos);
    CHECK(leftovers(folder / out).empty());
  }
};

}  // namespace

TEST_CASE_FIXTURE(FaultyGpu, "gpu fault: of workers of one service only the trial at fault fails") {
  const auto whole = others();
  gpu->service = true;
  gpu->good = gpu->kernels + 20;  // some steps later
  CHECK(run("r", 3) == "done 3 failed 1 begun 4");
  CHECK(gpu->faults == 2);  // beside others, and alone
  CHECK(gpu->shared);
  CHECK(whole_results(folder / "r") == whole);
  CHECK(said("r", "tried alone") == 1);
  check_failed("r");
}

TEST_CASE_FIXTURE(FaultyGpu, "gpu fault: workers that take turns go on from their checkpoints") {
  const auto whole = others();
  gpu->good = gpu->kernels + 20;  // some steps later
  CHECK(run("r", 3) == "done 3 failed 1 begun 4");
  CHECK(gpu->faults == 2);
  CHECK(whole_results(folder / "r") == whole);
  check_failed("r");
}

TEST_CASE_FIXTURE(FaultyGpu, "gpu fault: with one worker the trial fails at once") {
  const auto whole = others();
  gpu->good = gpu->kernels + 20;  // some steps later
  CHECK(run("r", 1) == "done 3 failed 1 begun 4");
  CHECK(gpu->faults == 1);
  CHECK(!gpu->shared);
  CHECK(whole_results(folder / "r") == whole);
  CHECK(said("r", "tried alone") == 0);
  check_failed("r");
}

TEST_CASE_FIXTURE(FaultyGpu, "gpu fault: one that does not come again harms no trial") {
  const auto whole = undisturbed();
  gpu->service = gpu->once = true;
  gpu->good = gpu->kernels + 20;  // some steps later
  CHECK(run("r", 2) == "done 4 failed 0 begun 4");
  CHECK(gpu->faults == 1);
  CHECK(whole_results(folder / "r") == whole);
}

TEST_CASE_FIXTURE(FaultyGpu, "gpu fault: a worker that opens the GPU in the middle of another's ends no run") {
  gpu->not_ready = true;
  CHECK(run("r", 2) == "done 4 failed 0 begun 4");
  CHECK(said("r", "the service is not ready") == 1);
}

TEST_CASE_FIXTURE(FaultyGpu, "gpu stack: trials that are trained together have the results that they have alone") {
  const auto whole = undisturbed();
  for (const auto& [workers, stack] : {std::pair(1, 4), {1, 2}, {2, 3}}) {
    const std::string out = std::to_string(workers) + "x" + std::to_string(stack);
    CHECK(run(out, workers, stack) == "done 4 failed 0 begun 4");
    CHECK(whole_results(folder / out) == whole);
    CHECK(leftovers(folder / out).empty());
    for (const Trial& trial : four().trials)
      CHECK(ResultStore(folder / out).trial(trial.id).load_result()->provenance.at("gpu_stack") ==
            (workers == 2 ? "2" : std::to_string(stack)));
  }
}

TEST_CASE_FIXTURE(FaultyGpu, "gpu stack: of trials that are trained together only the one at fault fails") {
  const auto whole = others();
  gpu->good = gpu->kernels + 20;  // some steps later
  CHECK(run("r", 1, 3) == "done 3 failed 1 begun 4");
  CHECK(gpu->faults == 2);  // beside others, and alone
  CHECK(whole_results(folder / "r") == whole);
  check_failed("r");
}

TEST_CASE_FIXTURE(FaultyGpu, "gpu stack: when their process is killed, each goes on from its checkpoint") {
  const auto whole = undisturbed();
  gpu->signal = SIGKILL;
  gpu->good = gpu->kernels + 20;
  CHECK(run("r", 1, 3) == "done 4 failed 0 begun 4");
  CHECK(gpu->faults == 1);
  CHECK(said("r", "its process was ended by signal 9") == 1);
  CHECK(whole_results(folder / "r") == whole);
  CHECK(leftovers(folder / "r").empty());
}

TEST_CASE_FIXTURE(FaultyGpu, "gpu stack: a run that is stopped goes on, together or alone") {
  const auto whole = undisturbed();
  gpu->signal = SIGTERM;
  for (const int stack : {1, 4}) {
    const std::string out = "after" + std::to_string(stack);
    gpu->good = gpu->kernels + 20;
    CHECK(run(out, 1, 4) != "done 4 failed 0 begun 4");
    CHECK(run(out, 1, stack).starts_with("done"));
    CHECK(whole_results(folder / out) == whole);
    CHECK(leftovers(folder / out).empty());
  }
}

TEST_CASE_FIXTURE(FaultyGpu, "gpu stack: one that is too large for the GPU's memory names a smaller one") {
  std::fflush(nullptr);
  const int code = wait_for_child(start_child([&] {
    ::alarm(120);
    cuda_stack_maker = open_stack;
    RunOptions options;
    options.out = folder / "r";
    options.threads = options.workers = 1;
    options.stack = 4;
    options.device = DeviceKind::cuda;
    options.json_progress = (folder / "r.progress").string();
    cuda_backend_maker = [](int, bool) { return cuda_emulated::make_backend(0, false); };
    emulation::set_memory_limit(std::size_t{266} << 20);  // of which the workspaces of cuBLAS take 64 each
    try {
      run_experiment(four(), options);
    } catch (const EnvironmentError& error) {
      std::ofstream(folder / "words") << error.what();
    }
    return 0;
  }));
  CHECK(code == 0);
  const std::string words = text_of(folder / "words");
  CHECK(words.starts_with("out of GPU memory: "));
  CHECK(words.find(". 4 networks are trained together, and each takes at least ") != std::string::npos);
  CHECK(words.ends_with(" MB; use --stack 3 or less"));
}
