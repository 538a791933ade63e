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

/// A function of whole arrays, after `before` and followed by `last`(result,
/// argument).
template <class A, class Before, class Array, class Last>
constexpr Kernel<A> array_kernel(Before, Array, Last) {
  return [](const View<A>* in, const View<A>& out, std::int64_t rows, std::int64_t n, const Ahead&) {
    constexpr std::int64_t kPiece = 256;
    alignas(64) A piece[kPiece];
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < n; c += kPiece) {
        const std::int64_t count = std::min(kPiece, n - c);
        const A* const from = in[0].row(r) + c;
        A* const to = out.row(r) + c;
        each_vector<A>(count, [&](auto i, auto lanes) { store(piece + i, Before()(load(from + i, lanes)), lanes); });
        Array()(count, piece);
        each_vector<A>(count, [&](auto i, auto lanes) {
          store(to + i, Last()(load(piece + i, lanes), load(from + i, lanes)), lanes);
        });
      }
  };
}

}  // namespace

template <class A>
Kernel<A> function_of(formula::Op op) {
  using V = Vec<A>;
  using formula::Op;
  const auto one = [](auto f) { return map_kernel<A, 1>(f); };
  const auto array = [](auto f) { return array_kernel<A>(std::identity(), f, [](V y, V) { return y; }); };
  switch (op) {
    case Op::stop:
      return one([](V v) { return v; });
    case Op::neg:
      return one([](V v) { return -v; });
    case Op::inverse:
      return one([](V v) { return 1 / v; });
    case Op::abs:
      return one([](V v) { return size_of_lanes(v); });
    case Op::sign:
      return one([](V v) { return v > 0 ? V{} + 1 : v < 0 ? V{} - 1 : v; });
    case Op::sqrt:
      return one([](V v) {
        for (int i = 0; i < int(kLanes<A, kRowBytes>); ++i) v[i] = std::sqrt(v[i]);
        return v;
      });
    case Op::exp:
      return array([](auto count, A* p) { vector_exp(count, p, p); });
    case Op::expm1:
      return array([](auto count, A* p) { vector_expm1(count, p, p); });
    case Op::log:
      return array([](auto count, A* p) { vector_log(count, p, p); });
    case Op::log1p:
      return array([](auto count, A* p) { vector_log1p(count, p, p); });
    case Op::tanh:
      if constexpr (std::is_same_v<A, float>)
        return one([](V v) { return tanh_of(v); });
      else
        return array([](auto count, A* p) { vector_tanh(count, p, p); });
    case Op::erf:
      if constexpr (std::is_same_v<A, float>)
        return one([](V v) { return erf_of(v); });
      else
        return array([](auto count, A* p) { vector_erf(count, p, p); });
    case Op::atan:
      return array([](auto count, A* p) { vector_atan(count, p, p); });
    case Op::sin:
      return array([](auto count, A* p) { vector_sin(count, p, p); });
    case Op::cos:
      return array([](auto count, A* p) { vector_cos(count, p, p); });
    case Op::sigmoid:
      return array_kernel<A>([](V v) { return -v; }, [](auto count, A* p) { vector_exp(count, p, p); },
                             [](V e, V) { return 1 / (1 + e); });
    case Op::softplus:  // max(v, 0) + log(1 + exp(-|v|))
      return array_kernel<A>([](V v) { return -size_of_lanes(v); },
                             [](auto count, A* p) {
                               vector_exp(count, p, p);
                               vector_log1p(count, p, p);
                             },
                             [](V rest, V v) { return v > 0 ? v + rest : rest; });
    default:
      return nullptr;
  }
}

template Kernel<float> function_of<float>(formula::Op op);
template Kernel<double> function_of<double>(formula::Op op);

}  // namespace normlab::cpu
