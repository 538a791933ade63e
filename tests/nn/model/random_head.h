// Initial values for tests of whole steps.
#pragma once

#include "core/random.h"
#include "nn/training/engine.h"

namespace normlab {

/// A head that is not zero, or nothing behind it would get a gradient in the first step.
inline void random_head(Engine& engine) {
  const Tensor head = engine.parameters().value(engine.parameters().find("head.weight"));
  const StreamKey key = stream_key(8, "test", "head");
  for (std::int64_t i = 0; i < head.size(); ++i) {
    const double v = 0.3 * normal(key, static_cast<std::uint64_t>(i));
    if (head.dtype() == DType::f64)
      head.data<double>()[i] = v;
    else
      head.data<float>()[i] = static_cast<float>(v);
  }
}

}  // namespace normlab
