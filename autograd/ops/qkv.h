// What the forms of attention share: their sizes, and q, k, v where they lie side by side.
#pragma once

#include "autograd/ops.h"

namespace normlab {

/// q, k or v, or the gradient of one, where they lie side by side in [B, N, 3 D]: the tensor from its first value on.
inline Tensor qkv_third(const Tensor& t, int which) {
  if (!t) return t;
  const std::int64_t width = t.shape().back() / 3;
  return Tensor(static_cast<char*>(t.raw()) + static_cast<std::size_t>(which * width) * size_of(t.dtype()),
                {t.shape()[0], t.shape()[1], width}, t.dtype());
}

inline AttentionDims attention_dims(const char* op, const Shape& q, std::int64_t num_heads, std::int64_t stride,
                                    const Tensor& keep) {
  const std::int64_t batch = q[0], tokens = q[1], width = q[2];
  if (num_heads < 1 || width % num_heads != 0)
    throw InputError(concat(op, ": ", num_heads, " heads do not divide a width of ", width));
  if (keep) require_shape(op, "keep", keep.shape(), {batch, num_heads, tokens, tokens});
  return {batch, tokens, num_heads, width / num_heads, stride};
}

}  // namespace normlab
