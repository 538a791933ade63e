// The instructions of formulas on vectors: each reads its operands and writes its result once. None fuses a product with
// a sum, since each is a loop of its own.
#pragma once

#include "core/cpu/kernel.h"
#include "core/cpu/vector_exp.h"
#include "core/formula/program.h"

namespace normlab::cpu {

/// An operand for `rows` rows of a tile: a vector for each row, or one value for it. `step`: from row to row.
template <class A>
struct View {
  A* values = nullptr;
  std::int64_t step = 0;
  bool wide = true;
  A* row(std::int64_t r) const { return values + r * step; }
};

template <class A, bool kWide, class L>
[[gnu::always_inline]] static inline Vec<A> part_of(const A* p, std::int64_t i, L lanes) {
  if constexpr (kWide)
    return load(p + i, lanes);
  else
    return Vec<A>{} + *p;
}

/// out = f(a, ..): kWide says which operands are vectors. Rows that follow one another are one.
template <bool... kWide, class A, class F>
static void map_rows(const View<A>* in, const View<A>& out, std::int64_t rows, std::int64_t n, F&& f) {
  [&]<std::size_t... k>(std::index_sequence<k...>) {
    if (out.step == n && ((kWide ? in[k].step == n : in[k].step == 0) && ...)) {
      n *= rows;
      rows = 1;
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const A* const from[] = {in[k].row(r)...};
      A* const to = out.row(r);
      each_vector<A>(n, [&](auto i, auto lanes) { store(to + i, f(part_of<A, kWide>(from[k], i, lanes)...), lanes); });
    }
  }
  (std::make_index_sequence<sizeof...(kWide)>());
}
template <class A, class F>
static void map_one(const View<A>* in, const View<A>& out, std::int64_t rows, std::int64_t n, F&& f) {
  if (in[0].wide)
    map_rows<true>(in, out, rows, n, f);
  else
    map_rows<false>(in, out, rows, n, f);
}
template <class A, class F>
static void map_two(const View<A>* in, const View<A>& out, std::int64_t rows, std::int64_t n, F&& f) {
  if (in[0].wide && in[1].wide)
    map_rows<true, true>(in, out, rows, n, f);
  else if (in[0].wide)
    map_rows<true, false>(in, out, rows, n, f);
  else if (in[1].wide)
    map_rows<false, true>(in, out, rows, n, f);
  else
    map_rows<false, false>(in, out, rows, n, f);
}
/// f of more operands, each a vector or not.
template <int kOperands, class A, class F>
static void map_more(const View<A>* in, const View<A>& out, std::int64_t rows, std::int64_t n, F&& f) {
  for (std::int64_t r = 0; r < rows; ++r)
    each_vector<A>(n, [&](auto i, auto lanes) {
      Vec<A> v[kOperands];
      for (int k = 0; k < kOperands; ++k) v[k] = in[k].wide ? load(in[k].row(r) + i, lanes) : Vec<A>{} + *in[k].row(r);
      store(out.row(r) + i, f(v), lanes);
    });
}
/// A function of whole arrays, after `before` and followed by `last`(result, argument), which may be in one place.
template <class A, class Before, class Array, class Last>
static void map_array(const View<A>* in, const View<A>& out, std::int64_t rows, std::int64_t n, Before&& before,
                      Array&& array, Last&& last) {
  constexpr std::int64_t kPiece = 256;
  alignas(64) A piece[kPiece];
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < n; c += kPiece) {
      const std::int64_t count = std::min(kPiece, n - c);
      const A* const from = in[0].row(r) + c;
      each_vector<A>(count, [&](auto i, auto lanes) { store(piece + i, before(load(from + i, lanes)), lanes); });
      array(count, piece);
      each_vector<A>(count, [&](auto i, auto lanes) {
        store(out.row(r) + c + i, last(load(piece + i, lanes), load(from + i, lanes)), lanes);
      });
    }
}

template <class V>
[[gnu::always_inline]] static inline V size_of_lanes(V v) {
  return v < 0 ? -v : v;
}

/// The instructions but for loads, reductions and stores.
template <class A>
static void compute(formula::Op op, const View<A>* in, const View<A>& out, std::int64_t rows, std::int64_t n) {
  using V = Vec<A>;
  using formula::Op;
  const auto one = [&](auto f) { map_one(in, out, rows, n, f); };
  const auto two = [&](auto f) { map_two(in, out, rows, n, f); };
  const auto array = [&](auto f) { map_array(in, out, rows, n, std::identity(), f, [](V y, V) { return y; }); };
  constexpr bool kFloat = std::is_same_v<A, float>;
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
      if constexpr (kFloat)
        return one([](V v) { return tanh_of(v); });
      else
        return array([](auto count, A* p) { vector_tanh(count, p, p); });
    case Op::erf:
      if constexpr (kFloat)
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
      return map_array(
          in, out, rows, n, [](V v) { return -v; }, [](auto count, A* p) { vector_exp(count, p, p); },
          [](V e, V) { return 1 / (1 + e); });
    case Op::softplus:  // max(v, 0) + log(1 + exp(-|v|))
      return map_array(
          in, out, rows, n, [](V v) { return -size_of_lanes(v); },
          [](auto count, A* p) {
            vector_exp(count, p, p);
            vector_log1p(count, p, p);
          },
          [](V rest, V v) { return v > 0 ? v + rest : rest; });
    case Op::add:
      return two([](V a, V b) { return a + b; });
    case Op::sub:
      return two([](V a, V b) { return a - b; });
    case Op::mul:
      return two([](V a, V b) { return a * b; });
    case Op::times:
      return two([](V a, V b) {
        const V y = a * b;
        return (a == 0) | (b == 0) ? V{} : y;
      });
    case Op::div:
      return two([](V a, V b) { return a / b; });
    case Op::pow:
      return two([](V a, V b) {
        for (int i = 0; i < int(kLanes<A, kRowBytes>); ++i) a[i] = std::pow(a[i], b[i]);
        return a;
      });
    case Op::min:
      return two([](V a, V b) { return b != b ? b : b < a ? b : a; });
    case Op::max:
      return two([](V a, V b) { return b != b ? b : a < b ? b : a; });
    case Op::select:
      return map_more<4>(in, out, rows, n, [](const V(&v)[4]) {
        const V chosen = v[0] < v[1] ? v[2] : v[3], sum = v[0] + v[1];
        return (v[0] != v[0]) | (v[1] != v[1]) ? sum : chosen;
      });
    case Op::same:
      return map_more<3>(in, out, rows, n, [](const V(&v)[3]) { return v[0] == v[1] ? v[2] : V{}; });
    default:
      break;
  }
}

/// Four sums of a row, which the pieces of the row continue: in the order of row_sum().
template <class A>
using RowState = std::array<Vec<A>, 4>;

template <class A, class F>
[[gnu::always_inline]] static inline void sum_piece(std::int64_t n, RowState<A>& state, F&& term) {
  auto [s0, s1, s2, s3] = state;
  constexpr std::int64_t k = kLanes<A, kRowBytes>;
  constexpr AllLanes<A, kRowBytes> all;
  std::int64_t c = 0;
  for (; c + 4 * k <= n; c += 4 * k) {
    s0 += term(c, all);
    s1 += term(c + k, all);
    s2 += term(c + 2 * k, all);
    s3 += term(c + 3 * k, all);
  }
  for (; c + k <= n; c += k) s0 += term(c, all);
  if (c < n) {
    const Tail<A, kRowBytes> tail{n - c};
    s1 += first(term(c, tail), tail);
  }
  state = {s0, s1, s2, s3};
}

/// A row's sum, or of its products with b, from the piece that `begins` the row to the one that `ends` it.
template <class A>
static void sum_row(const View<A>* in, std::int64_t r, std::int64_t n, bool begins, bool ends, RowState<A>& state,
                    A& total) {
  if (begins) state = {};
  const A *const a = in[0].row(r), *const b = in[1].values ? in[1].row(r) : nullptr;
  if (b == nullptr)
    sum_piece<A>(n, state, [&](auto c, auto lanes) { return load(a + c, lanes); });
  else if (in[1].wide)
    sum_piece<A>(n, state, [&](auto c, auto lanes) { return load(a + c, lanes) * load(b + c, lanes); });
  else
    sum_piece<A>(n, state, [&](auto c, auto lanes) { return load(a + c, lanes) * *b; });
  if (ends) total = lane_sum((state[0] + state[1]) + (state[2] + state[3]));
}

/// The largest or smallest value so far and where it was first. NaN stays.
template <class A>
struct Extreme {
  A best = 0, at = 0;
  bool begun = false;
  void see(A value, A place, bool least) {
    const bool better = least ? !(value >= best) : !(value <= best);
    if (begun && (best != best || !better)) return;
    *this = {value, place, true};
  }
};

}  // namespace normlab::cpu
