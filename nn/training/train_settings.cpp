#include "nn/training/train_settings.h"

#include "core/backend.h"

namespace normlab {

Backend& in_precision(Backend& backend, Precision p) {
  if (p == Precision::tf32) return backend.with_tf32();
  if (!is_bf16(p)) return backend;
  return backend.with_bf16(p == Precision::bf16 ? Bf16Products::native : Bf16Products::emulated);
}

}  // namespace normlab
