#include "tests/devices.h"

#include <memory>
#include <vector>

#include "core/error.h"
#include "cuda/backend.h"
#include "tests/core/cpu/bf16_choice.h"

namespace normlab {

namespace cuda_emulated {
std::unique_ptr<Backend> make_backend();
}

namespace {

struct Devices {
  std::vector<std::unique_ptr<Backend>> made;
  std::vector<Device> all;
  std::string report = "devices tested: cpu, cuda emulated";
  Devices() {
    all.push_back({"cpu", cpu_backend(), best_bf16()});
    made.push_back(cuda_emulated::make_backend());
    all.push_back({"cuda emulated", *made.back(), Bf16Products::native});
    try {
      made.push_back(make_cuda_backend());
      all.push_back({"cuda", *made.back(), Bf16Products::native});
      report += ", cuda";
    } catch (const EnvironmentError& e) {
      report += std::string("; not on a GPU: ") + e.what();
    }
  }
};

const Devices& devices() {
  static const Devices instance;
  return instance;
}

const Device* current = nullptr;

}  // namespace

const Device& current_device() { return current ? *current : devices_under_test().front(); }

void on_each_device(const std::function<void()>& body) {
  struct Restore {
    ~Restore() { current = nullptr; }
  };
  for (const Device& device : devices_under_test()) {
    const Restore restore;
    current = &device;
    CAPTURE(device.name);
    body();
  }
}

std::span<const Device> devices_under_test() { return devices().all; }
std::string devices_report() { return devices().report; }

}  // namespace normlab
