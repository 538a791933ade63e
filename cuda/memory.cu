#include "cuda/memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "core/memory_error.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

cudaMemLocation here() { return {cudaMemLocationTypeDevice, device_info().number}; }

/// CUDA refuses, or records, some of what an allocation takes, and says little.
void require_no_recording(const char* name, const Stream& stream) {
  cudaStreamCaptureStatus status{};
  check("memory", cudaStreamIsCapturing(stream.handle(), &status));
  if (status != cudaStreamCaptureStatusNone)
    throw std::logic_error(concat("the GPU memory of ", name,
                                  " grows while a step is recorded; this is a bug of normlab: please report it with "
                                  "this message and the descriptor"));
}

/// Allocates with `take`, after checking free memory: managed memory would exceed it and spill to the host's.
template <class Take>
void* take_free(std::size_t bytes, Take&& take) {
  std::size_t free = 0, total = 0;
  check("memory", cudaMemGetInfo(&free, &total));
  if (bytes > free) throw DeviceMemoryError(bytes, free, total);
  void* block = nullptr;
  const cudaError_t error = take(&block);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // otherwise the next kernel reports it
    throw DeviceMemoryError(bytes, free, total);
  }
  check("memory", error);
  return block;
}

/// Bytes that tensors and buffers of this process hold.
struct Held {
  std::mutex mutex;
  std::size_t now = 0, most = 0;  // most: since a restart

  void take(std::size_t bytes) {
    const std::scoped_lock lock(mutex);
    most = std::max(most, now += bytes);
  }
  void give(std::size_t bytes) {
    const std::scoped_lock lock(mutex);
    now -= bytes;
  }
} held;

/// A part of a block for all networks of a stack, or a block of its own.
void* from(const SlabPlace& place, std::size_t bytes, FunctionRef<void*(std::size_t bytes)> allocate) {
  return place.slabs != nullptr ? place.slabs->take(place.number, bytes, allocate) : allocate(bytes);
}
void free_block(const SlabPlace& place, void* block, std::size_t bytes) {
  if (block != nullptr && place.slabs != nullptr) std::tie(block, bytes) = place.slabs->give(block);
  cudaFree(block);
  held.give(bytes);
}

/// The file of this user and GPU.
std::string turns() {
  static const std::string path = [] {
    char bus[32] = "";
    check("CUDA device", cudaDeviceGetPCIBusId(bus, sizeof bus, device_info().number));
    return std::filesystem::temp_directory_path() / concat("normlab-gpu-", getuid(), "-", bus);
  }();
  return path;
}

}  // namespace

TurnToAllocate::TurnToAllocate(const std::string& path)
    : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
  int failed = 0;
  do failed = file_ < 0 ? -1 : flock(file_, LOCK_EX);
  while (failed != 0 && errno == EINTR);
  if (failed == 0) return;
  const int error = errno;
  if (file_ >= 0) close(file_);
  throw EnvironmentError(concat(path, ": ", std::strerror(error),
                                "; workers take turns by this file to allocate GPU memory: make it writable, or set "
                                "TMPDIR to another folder"));
}

TurnToAllocate::~TurnToAllocate() { close(file_); }

void* DeviceMemory::allocate(std::size_t bytes) {
  require_no_recording("tensors", stream_);
  return from(place_, bytes, [this](std::size_t all) { return allocate_block(all); });
}

void* DeviceMemory::allocate_block(std::size_t bytes) {
  const TurnToAllocate turn(turns());
  void* block = take_free(bytes, [&](void** to) { return cudaMallocManaged(to, bytes); });
  if (device_info().managed_at_any_time) {
    check("memory", cudaMemAdvise(block, bytes, cudaMemAdviseSetPreferredLocation, here()));
    touch(block, bytes);
    stream_.synchronize();  // so that the next query of free memory includes it
  }
  held.take(bytes);
  return block;
}

void DeviceMemory::release(void* block, std::size_t bytes) noexcept {
  cudaStreamSynchronize(stream_.handle());
  free_block(place_, block, bytes);
}

void DeviceMemory::restart_peak() {
  const std::scoped_lock lock(held.mutex);
  held.most = held.now;
}

std::size_t DeviceMemory::peak() const {
  const std::scoped_lock lock(held.mutex);
  return held.most / (place_.slabs != nullptr ? place_.slabs->places() : 1);
}

void DeviceMemory::clear(void* block, std::size_t bytes) {
  check("clear", cudaMemsetAsync(block, 0, bytes, stream_.handle()));
}

void DeviceMemory::touch(void* block, std::size_t bytes) {
  if (device_info().managed_at_any_time)
    check("memory", cudaMemPrefetchAsync(block, bytes, here(), 0, stream_.handle()));
}

#ifdef NORMLAB_CUDA_EMULATED
std::size_t DeviceMemory::gap() const { return 64; }
void DeviceMemory::begin_use(void* part, std::size_t bytes) {
  emulation::in_order(stream_.handle(), [=] { emulation::heap_begin_use(part, bytes); });
}
void DeviceMemory::end_use(void* part, std::size_t bytes) {
  emulation::in_order(stream_.handle(), [=] { emulation::heap_end_use(part, bytes); });
}
#else
std::size_t DeviceMemory::gap() const { return 0; }
void DeviceMemory::begin_use(void*, std::size_t) {}
void DeviceMemory::end_use(void*, std::size_t) {}
#endif

Buffer::~Buffer() { release(); }
void Buffer::release() { free_block(place_, std::exchange(memory_, nullptr), std::exchange(bytes_, 0)); }

void* Buffer::take(std::size_t bytes) {
  if (bytes > bytes_) {
    require_no_recording(name_, stream_);
    stream_.synchronize();
    release();
    memory_ = from(place_, bytes, [](std::size_t all) {
      const TurnToAllocate turn(turns());
      void* const block = take_free(all, [&](void** to) { return cudaMalloc(to, all); });
      held.take(all);
      return block;
    });
    bytes_ = bytes;
    stream_.buffer_grows();
  }
#ifdef NORMLAB_CUDA_EMULATED
  emulation::in_order(stream_.handle(), [memory = memory_, all = bytes_, bytes] {
    emulation::heap_end_use(memory, all);
    emulation::heap_begin_use(memory, bytes);
  });
#endif
  return memory_;
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
