// The instructions of formulas on vectors: each reads its operands and writes
// its result once.
#pragma once

#include "core/cpu/kernel.h"
#include "core/formula/program.h"

namespace normlab::cpu {

/// An operand for some rows of a tile: a vector for each row, or one value for
/// it. `step`: from row to row.
template <class A>
struct View {
  A* values;
  std::int64_t step;
  bool wide;
  A* row(std::int64_t r) const { return values + r * step; }
};
/// Memory to ask for meanwhile, in values of `bytes`; `step` bytes from row to
/// row.
struct Ahead {
  const char* memory = nullptr;
  std::int64_t step = 0, bytes = 0;
};
/// Writes `rows` rows of n values to `out`.
template <class A>
using Kernel = void (*)(const View<A>* in, const View<A>& out, std::int64_t rows, std::int64_t n, const Ahead& ahead);

/// The kernel of a function of one value; null if `op` is none. Polynomials
/// fuse products with sums.
template <class A>
Kernel<A> function_of(formula::Op op);

template <class A, bool kWide, class L>
[[gnu::always_inline]] static inline Vec<A> part_of(const A* p, std::int64_t i, L lanes) {
  if constexpr (kWide)
    return load(p + i, lanes);
  else
    return Vec<A>{} + *p;
}

/// out = f(a, ..): kWide says which operands are vectors. Rows that follow one
/// another are one.
template <bool... kWide, class A, class F>
[[gnu::always_inline]] static inline void map_rows(const View<A>* in, const View<A>& out, std::int64_t rows,
                                                   std::int64_t n, const Ahead& ahead, F f) {
  [&]<std::size_t... k>(std::index_sequence<k...>) {
    if (out.step == n && ((kWide ? in[k].step == n : in[k].step == 0) && ...)) {
      n *= rows;
      rows = 1;
    }
    const std::int64_t bytes = ahead.bytes;
    for (std::int64_t r = 0; r < rows; ++r) {
      const A* const from[] = {in[k].row(r)...};
      A* const to = out.row(r);
      const char* const next = ahead.memory ? ahead.memory + r * ahead.step : reinterpret_cast<const char*>(to);
      each_vector<A>(n, [&](auto i, auto lanes) {
        __builtin_prefetch(next + i * bytes);
        store(to + i, f(part_of<A, kWide>(from[k], i, lanes)...), lanes);
      });
    }
  }
  (std::make_index_sequence<sizeof...(kWide)>());
}
/// The same for kOperands more operands, each a vector or not.
template <int kOperands, bool... kWide, class A, class F>
static void map(const View<A>* in, const View<A>& out, std::int64_t rows, std::int64_t n, const Ahead& ahead, F f) {
  if constexpr (kOperands == 0)
    map_rows<kWide...>(in, out, rows, n, ahead, f);
  else if (in[sizeof...(kWide)].wide)
    map<kOperands - 1, kWide..., true>(in, out, rows, n, ahead, f);
  else
    map<kOperands - 1, kWide..., false>(in, out, rows, n, ahead, f);
}
template <class A, int kOperands, class F>
constexpr Kernel<A> map_kernel(F) {
  return [](const View<A>* in, const View<A>& out, std::int64_t rows, std::int64_t n, const Ahead& ahead) {
    map<kOperands>(in, out, rows, n, ahead, F());
  };
}

/// Sums of a row, which the pieces of the row continue: in the order of
/// row_sum().
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

/// f(term) for the product of up to three operands in row r; the first is a
/// vector.
template <class A, class F>
[[gnu::always_inline]] static inline void with_product(const View<A>* in, F&& f) {
  const auto factor = [&](std::size_t k, auto wide) {
    return [&view = in[k]](auto r, auto c, auto lanes) {
      return part_of<A, decltype(wide)::value>(view.row(r), c, lanes);
    };
  };
  const auto a = factor(0, std::true_type());
  if (in[1].values == nullptr) return f(a);
  choose(in[1].wide, [&](auto second) {
    const auto b = factor(1, second);
    if (in[2].values == nullptr) return f([&](auto r, auto c, auto lanes) { return a(r, c, lanes) * b(r, c, lanes); });
    choose(in[2].wide, [&](auto third) {
      const auto last = factor(2, third);
      f([&](auto r, auto c, auto lanes) { return a(r, c, lanes) * b(r, c, lanes) * last(r, c, lanes); });
    });
  });
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
