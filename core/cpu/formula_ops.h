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
/// Memory that is read in the next block, or written at the end of this one. An instruction asks for it while it computes,
/// since one that mostly moves memory could not hide that: a function for three tensors, a sum of products for one.
using Ahead = std::array<const char*, 3>;
template <class A>
struct Call {
  View<A> in[4 * formula::kMostSummands]{};
  const formula::Instruction* instruction = nullptr;
  A* out = nullptr;
  std::int64_t rows = 1, cols = 1, out_step = 0;
  double *total = nullptr, *place = nullptr;  // [cols] of a reduction over rows
  std::int64_t token = 0;                     // of the first row in its image
  Ahead ahead{};                              // of the block's first value; null: nothing
  std::int64_t ahead_step = 0;                // from row to row, in bytes
  Ahead ahead_of(std::int64_t row) const {
    if (!ahead[0]) return {};
    return {ahead[0] + row * ahead_step, ahead[1] + row * ahead_step, ahead[2] + row * ahead_step};
  }
};
template <std::size_t kCount, class A>
[[gnu::always_inline]] inline void fetch(const Ahead& row, std::int64_t i) {
  for (std::size_t k = 0; k < kCount; ++k) __builtin_prefetch(row[k] + i * std::int64_t(sizeof(A)));
}
template <class A>
using Kernel = void (*)(const Call<A>&);

/// The kernel of an instruction; null if it reads an input.
template <class A>
Kernel<A> kernel_for(const formula::Instruction& i);
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
  constexpr bool kIsFunction = !std::is_same_v<F, std::identity>;
  choose(call.ahead[0] != nullptr, [&](auto fetches) {
    for (std::int64_t r = 0; r < call.rows; ++r) {
      const S values(call, r);
      A* const out = call.out + r * call.out_step;
      const Ahead ahead = call.ahead_of(r);
      each_vector<A>(call.cols, [&](auto i, auto lanes) {
        if constexpr (decltype(fetches)::value) fetch<kIsFunction ? 3 : 1, A>(ahead, i);
        store(out + i, F()(values(i, lanes)), lanes);
      });
    }
  });
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
      A* const out = call.out + r * call.out_step;
      [&]<std::size_t... k>(std::index_sequence<k...>) {
        each_vector<A>(call.cols,
                       [&](auto i, auto lanes) { store(out + i, F()(load(from[k] + i * by[k], lanes)...), lanes); });
      }
      (std::make_index_sequence<kOperands>());
    }
  };
}

}  // namespace normlab::cpu
