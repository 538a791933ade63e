// The functions of formulas.
#include <functional>

#include "core/cpu/formula_ops.h"
#include "core/cpu/vector_exp.h"

namespace normlab::cpu {
namespace {

template <class V>
[[gnu::always_inline]] inline V size_of_lanes(V v) {
  return v < 0 ? -v : v;
}

/// A function of whole arrays, after `before` and followed by `last`(result, argument).
template <class A, class Before, class Array, class Last>
constexpr Kernel<A> array_kernel(Before, Array, Last) {
  return [](const Call<A>& call) {
    constexpr std::int64_t kPiece = 256;
    alignas(64) A piece[kPiece];
    for (std::int64_t r = 0; r < call.rows; ++r) {
      const Argument<A> values(call, r);
      A* const out = call.out + r * call.out_step;
      const Ahead ahead = call.ahead_of(r);
      for (std::int64_t begin = 0; begin < call.cols; begin += kPiece) {
        const std::int64_t count = std::min(kPiece, call.cols - begin);
        each_vector<A>(count, [&](auto i, auto lanes) {
          if (call.ahead[0]) fetch<3, A>(ahead, begin + i);
          store(piece + i, Before()(values(begin + i, lanes)), lanes);
        });
        Array()(count, piece);
        each_vector<A>(count, [&](auto i, auto lanes) {
          store(out + begin + i, Last()(load(piece + i, lanes), values(begin + i, lanes)), lanes);
        });
      }
    }
  };
}

}  // namespace

template <class A>
Kernel<A> function_of(formula::Op op) {
  using V = Vec<A>;
  using formula::Op;
  const auto one = [](auto f) -> Kernel<A> { return write_values<A, Argument<A>, decltype(f)>; };
  const auto array = [](auto f) { return array_kernel<A>(std::identity(), f, [](V y, V) { return y; }); };
  if (op == Op::inverse) return one([](V v) { return 1 / v; });
  if (op == Op::abs) return one([](V v) { return size_of_lanes(v); });
  if (op == Op::sign) return one([](V v) { return v > 0 ? V{} + 1 : v < 0 ? V{} - 1 : v; });
  if (op == Op::exp) return array([](auto count, A* p) { vector_exp(count, p, p); });
  if (op == Op::expm1) return array([](auto count, A* p) { vector_expm1(count, p, p); });
  if (op == Op::log) return array([](auto count, A* p) { vector_log(count, p, p); });
  if (op == Op::log1p) return array([](auto count, A* p) { vector_log1p(count, p, p); });
  if (op == Op::atan) return array([](auto count, A* p) { vector_atan(count, p, p); });
  if (op == Op::sin) return array([](auto count, A* p) { vector_sin(count, p, p); });
  if (op == Op::cos) return array([](auto count, A* p) { vector_cos(count, p, p); });
  if (op == Op::sqrt)
    return one([](V v) {
      for (int i = 0; i < int(kLanes<A, kRowBytes>); ++i) v[i] = std::sqrt(v[i]);
      return v;
    });
  if constexpr (std::is_same_v<A, float>) {
    if (op == Op::tanh) return one([](V v) { return tanh_of(v); });
    if (op == Op::erf) return one([](V v) { return erf_of(v); });
  }
  if (op == Op::tanh) return array([](auto count, A* p) { vector_tanh(count, p, p); });
  if (op == Op::erf) return array([](auto count, A* p) { vector_erf(count, p, p); });
  if (op == Op::sigmoid)
    return array_kernel<A>([](V v) { return -v; }, [](auto count, A* p) { vector_exp(count, p, p); },
                           [](V e, V) { return 1 / (1 + e); });
  if (op == Op::softplus)  // max(v, 0) + log(1 + exp(-|v|))
    return array_kernel<A>([](V v) { return -size_of_lanes(v); },
                           [](auto count, A* p) {
                             vector_exp(count, p, p);
                             vector_log1p(count, p, p);
                           },
                           [](V rest, V v) { return v > 0 ? v + rest : rest; });
  return nullptr;
}

template Kernel<float> function_of<float>(formula::Op op);
template Kernel<double> function_of<double>(formula::Op op);

}  // namespace normlab::cpu
