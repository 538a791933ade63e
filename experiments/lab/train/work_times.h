// Divides a worker's time into parts, from the start of its process. The clock is always in exactly one part, so no
// time is counted twice or missed.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <utility>

namespace normlab {

/// start: from the start of the process, and of each trial before its first step. data: making batches in the step, or
/// waiting for them. waiting: for a trial.
enum class WorkPart : std::uint8_t { start, data, steps, evaluation, checkpoints, result, waiting };

struct WorkTimes {
  std::array<double, 7> seconds{};
  double& operator[](WorkPart part) { return seconds[std::size_t(part)]; }
  double operator[](WorkPart part) const { return seconds[std::size_t(part)]; }
};

class WorkClock {
 public:
  WorkPart enter(WorkPart part) {
    const auto now = std::chrono::steady_clock::now();
    times_[part_] += std::chrono::duration<double>(now - std::exchange(since_, now)).count();
    return std::exchange(part_, part);
  }
  const WorkTimes& times() const { return times_; }

 private:
  WorkTimes times_;
  WorkPart part_ = WorkPart::start;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

/// Counts time as `part` until the end of the scope. `clock` may be null.
class WorkScope {
 public:
  WorkScope(WorkClock* clock, WorkPart part) : clock_(clock) {
    if (clock_) before_ = clock_->enter(part);
  }
  ~WorkScope() {
    if (clock_) clock_->enter(before_);
  }
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  WorkClock* clock_;
  WorkPart before_{};
};

}  // namespace normlab
