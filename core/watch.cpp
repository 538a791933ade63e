#include "core/watch.h"

#include <chrono>

namespace normlab {
namespace {

class HostWatch final : public Watch {
 public:
  void mark() override { marks_.push_back(Clock::now()); }
  std::vector<Lap> take() override {
    std::vector<Lap> laps(marks_.size());
    for (std::size_t i = 1; i < marks_.size(); ++i)
      laps[i].seconds = std::chrono::duration<double>(marks_[i] - marks_[i - 1]).count();
    marks_.clear();
    return laps;
  }

 private:
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> marks_;
};

}  // namespace

std::unique_ptr<Watch> host_watch() { return std::make_unique<HostWatch>(); }

}  // namespace normlab
