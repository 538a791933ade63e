#include "cuda/memory.h"

#include "core/error.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

cudaMemLocation here() { return {cudaMemLocationTypeDevice, device_info().number}; }

/// Throws where the GPU has not so much left: managed memory would be given all the same, and spill into the host's.
void require_free(std::size_t bytes) {
  std::size_t free = 0, total = 0;
  check("memory", cudaMemGetInfo(&free, &total));
  if (bytes > free)
    throw EnvironmentError(concat("out of GPU memory: ", (bytes >> 20) + 1, " MB asked, ", free >> 20, " MB of ",
                                  total >> 20, " MB free; use a smaller batch, train.accumulate or fewer workers"));
}

}  // namespace

void* DeviceMemory::allocate(std::size_t bytes) {
  require_free(bytes);
  void* block = nullptr;
  check("memory", cudaMallocManaged(&block, bytes));
  if (device_info().managed_at_any_time) {
    check("memory", cudaMemAdvise(block, bytes, cudaMemAdviseSetPreferredLocation, here()));
    touch(block, bytes);  // so that what is free is seen by the next
  }
  return block;
}

void DeviceMemory::release(void* block, std::size_t) noexcept {
  cudaStreamSynchronize(stream_.handle());
  cudaFree(block);
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
void DeviceMemory::begin_use(void* part, std::size_t bytes) { emulation::heap_begin_use(part, bytes); }
void DeviceMemory::end_use(void* part, std::size_t bytes) { emulation::heap_end_use(part, bytes); }
#else
std::size_t DeviceMemory::gap() const { return 0; }
void DeviceMemory::begin_use(void*, std::size_t) {}
void DeviceMemory::end_use(void*, std::size_t) {}
#endif

Buffer::~Buffer() { cudaFree(memory_); }

void* Buffer::take(std::size_t bytes) {
  if (bytes > bytes_) {
    stream_.synchronize();
    check("memory", cudaFree(memory_));
    memory_ = nullptr;
    bytes_ = 0;
    require_free(bytes);
    check("memory", cudaMalloc(&memory_, bytes));
    bytes_ = bytes;
  }
#ifdef NORMLAB_CUDA_EMULATED
  emulation::heap_end_use(memory_, bytes_);
  emulation::heap_begin_use(memory_, bytes);
#endif
  return memory_;
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
