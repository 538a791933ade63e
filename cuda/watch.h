// How long kernels take, measured by events between them.
#pragma once

#include <deque>
#include <vector>

#include "core/watch.h"
#include "cuda/transfer.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// Before the first mark the stream waits for some milliseconds, so that what is asked of it meanwhile runs without gaps,
/// as in a recording. Each mark takes the GPU 1 to 2 microseconds.
class StreamWatch final : public Watch {
 public:
  explicit StreamWatch(const Stream& stream) : stream_(stream) {}
  void mark() override;
  std::vector<Lap> take() override;

 private:
  const Stream& stream_;
  std::deque<Event> events_;
  std::vector<std::int64_t> launches_;  // of the stream, at each mark
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
