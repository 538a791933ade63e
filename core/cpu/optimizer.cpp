// One chunk of the flat parameter buffer: sum of the lanes, clipping, each optimiser's rule, weight average.
#include <algorithm>
#include <cmath>
#include <span>

#include "core/cpu/bf16_products.h"
#include "core/cpu/kernel.h"
#include "core/cpu/product.h"
#include "core/lane_tree.h"
#include "core/update_rules.h"

namespace normlab {
using namespace cpu;

void CpuBackend::sum_lanes(std::int64_t lanes, std::int64_t lane_stride, Tensor lane0, double* square) {
  for_param_type("sum_lanes", lane0.dtype(), [&]<class P>(Type<P>) {
    P* g = lane0.data<P>();
    const std::int64_t n = lane0.size();
    if (lanes > 1)
      with_lanes(lanes, [&](auto count) {
        each_vector<P>(n, [&](std::int64_t i, auto values) {
          store(g + i, lane_tree<count>([&](std::int64_t l) { return load(g + l * lane_stride + i, values); }), values);
        });
      });
    *square = sum<double>(n, [&](auto i) { return double(g[i]) * double(g[i]); });
  });
}

void CpuBackend::clip(ClipForm form, std::int64_t chunks, const double* squares, StepState* state) {
  double total = 0.0;
  for (std::int64_t b = 0; b < chunks; ++b) total += squares[b];
  set_clipping(form, total, state);
}

void CpuBackend::update(const UpdateRule& rule, const ParameterUpdate& u) {
  if (u.state->nonfinite) return;
  for_rule(rule, u, [&](auto type, const auto& settings, const auto& buffers) {
    const typename decltype(type)::type each(settings, u.factors, *u.state, buffers);
    for (std::int64_t i = 0, n = u.p.size(); i < n; ++i) each(i);
  });
  if (u.rounded) round_to_bf16(u.p, u.rounded);  // still in a cache
}

void CpuBackend::lamb_moments(const LambSettings& s, const ParameterUpdate& u, LambSquares* squares) {
  *squares = {};
  if (u.state->nonfinite) return;
  for_param_type("lamb_moments", u.p.dtype(), [&]<class P>(Type<P>) {
    const LambMoments<P> moments(s, u.factors, *u.state, buffers_of<P, P>(u));
    const std::int64_t n = u.p.size();
    for (std::int64_t i = 0; i < n; ++i) moments(i);
    squares->parameters =
        sum<double>(n, [&](auto i) { return double(moments.parameter(i)) * double(moments.parameter(i)); });
    squares->direction = sum<double>(n, [&](auto i) {
      const double r = double(moments.direction(i));
      return r * r;
    });
  });
}

void CpuBackend::lamb_ratio(std::int64_t pieces, const LambSquares* squares, double* ratio) {
  LambSquares sum;
  for (std::int64_t i = 0; i < pieces; ++i) {
    sum.parameters += squares[i].parameters;
    sum.direction += squares[i].direction;
  }
  *ratio = trust_ratio(sum);
}

namespace {

/// X X' or X' X, its square, and the product of their combination with X.
struct MuonProducts {
  Bf16Product square, fourth, step;  // of numbers of any type
};
MuonProducts muon_products(std::int64_t rows, std::int64_t cols) {
  const std::int64_t n = std::min(rows, cols), k = std::max(rows, cols);
  const bool wide = rows <= cols;
  return {{.m = n, .n = n, .k = k, .transpose_a = !wide, .transpose_b = wide},
          {.m = n, .n = n, .k = n},
          {.m = rows, .n = cols, .k = n}};
}

/// Steps X [rows, cols] towards an orthogonal matrix. F is the type of its products' factors, P or bf16.
/// multiply(product, a, b, c) writes c in P.
template <class F, class P, class Multiply>
void orthogonalise(std::int64_t rows, std::int64_t cols, P* x, Multiply&& multiply) {
  constexpr bool kRounds = !std::is_same_v<F, P>;
  const MuonProducts products = muon_products(rows, cols);
  const bool wide = rows <= cols;
  const std::int64_t size = rows * cols, squared = std::min(rows, cols) * std::min(rows, cols);
  const Scratch<P> step(size);
  const Scratch<P> second(squared);
  const Scratch<P> fourth(squared);
  const Scratch<F> narrow(kRounds ? size + squared : 0);
  F *rounded = narrow, *square = narrow + size;
  if constexpr (!kRounds) rounded = x, square = second;
  const auto round = [](std::int64_t n, const P* from, F* to) {
    if constexpr (kRounds)
      for (std::int64_t i = 0; i < n; ++i) to[i] = F(from[i]);
  };
  for (int n = 0; n < kMuonSteps; ++n) {
    round(size, x, rounded);
    multiply(products.square, rounded, rounded, second);
    round(squared, second, square);
    multiply(products.fourth, square, square, fourth);
    for (std::int64_t i = 0; i < squared; ++i) square[i] = F(P(kMuonB) * P(square[i]) + P(kMuonC) * fourth[i]);
    multiply(products.step, wide ? square : rounded, wide ? rounded : square, step);
    for (std::int64_t i = 0; i < size; ++i) x[i] = P(kMuonA) * P(rounded[i]) + step[i];
  }
}

}  // namespace

void CpuBackend::prepare_muon(std::int64_t rows, std::int64_t cols) {
  if (bf16_products_ == Bf16Products::emulated) return;
  const MuonProducts products = muon_products(rows, cols);
  for (const Bf16Product& product : {products.square, products.fourth, products.step}) bf16_prepare(product);
}

void CpuBackend::muon(const MuonSettings& s, const MuonBatch& batch, const ParameterUpdate& all) {
  if (all.state->nonfinite) return;
  for_param_type("muon", all.p.dtype(), [&]<class P>(Type<P>) {
    const UpdateBuffers<P> buffers = buffers_of<P, P>(all);
    const MuonDirection<P> direction(s, *all.state, buffers);
    const std::int64_t rows = batch.rows, cols = batch.cols, n = rows * cols;
    const Scratch<P> x(n);
    for (const MuonMatrix& of : std::span(batch.matrices, static_cast<std::size_t>(batch.count))) {
      if (of.first < 0) continue;
      for (std::int64_t i = 0; i < n; ++i) x[i] = direction(of.first + i);
      const double norm = std::sqrt(sum<double>(n, [&](auto i) { return double(x[i]) * double(x[i]); }));
      const P scale = P(1 / std::max(norm, kMuonSmallest));
      for (std::int64_t i = 0; i < n; ++i) x[i] *= scale;
      if (std::is_same_v<P, float> && s.bf16)
        orthogonalise<bf16>(rows, cols, x.begin(), [&](const Bf16Product& p, const bf16* a, const bf16* b, P* c) {
          bf16_product(bf16_products_, p, a, b, nullptr, c);
        });
      else
        orthogonalise<P>(rows, cols, x.begin(), [&](const Bf16Product& p, const P* a, const P* b, P* c) {
          product(Product<P>{.m = p.m,
                             .n = p.n,
                             .k = p.k,
                             .a = p.transpose_a ? transposed(a, p.m) : plain(a, p.k),
                             .b = p.transpose_b ? transposed(b, p.k) : plain(b, p.n),
                             .c = c,
                             .c_row = p.n});
        });
      const MuonStep<P> after(s, rows, cols, of.factors, *all.state);
      P* p = buffers.p + of.first;
      const std::uint8_t* decays = buffers.decays + of.first;
      for (std::int64_t i = 0; i < n; ++i) p[i] = after(p[i], decays[i] != 0, x[i]);
      if (all.rounded) round_to_bf16(all.p.slice(of.first, n), all.rounded.slice(of.first, n));
    }
  });
}

void CpuBackend::average(double decay, const StepState* state, Tensor x, Tensor to) {
  if (state->nonfinite) return;
  for_param_type("average", x.dtype(), [&]<class P>(Type<P>) {
    const P *from = x.data<P>(), kept = P(decay), taken = P(1 - decay);
    P* mean = to.data<P>();
    for (std::int64_t i = 0, n = x.size(); i < n; ++i) mean[i] = kept * mean[i] + taken * from[i];
  });
}

void CpuBackend::round_to_bf16(Tensor p, Tensor to) {
  const float* from = p.data<float>();
  bf16* out = to.data<bf16>();
  for (std::int64_t i = 0, n = p.size(); i < n; ++i) out[i] = bf16(from[i]);
}

}  // namespace normlab
