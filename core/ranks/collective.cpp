#include "core/ranks/collective.h"

#include <algorithm>

namespace normlab {
namespace {

std::span<double>& values_of(void* own) { return *static_cast<std::span<double>*>(own); }
double value(Collective::Bytes bytes, std::size_t i) { return reinterpret_cast<const double*>(bytes.data())[i]; }

}  // namespace

void Collective::all_reduce(std::span<double> values) {
  meet(std::as_bytes(values), &values, [](std::span<const Bytes> all, std::span<void* const> here) {
    std::vector<double> total(values_of(here[0]).size());
    for (std::size_t i = 0; i < total.size(); ++i) {
      total[i] = value(all[0], i);
      for (const Bytes& part : all.subspan(1)) total[i] += value(part, i);
    }
    for (void* own : here) std::copy(total.begin(), total.end(), values_of(own).begin());
  });
}

void Collective::broadcast(std::span<double> values, int root) {
  meet(std::as_bytes(values), &values, [root](std::span<const Bytes> all, std::span<void* const> here) {
    const Bytes source = all[static_cast<std::size_t>(root)];
    for (void* own : here)
      for (std::size_t i = 0; i < values_of(own).size(); ++i) values_of(own)[i] = value(source, i);
  });
}

void Collective::barrier() {
  meet({}, nullptr, [](std::span<const Bytes>, std::span<void* const>) {});
}

}  // namespace normlab
