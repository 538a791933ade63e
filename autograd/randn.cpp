#include "autograd/randn.h"

#include "core/random.h"

namespace normlab {

Tensor randn(Arena& arena, const Shape& shape, DType dtype, std::uint64_t seed, double std, double mean) {
  Tensor t = arena.empty(shape, dtype);
  const StreamKey key = stream_key(seed, "test", "randn");
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const double value = mean + std * normal(key, static_cast<std::uint64_t>(i));
    if (dtype == DType::f64)
      t.data<double>()[i] = value;
    else if (dtype == DType::f32)
      t.data<float>()[i] = static_cast<float>(value);
    else
      t.data<bf16>()[i] = bf16(value);
  }
  return t;
}

}  // namespace normlab
