// The emulation: kernels that are right run right under every schedule, and each kind of wrong kernel is found, with
// its name, block and thread.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "core/arena.h"
#include "core/device_fault.h"
#include "core/memory_error.h"
#include "cuda/cuda_backend.h"
#include "cuda/kernel.cuh"
#include "cuda/recording.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/cuda_emulation/schedule.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

constexpr int kN = 100;

__global__ void reverse_block(int n, const float* x, float* y, bool wait) {
  NORMLAB_SHARED(float, tile, 128);
  const int t = static_cast<int>(threadIdx.x);
  if (t < n) tile[t] = x[t];
  if (wait) __syncthreads();
  if (t < n) y[t] = tile[n - 1 - t];
}

__global__ void lane_sums(const float* x, float* y, unsigned mask) {
  float value = x[threadIdx.x];
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(mask, value, static_cast<unsigned>(step));
  if (threadIdx.x % 32 == 0) y[threadIdx.x / 32] = value;
}

__global__ void votes(const float* x, unsigned* y) {
  const unsigned positive = __ballot_sync(kAllLanes, x[threadIdx.x] > 50.0f);
  if (threadIdx.x % 32 == 5) y[threadIdx.x / 32] = positive;
}

__global__ void beyond(int n, const float* x, float* y) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i <= n) y[0] = x[i];
}
__global__ void write_beyond(int n, float* y) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i <= n) y[i] = 1.0f;
}
__global__ void large_array(float* y) {
  NORMLAB_DYNAMIC_SHARED(float, asked);
  NORMLAB_SHARED(float, large, 5000);
  asked[threadIdx.x] = large[threadIdx.x] = 1;
  y[threadIdx.x] = asked[threadIdx.x];
}
__global__ void shared_beyond(float* y) {
  NORMLAB_DYNAMIC_SHARED(float, tile);
  tile[threadIdx.x + 1] = 1.0f;
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x];
}
__global__ void barrier_of_some(float* y) {
  if (threadIdx.x < 40) __syncthreads();
  y[threadIdx.x] = 1.0f;
}
__global__ void two_barriers(float* y) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  y[threadIdx.x] = 1.0f;
}
__global__ void diverged(const float* x, float* y) {
  float value = x[threadIdx.x];
  if (threadIdx.x % 2 == 0)
    value = __shfl_xor_sync(kAllLanes, value, 2);
  else
    value = __shfl_xor_sync(kAllLanes, value, 4);
  y[threadIdx.x] = value;
}
__global__ void shuffle_after_return(const float* x, float* y) {
  if (threadIdx.x == 7) return;
  y[threadIdx.x] = __shfl_xor_sync(kAllLanes, x[threadIdx.x], 1);
}
__global__ void same_place(float* y) { y[threadIdx.x / 2] = 1.0f; }
__global__ void warp_without_barrier(float* y, bool wait) {
  NORMLAB_SHARED(float, tile, 32);
  tile[threadIdx.x] = 1.0f;
  __syncwarp();
  y[threadIdx.x] = tile[31 - threadIdx.x];
  if (wait) __syncwarp();
  tile[threadIdx.x] = 2.0f;
}
__global__ void across_blocks(float* y) {
  if (threadIdx.x == 0) y[0] = static_cast<float>(blockIdx.x);
}
__global__ void read_through(const double* p, float* y) { y[threadIdx.x] = static_cast<float>(*p); }
__global__ void count(int* counter) { atomicAdd(counter, 1); }
__global__ void block_total(const float* x, float* y) {
  const float total = block_sum(x[threadIdx.x]);
  const float again = block_sum(total);
  if (threadIdx.x == 17) y[blockIdx.x] = again;
}

struct Fixture {
  CudaBackend backend;
  Stream stream;
  Arena arena{backend.memory()};
  Tensor x = arena.empty({128}, DType::f32), y = arena.empty({128}, DType::f32);
  Fixture() { std::iota(x.data<float>(), x.data<float>() + 128, 0.0f); }
  ~Fixture() {
    emulation::set_schedule(0);
    emulation::set_fault(nullptr);
  }
};

/// Runs `body` under eight schedules of blocks, warps and lanes.
template <class F>
void under_each_schedule(F&& body) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CAPTURE(seed);
    emulation::set_schedule(seed);
    body();
  }
}

/// A driver and a GPU for a test to change.
struct Driver {
  ~Driver() {
    emulation::set_device_error(cudaSuccess);
    emulation::set_driver_version(CUDART_VERSION);
    emulation::set_capability(9, 0);
    emulation::set_kernel_error(cudaSuccess);
  }
};

/// The fault that a launch ends with; empty if there is none.
template <class F>
std::string fault_of(F&& f) {
  try {
    f();
  } catch (const emulation::Fault& e) {
    return e.what();
  }
  return "";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

#define SKIP_WITHOUT_CHECKS()                                                 \
  if (!emulation::checks_memory()) {                                          \
    MESSAGE("skipped: under a sanitizer, touches of memory are not checked"); \
    return;                                                                   \
  }

TEST_CASE_FIXTURE(Fixture, "cuda emulation: a kernel with a barrier is right under every schedule") {
  under_each_schedule([&] {
    launch("reverse", reverse_block, {1, 128}, stream, kN, x.data<float>(), y.data<float>(), true);
    for (int i = 0; i < kN; ++i) CHECK(y.data<float>()[i] == float(kN - 1 - i));
  });
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: shuffles are right under every schedule") {
  under_each_schedule([&] {
    launch("lane_sums", lane_sums, {1, 128}, stream, x.data<float>(), y.data<float>(), kAllLanes);
    CHECK(y.data<float>()[1] == (32 + 63) * 16.0f);
  });
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: votes are right under every schedule") {
  const Tensor words = arena.empty({4}, DType::i32);
  under_each_schedule([&] {
    launch("votes", votes, {1, 128}, stream, x.data<float>(), static_cast<unsigned*>(words.raw()));
    CHECK(static_cast<unsigned*>(words.raw())[1] == ~0u << 19);
  });
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: atomic additions are right under every schedule") {
  const Tensor counter = arena.empty({1}, DType::i32);
  under_each_schedule([&] {
    counter.data<std::int32_t>()[0] = 0;
    launch("count", count, {3, 96}, stream, counter.data<std::int32_t>());
    CHECK(counter.data<std::int32_t>()[0] == 288);
  });
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: sums of a block are right under every schedule") {
  under_each_schedule([&] {
    launch("block_total", block_total, {2, 64}, stream, x.data<float>(), y.data<float>());
    CHECK(y.data<float>()[1] == 63 * 32 * 64.0f);
  });
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: a missing barrier of a block is found") {
  SKIP_WITHOUT_CHECKS();
  CHECK(fault_of([&] {
          launch("reverse", reverse_block, {1, 128}, stream, kN, x.data<float>(), y.data<float>(), false);
        }) == "reverse: block 0, thread 0: reads 4 bytes that nobody has written");
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: a missing barrier of a warp is found") {
  SKIP_WITHOUT_CHECKS();
  const std::string fault = fault_of([&] {
    launch("warp", warp_without_barrier, {1, 32}, stream, y.data<float>(), false);
  });
  CHECK_MESSAGE(has(fault, "with no barrier between them"), fault);
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: a warp with its barriers has no fault") {
  SKIP_WITHOUT_CHECKS();
  CHECK(fault_of([&] { launch("warp", warp_without_barrier, {1, 32}, stream, y.data<float>(), true); }) == "");
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: an element too far in global memory is found") {
  SKIP_WITHOUT_CHECKS();
  const Tensor small = arena.empty({kN}, DType::f32);
  std::fill_n(small.data<float>(), kN, 1.0f);
  CHECK(fault_of([&] {
          launch("beyond", beyond, {1, 128}, stream, kN, small.data<float>(), small.data<float>());
        }) != "");  // y[0] is written by many
  CHECK(fault_of([&] {
          launch("write_beyond", write_beyond, {2, 64}, stream, kN, small.data<float>());
        }) == "write_beyond: block 1, thread 36: writes 4 bytes 0 bytes beyond the end of a tensor of 400 bytes");
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: an element too far in shared memory is found") {
  SKIP_WITHOUT_CHECKS();
  CHECK(fault_of([&] {
          launch("shared", shared_beyond, {1, 64, 64 * sizeof(float)}, stream, y.data<float>());
        }) == "shared: block 0, thread 63: writes 4 bytes 0 bytes beyond the end of a tensor of 256 bytes");
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: a barrier that some threads skip is found") {
  const std::string fault = fault_of([&] { launch("some", barrier_of_some, {1, 64}, stream, y.data<float>()); });
  CHECK_MESSAGE(has(fault, "some: block 0, thread 0: waits at the __syncthreads of emulation_test.cu:"), fault);
  CHECK(has(fault, "which not all reach: thread 40 has left the kernel"));
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: threads that wait at different barriers are found") {
  const std::string fault = fault_of([&] { launch("two", two_barriers, {1, 64}, stream, y.data<float>()); });
  CHECK_MESSAGE(has(fault, "two: block 0, thread 32: waits at the __syncthreads of"), fault);
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: a mask that lacks calling lanes is found") {
  const std::string fault = fault_of([&] {
    launch("mask", lane_sums, {1, 64}, stream, x.data<float>(), y.data<float>(), 0x0000ffffu);
  });
  CHECK_MESSAGE(has(fault, "mask: block 0, thread "), fault);
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: a mask with lanes that the warp does not have is found") {
  const std::string fault = fault_of([&] {
    launch("part", lane_sums, {1, 48}, stream, x.data<float>(), y.data<float>(), kAllLanes);
  });
  CHECK_MESSAGE(has(fault, "part: block 0, thread 32: the mask of the shuffle"), fault);
  CHECK(has(fault, "names lanes that this warp of 16 does not have"));
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: shuffles of a warp that has diverged are found") {
  const std::string fault = fault_of([&] {
    launch("diverged", diverged, {1, 32}, stream, x.data<float>(), y.data<float>());
  });
  CHECK_MESSAGE(has(fault, "the warp has diverged"), fault);
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: a shuffle with a lane that has left the kernel is found") {
  const std::string fault = fault_of([&] {
    launch("left", shuffle_after_return, {1, 32}, stream, x.data<float>(), y.data<float>());
  });
  CHECK_MESSAGE(has(fault, "for all lanes of its mask: thread 7 has left the kernel"), fault);
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: a read of what no thread wrote is found") {
  SKIP_WITHOUT_CHECKS();
  const Tensor fresh = arena.empty({128}, DType::f32);
  CHECK(fault_of([&] {
          launch("fresh", lane_sums, {1, 32}, stream, fresh.data<float>(), y.data<float>(), kAllLanes);
        }) == "fresh: block 0, thread 0: reads 4 bytes that nobody has written");
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: two threads that write one place are found") {
  SKIP_WITHOUT_CHECKS();
  CHECK(fault_of([&] {
          launch("twice", same_place, {1, 32}, stream, y.data<float>());
        }) == "twice: block 0, thread 1: writes what thread 0 has written, with no barrier between them");
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: two blocks that write one place are found") {
  SKIP_WITHOUT_CHECKS();
  CHECK(fault_of([&] {
          launch("blocks", across_blocks, {2, 32}, stream, y.data<float>());
        }) ==
        "blocks: block 1, thread 0: writes what a thread of another block (thread 0) has written, with no barrier "
        "between them");
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: a read of the host's memory is found") {
  SKIP_WITHOUT_CHECKS();
  const auto on_heap = std::make_unique<double>(1.0);
  CHECK(fault_of([&] {
          launch("host", read_through, {1, 32}, stream, on_heap.get(), y.data<float>());
        }) == "host: block 0, thread 0: reads 8 bytes of the host's memory, which no device can see");
}

TEST_CASE_FIXTURE(Fixture, "cuda: a launch of no blocks does nothing") {
  launch("none", across_blocks, {0, 32}, stream, static_cast<float*>(nullptr));
}

TEST_CASE_FIXTURE(Fixture, "cuda: a launch of too many blocks is refused by its name") {
  CHECK_THROWS_WITH_AS(launch("far", across_blocks, {std::int64_t{1} << 31, 32}, stream, y.data<float>()),
                       "far: 2147483648 blocks of 32 threads exceed the limits of CUDA", InputError);
}

TEST_CASE_FIXTURE(Fixture, "cuda emulation: arrays in shared memory that the launch does not account for are found") {
  CHECK(fault_of([&] {
          launch("large", large_array, {1, 64, 64 * sizeof(float)}, stream, y.data<float>());
        }) ==
        "large: block 0, thread 0: shared memory: arrays of 20000 bytes, but 16384 are allowed in a launch that "
        "asks for more");
}

TEST_CASE_FIXTURE(Fixture, "cuda: a launch with too much shared memory is refused by its name") {
  CHECK_THROWS_WITH_AS(launch("wide", across_blocks, {1, 32, 300000}, stream, y.data<float>()),
                       "wide: needs 300000 bytes of shared memory per block, but the GPU has 232448", InputError);
}

TEST_CASE_FIXTURE(Fixture, "cuda: on request a product of cuBLAS is waited for, and an error names it") {
  setenv("NORMLAB_CUDA_SYNC", "1", 1);
  const Stream waiting;
  unsetenv("NORMLAB_CUDA_SYNC");
  Products products(waiting);
  cudaStreamBeginCapture(waiting.handle(), cudaStreamCaptureModeRelaxed);  // in which waiting is an error
  std::string what;
  try {
    products("squares", {.m = 4, .n = 4, .k = 4, .in = DType::f32, .out = DType::f32, .vector = DType::f32},
             {x.raw(), x.raw(), y.raw(), y.raw()});
  } catch (const EnvironmentError& e) {
    what = e.what();
  }
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(waiting.handle(), &graph);
  cudaGraphDestroy(graph);
  CHECK_MESSAGE(what.ends_with("seen after squares was started"), what);
}

TEST_CASE_FIXTURE(Fixture, "cuda: a lack of memory is reported with the bytes requested and free") {
  emulation::set_memory_limit(std::size_t{16} << 20);
  std::string what;
  try {
    backend.memory().allocate(std::size_t{64} << 20);
  } catch (const EnvironmentError& e) {
    what = e.what();
  }
  emulation::set_memory_limit(0);
  CHECK_MESSAGE(has(what, "out of GPU memory: 65 MB requested, 16 MB of "), what);
  CHECK_MESSAGE(what.ends_with(" MB free"), what);
}

TEST_CASE_FIXTURE(Fixture, "cuda: two workers that allocate at once get no more memory than is free") {
  emulation::set_memory_limit(std::size_t{16} << 20);
  emulation::set_pause_after_query([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
  DeviceMemory memory(stream);
  std::atomic<int> taken = 0, refused = 0;
  const auto take = [&] {
    constexpr std::size_t kBytes = std::size_t{12} << 20;
    try {
      void* const block = memory.allocate(kBytes);
      ++taken;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      memory.release(block, kBytes);
    } catch (const DeviceMemoryError&) {
      ++refused;
    } catch (const emulation::Fault& e) {
      MESSAGE(e.what());
    }
  };
  std::thread other(take);
  take();
  other.join();
  emulation::set_pause_after_query(nullptr);
  emulation::set_memory_limit(0);
  CHECK(taken == 1);
  CHECK(refused == 1);
}

TEST_CASE_FIXTURE(Fixture, "cuda: the peak holds what was released, and ends with the next one") {
  DeviceMemory memory(stream);
  memory.restart_peak();
  const std::size_t before = memory.peak();
  void* const block = memory.allocate(5000);
  {
    Buffer buffer("a rounded weight", stream);
    buffer.get<float>(100);
    buffer.get<float>(50);  // which it has
    CHECK(memory.peak() == before + 5400);
    buffer.get<float>(200);
    CHECK(memory.peak() == before + 5800);
  }
  memory.release(block, 5000);
  CHECK(memory.peak() == before + 5800);
  memory.restart_peak();
  CHECK(memory.peak() == before);
}

TEST_CASE("cuda: a file that workers take turns by and that cannot be opened is reported") {
  CHECK_THROWS_WITH_AS(
      TurnToAllocate("/nowhere/normlab-gpu"),
      "/nowhere/normlab-gpu: No such file or directory; workers take turns by this file to allocate GPU "
      "memory: make it writable, or set TMPDIR to another folder",
      EnvironmentError);
}

TEST_CASE_FIXTURE(Fixture, "cuda: memory that grows while a step is recorded is reported by its name") {
  Buffer buffer("a rounded weight", stream);
  DeviceMemory memory(stream);
  const auto said = [&](FunctionRef<void()> work) -> std::string {
    try {
      record_graph(stream, work);
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "nothing";
  };
  const std::string rest =
      " grows while a step is recorded; this is a bug of normlab: please report it with this message and the descriptor";
  CHECK(said([&] { buffer.get<float>(100); }) == "the GPU memory of a rounded weight" + rest);
  CHECK(said([&] { memory.allocate(100); }) == "the GPU memory of tensors" + rest);
  buffer.get<float>(100);
  CHECK(said([&] { buffer.get<float>(100); }) == "nothing");
}

TEST_CASE("cuda: errors after which a process must begin anew are faults of the device") {
  for (const cudaError_t error :
       {cudaErrorECCUncorrectable, cudaErrorContained, cudaErrorIllegalAddress, cudaErrorLaunchTimeout, cudaErrorAssert,
        cudaErrorHardwareStackError, cudaErrorIllegalInstruction, cudaErrorMisalignedAddress,
        cudaErrorInvalidAddressSpace, cudaErrorInvalidPc, cudaErrorLaunchFailure, cudaErrorMpsRpcFailure,
        cudaErrorMpsServerNotReady, cudaErrorMpsClientTerminated})
    CHECK_THROWS_AS(check("op", error), DeviceFault);
  for (const cudaError_t error : {cudaErrorMemoryAllocation, cudaErrorInvalidValue, cudaErrorNoDevice}) try {
      check("op", error);
    } catch (const DeviceFault&) {
      FAIL("no such fault");
    } catch (const EnvironmentError&) {
    }
}

TEST_CASE_FIXTURE(Fixture, "cuda: a fault of the device is told by each call that meets it") {
  Products products(stream);
  emulation::set_fault([](const char* op) { return has(op, "bad") ? cudaErrorIllegalAddress : cudaSuccess; });
  CHECK_THROWS_WITH_AS(launch("bad", write_beyond, {1, 32}, stream, 1, y.data<float>()),
                       "bad: CUDA: an illegal memory access was encountered (cudaErrorIllegalAddress)", DeviceFault);
  CHECK_THROWS_WITH_AS(stream.synchronize(),
                       "CUDA: an illegal memory access was encountered (cudaErrorIllegalAddress), seen after bad was "
                       "started (set NORMLAB_CUDA_SYNC=1 to find the kernel)",
                       DeviceFault);
  CHECK_THROWS_AS(
      products("squares", {.m = 4, .n = 4, .k = 4, .in = DType::f32, .out = DType::f32, .vector = DType::f32},
               {x.raw(), x.raw(), y.raw(), y.raw()}),
      DeviceFault);
}

TEST_CASE("cuda: a worker that shares its GPU sleeps while it waits") {
  use_device(0, true);
  query_device(0);
  CHECK(emulation::device_flags() == cudaDeviceScheduleBlockingSync);
  const Event sleeping;
  CHECK(emulation::event_flags() == (cudaEventBlockingSync | cudaEventDisableTiming));
  use_device(0);
  const Event spinning;
  CHECK(emulation::event_flags() == cudaEventDisableTiming);
}

TEST_CASE_FIXTURE(Driver, "cuda: a missing driver is reported") {
  emulation::set_driver_version(0);
  CHECK_THROWS_WITH_AS(query_device(),
                       "--device cuda: no NVIDIA driver is installed (libcuda.so.1 is missing); install it, or run "
                       "with --device cpu",
                       EnvironmentError);
}

TEST_CASE_FIXTURE(Driver, "cuda: more ranks than GPUs are reported") {
  CHECK(query_device(0).number == 0);
  CHECK_THROWS_WITH_AS(query_device(1),
                       "--device cuda: rank 1 (from 0) of this host takes the GPU of that number, but sees only 1 "
                       "(nvidia-smi and CUDA_VISIBLE_DEVICES); start fewer ranks on a host, or let each see all its "
                       "GPUs",
                       EnvironmentError);
}

TEST_CASE_FIXTURE(Driver, "cuda: an old driver is reported") {
  emulation::set_driver_version(12040);
  emulation::set_device_error(cudaErrorInsufficientDriver);
  CHECK_THROWS_WITH_AS(query_device(),
                       "--device cuda: the NVIDIA driver supports CUDA 12.4, but this binary needs 13.0; install a "
                       "newer driver, or run with --device cpu",
                       EnvironmentError);
}

TEST_CASE_FIXTURE(Driver, "cuda: a missing GPU is reported") {
  emulation::set_device_error(cudaErrorNoDevice);
  CHECK_THROWS_WITH_AS(query_device(),
                       "--device cuda: no NVIDIA GPU is visible (see nvidia-smi and CUDA_VISIBLE_DEVICES); run with "
                       "--device cpu",
                       EnvironmentError);
}

TEST_CASE_FIXTURE(Driver, "cuda: a service that recovers from another worker's fault is a fault of the device") {
  emulation::set_device_error(cudaErrorMpsServerNotReady);
  CHECK_THROWS_WITH_AS(query_device(),
                       "--device cuda: cannot start: CUDA: an emulated error (cudaErrorUnknown); check that nvidia-smi "
                       "works; run with --device cpu",
                       DeviceFault);
}

TEST_CASE_FIXTURE(Driver, "cuda: an old GPU is reported") {
  emulation::set_capability(7, 5);
  CHECK_THROWS_WITH_AS(query_device(),
                       "--device cuda: emulated has compute capability 7.5, but this binary needs 8.0 or above (A100 "
                       "and later); run with --device cpu",
                       EnvironmentError);
}

TEST_CASE_FIXTURE(Driver, "cuda: a GPU without kernels in the binary is reported") {
  emulation::set_capability(12, 1);
  emulation::set_kernel_error(cudaErrorNoKernelImageForDevice);
  CHECK_THROWS_WITH_AS(query_device(),
                       "--device cuda: this binary has no kernels for emulated (compute capability 12.1); build with "
                       "`make CUDA=1 CUDA_ARCH=121`; run with --device cpu",
                       EnvironmentError);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
