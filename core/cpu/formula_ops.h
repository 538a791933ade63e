// The instructions of formulas on vectors: each reads its operands and writes its result once.
#pragma once

#include <functional>

#include "core/cpu/kernel.h"
#include "core/formula/program.h"

namespace normlab::cpu {

/// An operand of [rows, cols]: a vector for each row, or one value for it. `step`: from row to row.
template <class A>
struct View {
  const A* values;
  std::int64_t step;
  bool is_vector;
};
template <class A>
struct Call {
  View<A> in[4 * formula::kMostSummands]{};
  const formula::Instruction* instruction = nullptr;
  A* out = nullptr;
  std::int64_t rows = 1, cols = 1;
  double *total = nullptr, *place = nullptr;  // [cols] of a reduction over rows
  std::int64_t token = 0;                     // of the first row in its image
};
template <class A>
using Kernel = void (*)(const Call<A>&);

/// The kernel of a function of one value; null if `op` is none. Polynomials fuse products with sums.
template <class A>
Kernel<A> function_of(formula::Op op);

/// A sum of products of so many vectors, each times one number, in one row; -1: no product.
template <class A, int... kFactors>
struct Summands {
  static constexpr std::array kCount{kFactors...};
  static constexpr std::size_t kSummands = kCount[2] >= 0 ? 3 : kCount[1] >= 0 ? 2 : 1;
  Vec<A> same[kSummands];
  const A* factor[kSummands][formula::kMostFactors];
  [[gnu::always_inline]] Summands(const Call<A>& call, std::int64_t r) {
    for (std::size_t s = 0; s < kSummands; ++s) {
      const View<A>* const in = call.in + 4 * s;
      const A value = in[0].values ? in[0].values[r * in[0].step] : A(1);
      same[s] = Vec<A>{} + (call.instruction->minus[s] ? -value : value);
      for (int f = 0; f < kCount[s]; ++f) factor[s][f] = in[f + 1].values + r * in[f + 1].step;
    }
  }
  template <class L>
  [[gnu::always_inline]] Vec<A> operator()(std::int64_t i, L lanes) const {
    Vec<A> sum;
    for (std::size_t s = 0; s < kSummands; ++s) {
      Vec<A> product = same[s];
      for (int f = 0; f < kCount[s]; ++f) product = product * load(factor[s][f] + i, lanes);
      sum = s == 0 ? product : sum + product;
    }
    return sum;
  }
};

/// out = f(values).
template <class A, class S, class F>
static void write_values(const Call<A>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r) {
    const S values(call, r);
    A* const out = call.out + r * call.cols;
    each_vector<A>(call.cols, [&](auto i, auto lanes) {
      if constexpr (!std::is_same_v<F, std::identity>) prefetch_ahead(values.factor[0][0] + i);
      store(out + i, F()(values(i, lanes)), lanes);
    });
  }
}
/// What a function of one value reads: one factor, and what it is multiplied by.
template <class A>
using Argument = Summands<A, 1, -1, -1>;

/// out = f(in..).
template <class A, std::size_t kOperands, class F>
constexpr Kernel<A> map_kernel(F) {
  return [](const Call<A>& call) {
    for (std::int64_t r = 0; r < call.rows; ++r) {
      Vec<A> same[kOperands];
      const A* from[kOperands];
      std::int64_t by[kOperands];
      for (std::size_t k = 0; k < kOperands; ++k) {
        from[k] = call.in[k].values + r * call.in[k].step;
        by[k] = call.in[k].is_vector;
        if (by[k]) continue;
        same[k] = Vec<A>{} + *from[k];
        from[k] = reinterpret_cast<const A*>(&same[k]);
      }
      A* const out = call.out + r * call.cols;
      [&]<std::size_t... k>(std::index_sequence<k...>) {
        each_vector<A>(call.cols,
                       [&](auto i, auto lanes) { store(out + i, F()(load(from[k] + i * by[k], lanes)...), lanes); });
      }
      (std::make_index_sequence<kOperands>());
    }
  };
}

}  // namespace normlab::cpu
