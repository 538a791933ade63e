#include "tests/cuda_emulation/runtime.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "tests/cuda_emulation/heap.h"
#include "tests/cuda_emulation/scheduler.h"
#include "tests/cuda_emulation/streams.h"

namespace {

using namespace normlab;
using namespace normlab::emulation;

constexpr std::size_t kMemory = std::size_t{4} << 30;
constexpr int kVersion = 13000;

std::mutex mutex;
struct Block {
  std::size_t bytes;
  bool on_device;  // managed memory is after a prefetch
};
std::map<void*, Block> blocks;
std::size_t taken = 0, limit = 0;  // bytes on the device
cudaError_t (*faulty)(const char* op) = nullptr;
cudaError_t context_error = cudaSuccess;
unsigned flags_of_device = 0;
void (*pause_after_query)() = nullptr;
cudaError_t device_error = cudaSuccess, kernel_error = cudaSuccess;
int driver_version = kVersion, capability_major = 9, capability_minor = 0;

/// The file by which workers take turns, which the id of the GPU names. It ends with the process, unlike a GPU's.
struct TurnsFile {
  const pid_t owner = getpid();
  ~TurnsFile() {
    if (getpid() != owner) return;
    std::error_code ignored;
    std::filesystem::remove(
        std::filesystem::temp_directory_path() / concat("normlab-gpu-", getuid(), "-emulated-", owner), ignored);
  }
};

cudaError_t allocate(void** to, std::size_t bytes, bool on_device) {
  std::lock_guard lock(mutex);
  if (on_device && taken + bytes > (limit ? limit : kMemory)) return cudaErrorMemoryAllocation;
  *to = heap_allocate(bytes);
  blocks[*to] = {bytes, on_device};
  if (on_device) taken += bytes;
  return cudaSuccess;
}

void require(const char* call, const void* address, std::size_t bytes) {
  if (in_heap(address) && !heap_in_use(address, bytes))
    throw Fault(concat(call, ": ", bytes, " bytes that begin or end ", heap_describe(address)));
}

}  // namespace

namespace normlab::emulation {
void set_fault(cudaError_t (*of)(const char* op)) {
  faulty = of;
  context_error = cudaSuccess;
}
cudaError_t error_at(const char* op) {
  if (faulty && context_error == cudaSuccess) context_error = faulty(op);
  return context_error;
}
unsigned device_flags() { return flags_of_device; }
void set_pause_after_query(void (*pause)()) { pause_after_query = pause; }
}  // namespace normlab::emulation

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorNoDevice:
      return "cudaErrorNoDevice";
    case cudaErrorInsufficientDriver:
      return "cudaErrorInsufficientDriver";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    default:
      return "cudaErrorUnknown";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    default:
      return "an emulated error";
  }
}
cudaError_t cudaGetLastError() { return context_error; }
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, void (*)()) { return kernel_error; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_error == cudaSuccess;
  return device_error;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaInitDevice(int, unsigned device_flags, unsigned flags) {
  if (flags == cudaInitDeviceFlagsAreValid) flags_of_device = device_flags;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int) {
  static const TurnsFile file;
  std::snprintf(id, static_cast<std::size_t>(length), "emulated-%d", static_cast<int>(getpid()));
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  std::snprintf(p->name, sizeof p->name, "emulated");
  p->totalGlobalMem = kMemory;
  p->major = capability_major;
  p->minor = capability_minor;
  p->sharedMemPerBlockOptin = 227 * 1024;
  p->concurrentManagedAccess = 1;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  {
    std::lock_guard lock(mutex);
    *total = limit ? limit : kMemory;
    *free = *total - taken;
  }
  if (pause_after_query) pause_after_query();
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** to, std::size_t bytes) { return allocate(to, bytes, true); }
cudaError_t cudaMallocManaged(void** to, std::size_t bytes, unsigned) { return allocate(to, bytes, false); }
cudaError_t cudaFree(void* block) {
  if (!block) return cudaSuccess;
  wait_for_all();
  std::lock_guard lock(mutex);
  heap_release(block);
  if (blocks[block].on_device) taken -= blocks[block].bytes;
  blocks.erase(block);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** to, std::size_t bytes) {
  *to = std::malloc(bytes);
  if (!*to) return cudaErrorMemoryAllocation;
  pin(*to, bytes);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  attributes->type = is_pinned(address) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* block) {
  unpin(block);
  std::free(block);
  return cudaSuccess;
}
cudaError_t cudaMemAdvise(const void*, std::size_t, cudaMemoryAdvise, cudaMemLocation) { return cudaSuccess; }
cudaError_t cudaMemPrefetchAsync(const void* block, std::size_t, cudaMemLocation, unsigned, cudaStream_t) {
  std::lock_guard lock(mutex);
  const auto found = blocks.find(const_cast<void*>(block));
  if (found == blocks.end() || std::exchange(found->second.on_device, true)) return cudaSuccess;
  taken += found->second.bytes;
  if (taken > (limit ? limit : kMemory))
    throw Fault(concat("managed memory of ", taken, " bytes is more than the device has, and spills to the host's"));
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  in_order(stream, [=] {
    constexpr const char* op = "cudaMemcpyAsync";
    require("cudaMemcpyAsync, destination", to, bytes);
    require("cudaMemcpyAsync, source", from, bytes);
    const Work work = begin_work(op);
    if (in_heap(from)) touch(op, work, from, bytes, false);
    if (in_heap(to)) touch(op, work, to, bytes, true);
    std::memcpy(to, from, bytes);
    if (!in_heap(from)) touch_host(op, work, const_cast<void*>(from), bytes, false);
    if (!in_heap(to)) touch_host(op, work, to, bytes, true);
  });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  in_order(stream, [=] {
    require("cudaMemsetAsync", to, bytes);
    touch("cudaMemsetAsync", begin_work("cudaMemsetAsync"), to, bytes, true);
    std::memset(to, value, bytes);
  });
  return cudaSuccess;
}

namespace {
template <class T, class F>
T atomically(T* address, F&& f) {
  check_atomic(address, sizeof(T));
  const T old = *address;
  *address = f(old);
  return old;
}
}  // namespace

int atomicAdd(int* p, int v) {
  return atomically(p, [&](int old) { return old + v; });
}
unsigned atomicAdd(unsigned* p, unsigned v) {
  return atomically(p, [&](unsigned old) { return old + v; });
}
unsigned long long atomicAdd(unsigned long long* p, unsigned long long v) {
  return atomically(p, [&](unsigned long long old) { return old + v; });
}
int atomicCAS(int* p, int expected, int v) {
  return atomically(p, [&](int old) { return old == expected ? v : old; });
}
unsigned atomicCAS(unsigned* p, unsigned expected, unsigned v) {
  return atomically(p, [&](unsigned old) { return old == expected ? v : old; });
}
int atomicMax(int* p, int v) {
  return atomically(p, [&](int old) { return old > v ? old : v; });
}
int atomicExch(int* p, int v) {
  return atomically(p, [&](int) { return v; });
}

namespace normlab::emulation {
void set_kernel_error(cudaError_t error) { kernel_error = error; }
void set_device_error(cudaError_t error) { device_error = error; }
void set_memory_limit(std::size_t bytes) { limit = bytes ? taken + bytes : 0; }
void set_driver_version(int version) { driver_version = version; }
void set_capability(int major, int minor) {
  capability_major = major;
  capability_minor = minor;
}
}  // namespace normlab::emulation
