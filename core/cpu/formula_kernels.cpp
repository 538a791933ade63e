// What the instructions of formulas do with vectors, but for functions of one value.
#include <functional>
#include <numeric>

#include "core/cpu/formula_ops.h"

namespace normlab::cpu {

using namespace formula;
namespace {

template <class A, class S>
void sum_channels(const Call<A>& call) {
  choose(call.ahead[0] != nullptr, [&](auto fetches) {
    for (std::int64_t r = 0; r < call.rows; ++r) {
      const S values(call, r);
      const Ahead ahead = call.ahead_of(r);
      call.out[r] = row_sum<A>(call.cols, [&](auto i, auto lanes) {
        if constexpr (decltype(fetches)::value) fetch<1, A>(ahead, i);
        return first(values(i, lanes), lanes);
      });
    }
  });
}
/// Eight or four rows are added in A, and these sums in double; other rows and single numbers in double.
template <class A, class S>
void sum_rows(const Call<A>& call) {
  const auto add = [&]<std::size_t... k>(std::int64_t row, std::index_sequence<k...>) {
    const S values[] = {S(call, row + std::int64_t(k))...};
    each_vector<A>(call.cols, [&](auto i, auto lanes) {
      Vec<A> sum = values[0](i, lanes);
      for (std::size_t r = 1; r < sizeof...(k); ++r) sum += values[r](i, lanes);
      add_to_doubles<A>(call.total + i, sum, lanes);
    });
  };
  const std::int64_t together = call.cols > 1 ? call.rows : 0;
  std::int64_t row = 0;
  for (; row + 8 <= together; row += 8) add(row, std::make_index_sequence<8>());
  for (; row + 4 <= together; row += 4) add(row, std::make_index_sequence<4>());
  for (; row < call.rows; ++row) add(row, std::make_index_sequence<1>());
}

/// The kernel for the numbers of factors, which do not grow from product to product.
template <class A>
Kernel<A> kernel_of_sum(const Instruction& i) {
  const auto factors = [&](std::size_t s) {
    return s >= i.summands ? -1
                           : int(std::count_if(&i.in[4 * s + 1], &i.in[4 * s] + 4, [](int r) { return r != kNone; }));
  };
  const std::array counts{factors(0), factors(1), factors(2)};
  Kernel<A> found = nullptr;
  const auto match = [&]<int a, int b, int c>(std::integer_sequence<int, a, b, c>) {
    if constexpr (a >= b && b >= c && (b >= 0 || c < 0)) {
      if (counts != std::array{a, b, c}) return;
      using S = Summands<A, a, b, c>;
      found = sum_rows<A, S>;
      if (i.reduction == Op::stop) found = write_values<A, S, std::identity>;
      if (i.reduction == Op::sum_c) found = sum_channels<A, S>;
    }
  };
  [&]<int... k>(std::integer_sequence<int, k...>) {
    (match(std::integer_sequence<int, k / 25, k / 5 % 5 - 1, k % 5 - 1>()), ...);
  }
  (std::make_integer_sequence<int, 100>());
  return found;
}

/// The largest or smallest value so far, and where it was first: a channel from 1 or a token from 0. NaN stays.
template <class A>
struct Extreme {
  A best = 0, at = -1;
  template <bool kLeast>
  void see(A value, std::int64_t place) {
    const bool better = kLeast ? !(value >= best) : !(value <= best);
    if (at < 0 || (best == best && better)) *this = {value, A(place)};
  }
};
template <class A, bool kLeast, bool kPlace>
void extreme_of_channels(const Call<A>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r) {
    Extreme<A> found;
    for (std::int64_t c = 0; c < call.cols; ++c)
      found.template see<kLeast>(call.in[1].values[r * call.in[1].step + c], c + 1);
    call.out[r] = kPlace ? found.at : found.best;
  }
}
/// Leaves best and at in the totals.
template <class A, bool kLeast>
void extreme_of_tokens(const Call<A>& call) {
  for (std::int64_t c = 0; c < call.cols; ++c) {
    double *const best = call.total + c, *const at = call.place + c;
    Extreme<double> found{*best, *at};
    for (std::int64_t r = 0; r < call.rows; ++r)
      found.template see<kLeast>(double(call.in[1].values[r * call.in[1].step + c]), call.token + r);
    *best = found.best;
    *at = found.at;
  }
}

}  // namespace

template <class A>
Kernel<A> kernel_for(const Instruction& i) {
  using V = Vec<A>;
  const Op r = i.reduction, op = i.op;
  if (op == Op::add) return kernel_of_sum<A>(i);
  if (r == Op::max_c) return extreme_of_channels<A, false, false>;
  if (r == Op::min_c) return extreme_of_channels<A, true, false>;
  if (r == Op::first_most_c) return extreme_of_channels<A, false, true>;
  if (r == Op::first_least_c) return extreme_of_channels<A, true, true>;
  if (r == Op::max_t || r == Op::first_most_t) return extreme_of_tokens<A, false>;
  if (r == Op::min_t || r == Op::first_least_t) return extreme_of_tokens<A, true>;
  if (op == Op::token) return [](const Call<A>& call) { std::iota(call.out, call.out + call.cols, A(call.token)); };
  if (op == Op::div) return map_kernel<A, 2>(std::divides<>());
  if (op == Op::min) return map_kernel<A, 2>([](V a, V b) { return b != b ? b : b < a ? b : a; });
  if (op == Op::max) return map_kernel<A, 2>([](V a, V b) { return b != b ? b : a < b ? b : a; });
  if (op == Op::same) return map_kernel<A, 3>([](V a, V b, V c) { return a == b ? c : V{}; });
  if (op == Op::times)
    return map_kernel<A, 2>([](V a, V b) {
      const V y = a * b;
      return ((a == 0) | (b == 0)) ? V{} : y;
    });
  if (op == Op::pow)
    return map_kernel<A, 2>([](V a, V b) {
      for (int k = 0; k < int(kLanes<A, kRowBytes>); ++k) b[k] = std::pow(a[k], b[k]);
      return a < 0 ? V{} + std::numeric_limits<A>::quiet_NaN() : b;
    });
  if (op == Op::select)
    return map_kernel<A, 4>([](V a, V b, V c, V d) {
      const V chosen = a < b ? c : d, sum = a + b;
      return ((a != a) | (b != b)) ? sum : chosen;  // NaN
    });
  return function_of<A>(op);
}

template Kernel<float> kernel_for<float>(const Instruction& i);
template Kernel<double> kernel_for<double>(const Instruction& i);

}  // namespace normlab::cpu
