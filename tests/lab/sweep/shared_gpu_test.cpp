#include "experiments/lab/sweep/shared_gpu.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/lab/base/temporary_folder.h"

using namespace normlab;

namespace {

/// Takes the place of NVIDIA's program: records each call and ends with `code`.
class FakeControl {
 public:
  explicit FakeControl(int code) : path_(std::getenv("PATH")) {
    const std::string program = (folder_ / "nvidia-cuda-mps-control").string();
    std::ofstream(program) << "#!/bin/sh\necho \"$# $1 $([ $# = 0 ] && cat) $CUDA_MPS_PIPE_DIRECTORY\" >> "
                           << (folder_ / "calls").string() << "\necho $CUDA_VISIBLE_DEVICES > "
                           << (folder_ / "visible").string() << "\nexit " << code << "\n";
    chmod(program.c_str(), 0755);
    setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
  }
  ~FakeControl() { setenv("PATH", path_.c_str(), 1); }
  std::string calls() const { return text("calls"); }
  /// CUDA_VISIBLE_DEVICES in its last call, and a line end.
  std::string visible() const { return text("visible"); }

 private:
  std::string text(const char* file) const {
    std::ifstream in(folder_ / file);
    std::ostringstream all;
    all << in.rdbuf();
    return all.str();
  }
  TemporaryFolder folder_;
  std::string path_;
};

struct VisibleDevices {
  explicit VisibleDevices(const char* value) { setenv("CUDA_VISIBLE_DEVICES", value, 1); }
  ~VisibleDevices() { unsetenv("CUDA_VISIBLE_DEVICES"); }
  static std::string value() {
    const char* const found = std::getenv("CUDA_VISIBLE_DEVICES");
    return found ? found : "unset";
  }
};

}  // namespace

TEST_CASE("shared GPU: the service runs as long as the workers") {
  const FakeControl control(0);
  std::string pipes;
  {
    const SharedGpu shared(3);
    CHECK(shared.started());
    CHECK(shared.message().empty());
    REQUIRE(std::getenv("CUDA_MPS_PIPE_DIRECTORY") != nullptr);
    pipes = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
    CHECK(std::filesystem::is_directory(pipes));
  }
  CHECK(control.calls() == "1 -d  " + pipes + "\n0  quit " + pipes + "\n");
  CHECK(std::getenv("CUDA_MPS_PIPE_DIRECTORY") == nullptr);
  CHECK(!std::filesystem::exists(pipes));
}

TEST_CASE("shared GPU: one worker starts no service") {
  const FakeControl control(0);
  { const SharedGpu shared(1); }
  CHECK(control.calls().empty());
}

TEST_CASE("shared GPU: workers use the service that the user runs") {
  const FakeControl control(0);
  setenv("CUDA_MPS_PIPE_DIRECTORY", "/tmp/mine", 1);
  {
    const SharedGpu shared(4);
    CHECK(shared.message().empty());
  }
  CHECK(std::string(std::getenv("CUDA_MPS_PIPE_DIRECTORY")) == "/tmp/mine");
  unsetenv("CUDA_MPS_PIPE_DIRECTORY");
  CHECK(control.calls().empty());
}

TEST_CASE("shared GPU: a message says that the service failed") {
  {
    const FakeControl control(1);
    const SharedGpu shared(2);
    CHECK(!shared.started());
    CHECK(shared.message() == "2 workers take turns on the GPU: nvidia-cuda-mps-control ended with code 1");
  }
  CHECK(std::getenv("CUDA_MPS_PIPE_DIRECTORY") == nullptr);
}

TEST_CASE("shared GPU: a message says that the service is not installed") {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  const SharedGpu shared(2);
  setenv("PATH", path.c_str(), 1);
  CHECK(shared.message() == "2 workers take turns on the GPU: nvidia-cuda-mps-control is not installed");
}

TEST_CASE("shared GPU: the service chooses the GPUs, and its workers see them by its numbers") {
  const VisibleDevices gpus("1,0");
  const FakeControl control(0);
  {
    const SharedGpu shared(2);
    CHECK(control.visible() == "1,0\n");
    CHECK(gpus.value() == "unset");
  }
  CHECK(gpus.value() == "1,0");
}

TEST_CASE("shared GPU: workers without a service choose the GPUs themselves") {
  const VisibleDevices gpus("1");
  const FakeControl control(1);
  const SharedGpu shared(2);
  CHECK(!shared.started());
  CHECK(gpus.value() == "1");
}
