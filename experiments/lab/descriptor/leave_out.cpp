#include "experiments/lab/descriptor/leave_out.h"

#include "nn/model/freeze.h"

namespace normlab {
namespace {
constexpr std::string_view kAuto = "auto";
}  // namespace

template <class Fits>
bool LeaveOut::any(const Fits& fits) {
  bool taken = false;
  for (std::size_t i = 0; i < patterns_.size(); ++i)
    if (fits(patterns_[i])) taken = used_[i] = true;
  return taken;
}

bool LeaveOut::takes(const ParameterInfo& parameter, bool other_classes) {
  const bool other_head = other_classes && (parameter.role == Role::head || parameter.role == Role::head_dist);
  return any(
      [&](const std::string& pattern) { return pattern == kAuto ? other_head : stands_for(pattern, parameter); });
}

bool LeaveOut::takes(std::string_view name) {
  return any([&](const std::string& pattern) { return pattern != kAuto && name_fits(pattern, name); });
}

std::optional<std::size_t> LeaveOut::unused() const {
  for (std::size_t i = 0; i < patterns_.size(); ++i)
    if (!used_[i] && patterns_[i] != kAuto) return i;
  return std::nullopt;
}

}  // namespace normlab
