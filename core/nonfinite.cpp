#include "core/nonfinite.h"

#include <algorithm>
#include <cmath>

namespace normlab {
namespace {

template <class T>
std::optional<NonFiniteValue> first_of(const T* values, std::int64_t size) {
  const T* found = std::find_if(values, values + size, [](T v) { return !std::isfinite(double(v)); });
  if (found == values + size) return std::nullopt;
  return NonFiniteValue{found - values, double(*found)};
}

}  // namespace

std::optional<NonFiniteValue> first_nonfinite(const Tensor& t) {
  switch (t.dtype()) {
    case DType::f64:
      return first_of(t.data<double>(), t.size());
    case DType::bf16:
      return first_of(t.data<bf16>(), t.size());
    case DType::f32:
      return first_of(t.data<float>(), t.size());
    default:
      return std::nullopt;
  }
}

const char* nonfinite_word(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

}  // namespace normlab
