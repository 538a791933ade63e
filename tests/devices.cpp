#include "tests/devices.h"

#include <cstdlib>
#include <memory>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "cuda/backend.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/cuda_emulation/schedule.h"

namespace normlab {

namespace cuda_emulated {
std::unique_ptr<Backend> make_backend(int number, bool shared = false);
}

namespace {

struct Devices {
  std::vector<std::unique_ptr<Backend>> made;
  std::vector<TestDevice> all;
  std::string report = "devices:", without;

  Devices() {
    add("cpu", cpu_backend(), best_bf16());  // what the others are compared with
    const char* chosen = std::getenv("NORMLAB_TEST_DEVICES");
    std::istringstream words(chosen ? chosen : "emulated cuda");
    for (std::string word; words >> word;) add(word, chosen != nullptr);
    report += without;
  }

 private:
  void add(const std::string& word, bool required) {
    if (word == "emulated") {
      made.push_back(cuda_emulated::make_backend(0));
      add("cuda (emulated)", *made.back(), Bf16Products::native);
    } else if (word == "cuda") {
      try {
        made.push_back(make_cuda_backend());
      } catch (const EnvironmentError& e) {
        if (required) throw;
        without = std::string("; no GPU: ") + e.what();
        return;
      }
      add("cuda", *made.back(), Bf16Products::native);
      report += " (" + made.back()->provenance().at("gpu") + ")";
    } else {
      throw InputError("NORMLAB_TEST_DEVICES: no device \"" + word + "\"; there are emulated and cuda");
    }
  }
  void add(const std::string& name, Backend& backend, Bf16Products bf16) {
    report += (all.empty() ? " " : ", ") + name;
    all.push_back({name, backend, bf16});
  }
};

const Devices& devices() {
  static const Devices instance;
  return instance;
}

const TestDevice* current = nullptr;

/// In which orders the emulation runs: a missing barrier shows under some alone.
std::vector<std::uint64_t> schedules_of(const TestDevice& device) {
  if (device.name != "cuda (emulated)" || std::getenv("NORMLAB_CUDA_SCHEDULE")) return {emulation::current_schedule()};
  if (!std::getenv("NORMLAB_LONG")) return {1};
  return {0, 1, 2, 3, 4, 5, 6, 7, 8};
}

}  // namespace

const TestDevice& current_device() { return current ? *current : devices_under_test().front(); }

void on_each_device(const std::function<void()>& body) {
  struct Restore {
    std::uint64_t schedule = emulation::current_schedule();
    ~Restore() {
      current = nullptr;
      emulation::set_schedule(schedule);
    }
  };
  for (const TestDevice& device : devices_under_test())
    for (const std::uint64_t schedule : schedules_of(device)) {
      const Restore restore;
      current = &device;
      emulation::set_schedule(schedule);
      CAPTURE(device.name);
      CAPTURE(schedule);
      body();
    }
}

std::span<const TestDevice> devices_under_test() { return devices().all; }
std::string devices_report() { return devices().report; }

}  // namespace normlab
