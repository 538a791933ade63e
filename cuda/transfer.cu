#include "cuda/transfer.h"

#include <cstring>

namespace normlab::NORMLAB_CUDA_NAMESPACE {

Event::Event(Kind kind) {
  const unsigned wait = device_is_shared() ? cudaEventBlockingSync : cudaEventDefault;
  check("event",
        cudaEventCreateWithFlags(&handle_, (kind == Kind::timed ? cudaEventDefault : cudaEventDisableTiming) | wait));
}
Event::~Event() { cudaEventDestroy(handle_); }
void Event::record(const Stream& stream) const { check("event", cudaEventRecord(handle_, stream.handle())); }
void Event::hold(const Stream& stream) const { check("event", cudaStreamWaitEvent(stream.handle(), handle_, 0)); }
void Event::wait() const { check("event", cudaEventSynchronize(handle_)); }
double Event::seconds_after(const Event& earlier) const {
  float milliseconds = 0;
  check("event", cudaEventElapsedTime(&milliseconds, earlier.handle_, handle_));
  return 1e-3 * double(milliseconds);
}

PinnedBuffer::~PinnedBuffer() {
  if (memory_) cudaFreeHost(memory_);
}

void PinnedBuffer::resize(std::size_t bytes) {
  if (memory_) check("pinned memory", cudaFreeHost(memory_));
  memory_ = nullptr;
  bytes_ = 0;
  void* memory = nullptr;
  check("pinned memory", cudaMallocHost(&memory, bytes));
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
}

Tensor Uploads::bring(const Tensor& host) {
  Turn &now = turns_[next_], &before = turns_[1 - next_];
  next_ = 1 - next_;
  before.used.record(kernels_);  // by all kernels started so far; later ones read the new buffer
  const std::size_t bytes = host.bytes();
  const void* from = host.raw();
  cudaPointerAttributes memory{};
  check("upload", cudaPointerGetAttributes(&memory, from));
  if (memory.type != cudaMemoryTypeHost) {
    now.copied.wait();  // the pinned bytes are free
    if (now.pinned.bytes() < bytes) now.pinned.resize(bytes);
    std::memcpy(now.pinned.data(), from, bytes);
    from = now.pinned.data();
  }
  auto* const to = now.on_device.get<std::byte>(static_cast<std::int64_t>(bytes));
  now.used.hold(copies_);
  check("upload", cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, copies_.handle()));
  now.copied.record(copies_);
  now.copied.hold(kernels_);
  return Tensor(to, host.shape(), host.dtype());
}

void Readback::add(const Tensor& from, void* to) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t bytes = from.bytes(), at = (used_ + kAlignment - 1) / kAlignment * kAlignment;
  if (at + bytes > pinned_.bytes()) {
    wait();
    pinned_.resize(2 * (at + bytes));
    return add(from, to);
  }
  check("read", cudaMemcpyAsync(pinned_.data() + at, from.raw(), bytes, cudaMemcpyDeviceToHost, stream_.handle()));
  copies_.push_back({at, bytes, to});
  used_ = at + bytes;
}

void Readback::wait() {
  stream_.synchronize();
  for (const Copy& c : copies_) std::memcpy(c.to, pinned_.data() + c.at, c.bytes);
  forget();
}

void Readback::forget() {  // later copies to the pinned memory follow in the stream
  copies_.clear();
  used_ = 0;
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
