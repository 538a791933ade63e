#include "tests/cuda_emulation/runtime.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/cuda_emulation/heap.h"
#include "tests/cuda_emulation/scheduler.h"

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
unsigned flags_of_device = 0, flags_of_event = 0;
void (*pause_after_query)() = nullptr;
cudaError_t device_error = cudaSuccess, kernel_error = cudaSuccess;
int driver_version = kVersion, capability_major = 9, capability_minor = 0;

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

struct EmulatedStream {};
struct EmulatedGraph {
  std::vector<std::function<void()>> work;
};

namespace {
std::unique_ptr<EmulatedGraph> captured;  // while a capture goes on
long launched = 0;
bool endless_work = false;
}  // namespace

namespace normlab::emulation {
long graphs_launched() { return launched; }
bool capturing() { return captured != nullptr; }
void set_fault(cudaError_t (*of)(const char* op)) {
  faulty = of;
  context_error = cudaSuccess;
}
cudaError_t error_at(const char* op) {
  if (faulty && context_error == cudaSuccess) context_error = faulty(op);
  return context_error;
}
unsigned device_flags() { return flags_of_device; }
unsigned event_flags() { return flags_of_event; }
void set_pause_after_query(void (*pause)()) { pause_after_query = pause; }
void in_order(const std::function<void()>& work) {
  if (captured)
    captured->work.push_back(work);
  else
    work();
}
}  // namespace normlab::emulation

struct EmulatedEvent {};

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
  std::snprintf(id, static_cast<std::size_t>(length), "emulated-%d", static_cast<int>(getpid()));
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  std::snprintf(p->name, sizeof p->name, "emulated");
  p->totalGlobalMem = kMemory;
  p->major = capability_major;
  p->minor = capability_minor;
  p->multiProcessorCount = 2;
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
  std::lock_guard lock(mutex);
  heap_release(block);
  if (blocks[block].on_device) taken -= blocks[block].bytes;
  blocks.erase(block);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** to, std::size_t bytes) {
  *to = std::malloc(bytes);
  return *to ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void* block) {
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
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  in_order([=] {
    require("cudaMemcpyAsync, destination", to, bytes);
    require("cudaMemcpyAsync, source", from, bytes);
    std::memcpy(to, from, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  in_order([=] {
    require("cudaMemsetAsync", to, bytes);
    std::memset(to, value, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new EmulatedStream;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return capturing() ? cudaErrorStreamCaptureUnsupported : emulation::error_at("");
}
cudaError_t cudaStreamQuery(cudaStream_t) { return endless_work ? cudaErrorNotReady : cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = capturing() ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  captured = std::make_unique<EmulatedGraph>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = captured.release();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new EmulatedGraph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  ++launched;
  for (const auto& work : executable->work) work();
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  flags_of_event = flags;
  *event = new EmulatedEvent;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }

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
void set_endless_work(bool endless) { endless_work = endless; }
void set_kernel_error(cudaError_t error) { kernel_error = error; }
void set_device_error(cudaError_t error) { device_error = error; }
void set_memory_limit(std::size_t bytes) { limit = bytes ? taken + bytes : 0; }
void set_driver_version(int version) { driver_version = version; }
void set_capability(int major, int minor) {
  capability_major = major;
  capability_minor = minor;
}
}  // namespace normlab::emulation
