// The instructions of formulas on vectors: each reads its operands and writes
// its result once.
#pragma once

#include <array>
#include <tuple>

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
  bool writes = false;
};
/// Writes `rows` rows of n values to `out`.
template <class A>
using Kernel = void (*)(const View<A>* in, const View<A>& out, std::int64_t rows, std::int64_t n, const Ahead& ahead);

/// The kernel of a function of one value; null if `op` is none. Polynomials
/// fuse products with sums.
template <class A>
Kernel<A> function_of(formula::Op op);

/// An operand in one row: a vector, or one value, which is read once.
template <class A, bool kWide>
struct Source {
  const A* values;
  Vec<A> same;
  Source() = default;
  Source(const View<A>& view, std::int64_t r) : values(view.row(r)) {
    if constexpr (!kWide) same = Vec<A>{} + *values;
  }
  template <class L>
  [[gnu::always_inline]] Vec<A> operator()(std::int64_t i, L lanes) const {
    if constexpr (kWide)
      return load(values + i, lanes);
    else
      return same;
  }
};

/// out = f(a, ..): kWide says which operands are vectors. Rows that follow one another are one.
template <bool... kWide, class A, class F>
[[gnu::always_inline]] static inline void map_rows(const View<A>* in, const View<A>& out, std::int64_t rows,
                                                   std::int64_t n, const Ahead& ahead, F f) {
  [&]<std::size_t... k>(std::index_sequence<k...>) {
    if (out.step == n && ((kWide ? in[k].step == n : in[k].step == 0) && ...)) {
      n *= rows;
      rows = 1;
    }
    const std::int64_t bytes = ahead.bytes;
    const bool writes = ahead.writes;
    for (std::int64_t r = 0; r < rows; ++r) {
      A* const to = out.row(r);
      const char* const next = ahead.memory ? ahead.memory + r * ahead.step : reinterpret_cast<const char*>(to);
      [&](const auto... from) {
        each_vector<A>(n, [&](auto i, auto lanes) {
          if (writes)
            __builtin_prefetch(next + i * bytes, 1);
          else
            __builtin_prefetch(next + i * bytes);
          store(to + i, f(from(i, lanes)...), lanes);
        });
      }(Source<A, kWide>(in[k], r)...);
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

/// The product of up to three operands in one row; the first is a vector.
template <class A, bool... kWide>
struct Product {
  std::tuple<Source<A, true>, Source<A, kWide>...> factors;
  Product() = default;
  Product(const View<A>* in, std::int64_t r) : Product(in, r, std::make_index_sequence<sizeof...(kWide)>()) {}
  template <std::size_t... k>
  Product(const View<A>* in, std::int64_t r, std::index_sequence<k...>)
      : factors(Source<A, true>(in[0], r), Source<A, kWide>(in[k + 1], r)...) {}
  template <class L>
  [[gnu::always_inline]] Vec<A> operator()(std::int64_t c, L lanes) const {
    return std::apply([&](const auto&... factor) { return (... * factor(c, lanes)); }, factors);
  }
};
/// f.template operator()<Product>() for the product of these operands.
template <class A, class F>
static void with_product(const View<A>* in, F&& f) {
  if (in[1].values == nullptr) return f.template operator()<Product<A>>();
  choose(in[1].wide, [&](auto second) {
    constexpr bool kSecond = decltype(second)::value;
    if (in[2].values == nullptr) return f.template operator()<Product<A, kSecond>>();
    choose(in[2].wide, [&](auto third) { f.template operator()<Product<A, kSecond, decltype(third)::value>>(); });
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
