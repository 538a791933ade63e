#include "cuda/watch.h"

#include <chrono>

#include "cuda/launch.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

#ifdef NORMLAB_CUDA_EMULATED
__device__ unsigned long long nanoseconds() {
  return static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count());
}
#else
__device__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}
#endif

__global__ void hold_kernel(unsigned long long duration) {
  const unsigned long long begin = nanoseconds();
  while (nanoseconds() - begin < duration) {
  }
}

constexpr unsigned long long kHold = 10'000'000;  // nanoseconds; the host starts 400 kernels in about 3 ms

}  // namespace

void StreamWatch::mark() {
  if (launches_.empty()) launch("hold", hold_kernel, {1, 1}, stream_, kHold);
  if (events_.size() == launches_.size()) events_.emplace_back(Event::Kind::timed);
  events_[launches_.size()].record(stream_);
  launches_.push_back(stream_.launches());
}

std::vector<Watch::Lap> StreamWatch::take() {
  std::vector<Lap> laps(launches_.size());
  if (!laps.empty()) events_[laps.size() - 1].wait();
  for (std::size_t i = 1; i < laps.size(); ++i)
    laps[i] = {events_[i].seconds_after(events_[i - 1]), launches_[i] - launches_[i - 1]};
  launches_.clear();
  return laps;
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
