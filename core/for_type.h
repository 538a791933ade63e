// Dispatch from a tensor's dtype to the type that a kernel is compiled for.
#pragma once

#include "core/dtype.h"
#include "core/error.h"

namespace normlab {

template <class T>
struct Type {
  using type = T;
};

/// Calls f(Type<T>{}) for the storage type T of an activation.
template <class F>
void for_type(const char* op, DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(Type<float>{});
    case DType::f64:
      return f(Type<double>{});
    case DType::bf16:
      return f(Type<bf16>{});
    default:
      throw InputError(concat(op, ": no kernel for ", to_string(dtype)));
  }
}
/// The same for parameters and gradients, which are f32 or f64.
template <class F>
void for_param_type(const char* op, DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      return f(Type<float>{});
    case DType::f64:
      return f(Type<double>{});
    default:
      throw InputError(concat(op, ": parameters must be f32 or f64, not ", to_string(dtype)));
  }
}

/// Calls f(Type<T>{}) for f32, f64 or i32.
template <class F>
void for_number_type(const char* op, DType dtype, F&& f) {
  if (dtype == DType::i32) return f(Type<std::int32_t>{});
  for_param_type(op, dtype, f);
}

}  // namespace normlab
