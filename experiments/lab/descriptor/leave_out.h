// Which tensors a start leaves out.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/model/parameters.h"

namespace normlab {

/// The patterns of "leave_out". Remembers which of them were of use.
class LeaveOut {
 public:
  explicit LeaveOut(std::span<const std::string> patterns)
      : patterns_(patterns.begin(), patterns.end()), used_(patterns.size()) {}
  /// `other_classes`: the network to start from has another number of classes, for which "auto" leaves out the head.
  bool takes(const ParameterInfo& parameter, bool other_classes);
  /// A tensor that the network lacks.
  bool takes(std::string_view name);
  /// A pattern other than "auto" that has taken nothing.
  std::optional<std::size_t> unused() const;

 private:
  template <class Fits>
  bool any(const Fits& fits);
  std::vector<std::string> patterns_;
  std::vector<bool> used_;
};

}  // namespace normlab
