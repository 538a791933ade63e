// Ranks with an emulated GPU each, whose memory the fake NCCL moves.
#pragma once

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <filesystem>
#include <memory>

#include "core/backend.h"
#include "core/group.h"
#include "tests/cuda_emulation/heap.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/nccl/fake.h"

namespace normlab {

namespace cuda_emulated {
std::unique_ptr<Backend> make_backend(int number, bool shared = false);
}

/// The fake, which this process then has open under NCCL's name.
inline fake_nccl::Control& fake() {
  static fake_nccl::Control* const control = [] {
    const auto file = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libnccl.so.2";
    void* const library = dlopen(file.c_str(), RTLD_NOW);
    REQUIRE_MESSAGE(library, dlerror());
    auto* const find = reinterpret_cast<fake_nccl::Control* (*)()>(dlsym(library, "fake_nccl_control"));
    fake_nccl::Control* const found = find();
    found->in_order = [](void* stream, const std::function<void()>& work) {
      emulation::in_order(static_cast<cudaStream_t>(stream), work);
    };
    found->on_device = [](const void* at, std::size_t bytes) {
      return emulation::in_heap(at) && emulation::heap_in_use(at, bytes);
    };
    return found;
  }();
  return *control;
}

/// The fake in its first state, also after a test.
struct Fresh {
  Fresh() { reset(); }
  ~Fresh() { reset(); }
  static void reset() {
    fake_nccl::Control& c = fake();
    c.version = 22809, c.failing = "", c.error = 5, c.async_error = 0, c.aborted = false, c.stream = nullptr;
    emulation::set_endless_work(false);
  }
};

/// A group that calls `body` with a backend for each rank, as one for each GPU.
inline void on_gpus(int ranks, FunctionRef<void(Backend&, Group&)> body) {
  fake();
  Team{.forked = ranks}.run([&](Group& group) {
    const std::unique_ptr<Backend> backend = cuda_emulated::make_backend(0);
    body(*backend, group);
  });
}

}  // namespace normlab
