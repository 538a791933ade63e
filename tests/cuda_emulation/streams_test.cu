// The order of work of several streams: what events and the host's waiting leave open is found, whatever order the
// emulation happens to run in.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "core/arena.h"
#include "cuda/cuda_backend.h"
#include "cuda/kernel.cuh"
#include "tests/cuda_emulation/runtime.h"
#include "tests/cuda_emulation/scheduler.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

constexpr std::int64_t kN = 64;
constexpr int kEventsOfUpload = 5;  // calls: record, wait, hold, record, hold

__global__ void copy_values(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }

/// Two streams, and memory that both use.
struct Streams {
  CudaBackend backend;
  Stream kernels, copies;
  Arena arena{backend.memory()};
  Tensor x = arena.empty({kN}, DType::f32), y = arena.empty({kN}, DType::f32);
  Streams() { std::fill_n(x.data<float>(), kN, 1.0f); }
  ~Streams() { emulation::leave_out_events(0, 0); }

  void copy(const char* op, const Stream& stream, const Tensor& from, const Tensor& to) {
    launch(op, copy_values, {1, kN}, stream, from.data<float>(), to.data<float>());
  }
  /// Six batches that kernels read, with all calls about events but this; none is left out for -1.
  std::string upload(int left_out) {
    if (left_out >= 0) emulation::leave_out_events(left_out, kEventsOfUpload);
    Uploads uploads(kernels, copies);
    std::vector<float> host(kN);
    return fault_of([&] {
      for (int batch = 0; batch < 6; ++batch) {
        std::fill(host.begin(), host.end(), float(batch));
        const Tensor there = uploads.bring(Tensor(host.data(), {kN}, DType::f32));
        copy("read", kernels, there, y);
      }
      kernels.synchronize();
      CHECK(y.data<float>()[kN - 1] == 5.0f);
    });
  }
  template <class F>
  std::string fault_of(F&& f) {
    try {
      f();
    } catch (const emulation::Fault& e) {
      return e.what();
    }
    return "";
  }
};

const std::string kOpen = ", and neither an event nor the host's waiting orders that before it";
/// "of stream 7" without the number.
std::string without_numbers(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

}  // namespace

#define SKIP_WITHOUT_CHECKS()                                                 \
  if (!emulation::checks_memory()) {                                          \
    MESSAGE("skipped: under a sanitizer, touches of memory are not checked"); \
    return;                                                                   \
  }

TEST_CASE_FIXTURE(Streams, "cuda streams: uploads are in order") { CHECK(upload(-1) == ""); }

TEST_CASE_FIXTURE(Streams, "cuda streams: each event of an upload is needed") {
  SKIP_WITHOUT_CHECKS();
  const std::string overwrites = "cudaMemcpyAsync of stream  writes what read of stream  has read" + kOpen;
  const std::string early = "read: block , thread : reads what cudaMemcpyAsync of stream  has written" + kOpen;
  CHECK(without_numbers(upload(0)) == overwrites);
  CHECK(upload(1) == "cudaMemcpyAsync: the host changes pinned memory while it is copied");
  CHECK(without_numbers(upload(2)) == overwrites);
  CHECK(without_numbers(upload(3)) == early);
  CHECK(without_numbers(upload(4)) == early);
}

TEST_CASE_FIXTURE(Streams, "cuda streams: pinned memory is uploaded from where it is, and may change after a wait") {
  const auto there = backend.upload_buffer(x.bytes());
  const Tensor host(there.get(), {kN}, DType::f32);
  for (const bool waits : {true, false}) {
    Uploads uploads(kernels, copies);
    std::fill_n(host.data<float>(), kN, 2.0f);
    copy("read", kernels, uploads.bring(host), y);
    if (waits) uploads.wait();
    std::fill_n(host.data<float>(), kN, 3.0f);
    CHECK(fault_of([&] { kernels.synchronize(); }) ==
          (waits ? "" : "cudaMemcpyAsync: the host changes pinned memory while it is copied"));
    CHECK(y.data<float>()[0] == 2.0f);
  }
}

TEST_CASE_FIXTURE(Streams, "cuda streams: a copy to the host is there once it is waited for") {
  std::vector<float> host(kN);
  Readback readback(kernels);
  PinnedBuffer pinned;
  pinned.resize(x.bytes());
  const auto* const there = reinterpret_cast<const float*>(pinned.data());
  cudaMemcpyAsync(pinned.data(), x.raw(), x.bytes(), cudaMemcpyDeviceToHost, kernels.handle());
  CHECK(there[0] != 1.0f);
  copies.synchronize();  // another stream
  CHECK(there[0] != 1.0f);
  kernels.synchronize();
  CHECK(there[0] == 1.0f);
  readback.add(x, host.data());
  readback.wait();
  CHECK(host[kN - 1] == 1.0f);
}

TEST_CASE_FIXTURE(Streams, "cuda streams: kernels of two streams are in order by an event or a wait of the host") {
  SKIP_WITHOUT_CHECKS();
  const Event written;
  copy("first", copies, x, y);
  CHECK(without_numbers(fault_of([&] { copy("second", kernels, y, x); })) ==
        "second: block , thread : reads what first of stream  has written" + kOpen);
  written.record(copies);
  written.hold(kernels);
  CHECK(fault_of([&] { copy("second", kernels, y, x); }) == "");
  CHECK(without_numbers(fault_of([&] { copy("third", copies, x, y); })) ==
        "third: block , thread : reads what second of stream  has written" + kOpen);
  kernels.synchronize();
  CHECK(fault_of([&] { copy("third", copies, x, y); }) == "");
}

TEST_CASE_FIXTURE(Streams, "cuda streams: a product and a memset of another stream are in order, too") {
  Products products(kernels);
  const auto multiply = [&] {
    products("squares", {.m = 8, .n = 8, .k = 8, .in = DType::f32, .out = DType::f32, .vector = DType::f32},
             {x.raw(), x.raw(), y.raw(), y.raw()});
  };
  cudaMemsetAsync(x.raw(), 0, x.bytes(), copies.handle());
  CHECK(without_numbers(fault_of(multiply)) ==
        "cuBLAS of stream  reads what cudaMemsetAsync of stream  has written" + kOpen);
  copies.synchronize();
  CHECK(fault_of(multiply) == "");
  CHECK(without_numbers(fault_of([&] { cudaMemsetAsync(x.raw(), 0, x.bytes(), copies.handle()); })) ==
        "cudaMemsetAsync of stream  writes what cuBLAS of stream  has read" + kOpen);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
