// The flat parameter buffer: sum of the lanes, clipping, each optimiser's rule, weight average. What changes from step
// to step is read from the StepState on the GPU, so that the launches of all steps are the same.
#include "core/lane_tree.h"
#include "core/update_rules.h"
#include "cuda/map.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

constexpr int kThreads = 256;

/// Blocks for n values: a function of n alone, which fixes the order of sums. Few enough that each thread's setup does
/// not matter.
std::int64_t blocks_for(std::int64_t n) {
  constexpr std::int64_t kMost = 1024, kValuesAThread = 4;
  const std::int64_t enough = ceil_div(n, kThreads * kValuesAThread);
  return enough < kMost ? enough : kMost;
}

/// Calls f(i) for the indices of this thread.
template <class F>
__device__ void each_of_thread(std::int64_t n, F&& f) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) f(i);
}

template <class Each, class Settings, class Buffers>
__global__ void follow(std::int64_t n, Settings settings, UpdateFactors factors, const StepState* state,
                       Buffers buffers) {
  begin_kernel();
  if (state->nonfinite) return;
  const Each each(settings, factors, *state, buffers);
  each_of_thread(n, [&](std::int64_t i) { each(i); });
}

template <class P>
struct Summed {
  P values[kVector<P>];
  __device__ void operator+=(const Summed& more) {
    for (int k = 0; k < kVector<P>; ++k) values[k] += more.values[k];
  }
};

/// squares [blocks]: of each block's sums. A thread handles kVector<P> values at a time, read as vectors (kWhole) or
/// singly, so that the order of a sum depends on n alone.
template <class P, bool kWhole>
__global__ void add_lanes(std::int64_t lanes, std::int64_t stride, std::int64_t n, P* g, double* squares) {
  begin_kernel();
  constexpr int V = kVector<P>;
  double square = 0;
  each_of_thread(ceil_div(n, V), [&](std::int64_t i) {
    const std::int64_t at = i * V;
    const auto total = lane_tree<Summed<P>>(lanes, [&](std::int64_t l, Summed<P>& to) {
      const P* const from = g + l * stride + at;
      if (kWhole && at + V <= n)
        load(from, to.values);
      else
        for (int k = 0; k < V; ++k) to.values[k] = at + k < n ? from[k] : P(0);
    });
    if (lanes > 1)
      for (int k = 0; k < V && at + k < n; ++k) g[at + k] = total.values[k];
    for (const P value : total.values) square += double(value) * double(value);
  });
  square = block_sum(square);
  if (threadIdx.x == 0) squares[blockIdx.x] = square;
}
__global__ void add_squares(std::int64_t n, const double* squares, double* to) {
  begin_kernel();
  const auto total = block_sum_of<double>(n, [&](std::int64_t i) { return squares[i]; });
  if (threadIdx.x == 0) *to = total;
}

__global__ void clip_by_norm(ClipForm form, std::int64_t n, const double* squares, StepState* state) {
  begin_kernel();
  double total = 0;
  for (std::int64_t i = 0; i < n; ++i) total += squares[i];
  set_clipping(form, total, state);
}

template <class P>
__global__ void lamb_first(std::int64_t n, LambSettings s, UpdateFactors factors, const StepState* state,
                           UpdateBuffers<P> buffers, LambSquares* partial) {
  begin_kernel();
  LambSquares sum;
  if (!state->nonfinite) {
    const LambMoments<P> each(s, factors, *state, buffers);
    each_of_thread(n, [&](std::int64_t i) {
      each(i);
      const double p = double(each.parameter(i)), r = double(each.direction(i));
      sum.parameters += p * p;
      sum.direction += r * r;
    });
  }
  sum.parameters = block_sum(sum.parameters);
  sum.direction = block_sum(sum.direction);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
__device__ inline LambSquares sum_over_block(std::int64_t n, const LambSquares* squares) {
  return {block_sum_of<double>(n, [&](std::int64_t i) { return squares[i].parameters; }),
          block_sum_of<double>(n, [&](std::int64_t i) { return squares[i].direction; })};
}
__global__ void add_lamb_squares(std::int64_t n, const LambSquares* partial, LambSquares* to) {
  begin_kernel();
  const LambSquares total = sum_over_block(n, partial);
  if (threadIdx.x == 0) *to = total;
}
__global__ void find_ratio(std::int64_t n, const LambSquares* squares, double* ratio) {
  begin_kernel();
  const LambSquares total = sum_over_block(n, squares);
  if (threadIdx.x == 0) *ratio = trust_ratio(total);
}

/// X before orthogonalisation, and the sum of squares of each block.
template <class P>
__global__ void muon_direction(std::int64_t n, MuonSettings s, const StepState* state, UpdateBuffers<P> buffers, P* x,
                               double* partial) {
  begin_kernel();
  double square = 0;
  const MuonDirection<P> direction(s, *state, buffers);
  each_of_thread(n, [&](std::int64_t i) {
    x[i] = state->nonfinite ? P(0) : direction(i);
    square += double(x[i]) * double(x[i]);
  });
  square = block_sum(square);
  if (threadIdx.x == 0) partial[blockIdx.x] = square;
}
template <class P, class F>
__global__ void muon_normalise(std::int64_t n, const double* square, P* x, F* rounded) {
  begin_kernel();
  const double norm = std::sqrt(*square);
  const P scale = P(1 / (norm > kMuonSmallest ? norm : kMuonSmallest));
  each_of_thread(n, [&](std::int64_t i) { rounded[i] = F(x[i] *= scale); });
}
template <class P, class F>
__global__ void muon_round(std::int64_t n, const P* from, F* to) {
  begin_kernel();
  each_of_thread(n, [&](std::int64_t i) { to[i] = F(from[i]); });
}
template <class P, class F>
__global__ void muon_polynomial(std::int64_t n, const P* fourth, F* square) {
  begin_kernel();
  each_of_thread(n, [&](std::int64_t i) { square[i] = F(P(kMuonB) * P(square[i]) + P(kMuonC) * fourth[i]); });
}
template <class P, class F>
__global__ void muon_add(std::int64_t n, const P* step, P* x, F* rounded) {
  begin_kernel();
  each_of_thread(n, [&](std::int64_t i) { rounded[i] = F(x[i] = P(kMuonA) * P(rounded[i]) + step[i]); });
}
template <class P>
__global__ void muon_step(std::int64_t rows, std::int64_t cols, MuonSettings s, UpdateFactors factors,
                          const StepState* state, UpdateBuffers<P> buffers, const P* x) {
  begin_kernel();
  if (state->nonfinite) return;
  const MuonStep<P> after(s, rows, cols, factors, *state);
  each_of_thread(rows * cols,
                 [&](std::int64_t i) { buffers.p[i] = after(buffers.p[i], buffers.decays[i] != 0, x[i]); });
}

template <class P>
struct Average {
  P kept, taken;
  const StepState* state;
  __device__ P operator()(P now, P before) const { return state->nonfinite ? before : kept * before + taken * now; }
};

struct Round {
  const float* from;
  bf16* to;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    run.each(
        [&](std::int64_t at, const float(&values)[V]) {
          float out[V];
          for (int k = 0; k < V; ++k) out[k] = values[k];
          put_all(to + at, out);
        },
        from);
  }
};

}  // namespace

void CudaBackend::sum_lanes(std::int64_t lanes, std::int64_t lane_stride, Tensor lane0, double* square) {
  for_param_type("sum_lanes", lane0.dtype(), [&]<class P>(Type<P>) {
    const std::int64_t blocks = blocks_for(lane0.size());
    double* partial = partial_.get<double>(blocks + 1);
    const bool whole = aligned({lane0.raw()}) && (lanes == 1 || lane_stride % kVector<P> == 0);
    launch("sum_lanes", whole ? add_lanes<P, true> : add_lanes<P, false>, {blocks, kThreads}, stream_, lanes,
           lane_stride, lane0.size(), lane0.data<P>(), partial);
    launch("sum_lanes", add_squares, {1, kThreads}, stream_, blocks, partial, square);
  });
}

void CudaBackend::clip(ClipForm form, std::int64_t chunks, const double* squares, StepState* state) {
  launch("clip", clip_by_norm, {1, 1}, stream_, form, chunks, squares, state);
}

void CudaBackend::update(const UpdateRule& rule, const ParameterUpdate& u) {
  for_rule(rule, u, [&](auto type, const auto& settings, const auto& buffers) {
    launch("update",
           follow<typename decltype(type)::type, std::decay_t<decltype(settings)>, std::decay_t<decltype(buffers)>>,
           {blocks_for(u.p.size()), kThreads}, stream_, u.p.size(), settings, u.factors, u.state, buffers);
  });
}

void CudaBackend::lamb_moments(const LambSettings& s, const ParameterUpdate& u, LambSquares* squares) {
  for_param_type("lamb_moments", u.p.dtype(), [&]<class P>(Type<P>) {
    const std::int64_t blocks = blocks_for(u.p.size());
    auto* partial = partial_.get<LambSquares>(blocks + 1);
    launch("lamb_moments", lamb_first<P>, {blocks, kThreads}, stream_, u.p.size(), s, u.factors, u.state,
           buffers_of<P, P>(u), partial);
    launch("lamb_moments", add_lamb_squares, {1, kThreads}, stream_, blocks, partial, squares);
  });
}

void CudaBackend::lamb_ratio(std::int64_t pieces, const LambSquares* squares, double* ratio) {
  launch("lamb_ratio", find_ratio, {1, kWarp}, stream_, pieces, squares, ratio);
}

/// Steps towards an orthogonal matrix, like core/cpu/optimizer.cpp. F is the type of the products' factors.
template <class P, class F>
void CudaBackend::orthogonalise(std::int64_t rows, std::int64_t cols, const double* square, P* x, P* work, F* rounded) {
  const std::int64_t size = rows * cols, n = rows < cols ? rows : cols, squared = n * n;
  const bool wide = rows <= cols;
  P *step = work, *second = step + size, *fourth = second + squared;
  F* const squares = rounded + size;
  const auto multiply = [&](std::int64_t m, std::int64_t cols_of_c, std::int64_t k, bool transpose_a, bool transpose_b,
                            const F* a, const F* b, P* c) {
    device_->products("muon",
                      {.m = m,
                       .n = cols_of_c,
                       .k = k,
                       .in = Storage<F>::dtype,
                       .out = Storage<P>::dtype,
                       .vector = Storage<P>::dtype,
                       .transpose_a = transpose_a,
                       .transpose_b = transpose_b,
                       .tf32 = tf32_},
                      a, b, c);
  };
  const auto over = [&](std::int64_t count) { return Launch{blocks_for(count), kThreads}; };
  launch("muon", muon_normalise<P, F>, over(size), stream_, size, square, x, rounded);
  for (int i = 0; i < kMuonSteps; ++i) {
    multiply(n, n, size / n, !wide, wide, rounded, rounded, second);
    launch("muon", muon_round<P, F>, over(squared), stream_, squared, second, squares);
    multiply(n, n, n, false, false, squares, squares, fourth);
    launch("muon", muon_polynomial<P, F>, over(squared), stream_, squared, fourth, squares);
    multiply(rows, cols, n, false, false, wide ? squares : rounded, wide ? rounded : squares, step);
    launch("muon", muon_add<P, F>, over(size), stream_, size, step, x, rounded);
  }
}

void CudaBackend::muon(const MuonSettings& s, std::int64_t rows, std::int64_t cols, const ParameterUpdate& u) {
  for_param_type("muon", u.p.dtype(), [&]<class P>(Type<P>) {
    const std::int64_t size = rows * cols, n = rows < cols ? rows : cols, blocks = blocks_for(size);
    double* partial = partial_.get<double>(blocks + 1);
    P* x = wide_.get<P>(2 * size + 2 * n * n);
    const UpdateBuffers<P> buffers = buffers_of<P, P>(u);
    launch("muon", muon_direction<P>, {blocks, kThreads}, stream_, size, s, u.state, buffers, x, partial);
    launch("muon", add_squares, {1, kThreads}, stream_, blocks, partial, partial + blocks);
    if (std::is_same_v<P, float> && s.bf16)
      orthogonalise<P, bf16>(rows, cols, partial + blocks, x, x + size, rounded_weight_.get<bf16>(size + n * n));
    else
      orthogonalise<P, P>(rows, cols, partial + blocks, x, x + size, rounded_weight_.get<P>(size + n * n));
    launch("muon", muon_step<P>, {blocks, kThreads}, stream_, rows, cols, s, u.factors, u.state, buffers, x);
  });
}

void CudaBackend::average(double decay, const StepState* state, Tensor x, Tensor to) {
  for_param_type("average", x.dtype(), [&]<class P>(Type<P>) {
    map_values<P>("average", 1, x.size(), Average<P>{P(decay), P(1 - decay), state},
                  Operands<2>{.in = {x, to}, .y = {to}}, sums_, stream_);
  });
}

void CudaBackend::round_to_bf16(Tensor p, Tensor to) {
  each_vector<bf16>("round_to_bf16", p.size(), aligned({p.raw(), to.raw()}), stream_,
                    Round{p.data<float>(), to.data<bf16>()});
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
