#include "core/collective.h"

#include <algorithm>

namespace normlab {
namespace {
std::span<double>& values_of(void* part) { return *static_cast<std::span<double>*>(part); }
}  // namespace

void Collective::all_reduce(std::span<double> values) {
  meet(&values, [](std::span<void* const> parts) {
    const std::span<double> total = values_of(parts[0]);
    for (std::size_t p = 1; p < parts.size(); ++p)
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += values_of(parts[p])[i];
    for (std::size_t p = 1; p < parts.size(); ++p) std::copy(total.begin(), total.end(), values_of(parts[p]).begin());
  });
}

void Collective::broadcast(std::span<double> values, int root) {
  meet(&values, [root](std::span<void* const> parts) {
    const std::span<double> source = values_of(parts[static_cast<std::size_t>(root)]);
    for (void* part : parts)
      if (values_of(part).data() != source.data()) std::copy(source.begin(), source.end(), values_of(part).begin());
  });
}

void Collective::barrier() {
  int nothing = 0;
  meet(&nothing, [](std::span<void* const>) {});
}

}  // namespace normlab
