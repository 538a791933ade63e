// The flat parameter buffer: sum of the lanes, clipping, each optimiser's rule, an average of weights. What changes
// from step to step is read from the StepState on the GPU, so the launches of all steps are the same.
#include "core/update_rules.h"
#include "cuda/cuda_backend.h"
#include "cuda/each_vector.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

constexpr int kThreads = 256;

/// Blocks for n values: a function of n alone, so that the order of a sum is; few enough that what each thread works
/// out first does not count.
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
__global__ void follow(std::int64_t n, Settings settings, UpdateFactors factors, const StepState* state, Buffers of) {
  if (state->nonfinite) return;
  const Each each(settings, factors, *state, of);
  each_of_thread(n, [&](std::int64_t i) { each(i); });
}

/// squares [blocks]: of what each block adds up. A thread has its values kVector<P> at a time, whether they are read so
/// (kWhole) or not: the order of a sum is that of n alone.
template <class P, bool kWhole>
__global__ void add_lanes(std::int64_t lanes, std::int64_t stride, std::int64_t n, P* g, double* squares) {
  constexpr int V = kVector<P>;
  double square = 0;
  each_of_thread(ceil_div(n, V), [&](std::int64_t i) {
    const std::int64_t at = i * V;
    P total[V] = {};
    const auto read = [&](const P* from, P(&to)[V]) {
      if (kWhole && at + V <= n)
        load(from + at, to);
      else
        for (int k = 0; k < V && at + k < n; ++k) to[k] = from[at + k];
    };
    read(g, total);
    for (std::int64_t l = 1; l < lanes; ++l) {
      P more[V] = {};
      read(g + l * stride, more);
      for (int k = 0; k < V; ++k) total[k] += more[k];
    }
    if (lanes > 1)
      for (int k = 0; k < V && at + k < n; ++k) g[at + k] = total[k];
    for (int k = 0; k < V; ++k) square += double(total[k]) * double(total[k]);
  });
  square = block_sum(square);
  if (threadIdx.x == 0) squares[blockIdx.x] = square;
}
__global__ void add_squares(std::int64_t n, const double* squares, double* to) {
  const auto total = block_sum_of<double>(n, [&](std::int64_t i) { return squares[i]; });
  if (threadIdx.x == 0) *to = total;
}

__global__ void clip_by_norm(ClipForm form, std::int64_t n, const double* squares, StepState* state) {
  double total = 0;
  for (std::int64_t i = 0; i < n; ++i) total += squares[i];
  set_clipping(form, total, state);
}

template <class P>
__global__ void lamb_first(std::int64_t n, LambSettings s, UpdateFactors factors, const StepState* state,
                           UpdateBuffers<P> of, LambSquares* partial) {
  LambSquares sum;
  if (!state->nonfinite) {
    const LambMoments<P> each(s, factors, *state, of);
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
  const LambSquares total = sum_over_block(n, partial);
  if (threadIdx.x == 0) *to = total;
}
__global__ void find_ratio(std::int64_t n, const LambSquares* squares, double* ratio) {
  const LambSquares total = sum_over_block(n, squares);
  if (threadIdx.x == 0) *ratio = trust_ratio(total);
}

template <class P>
struct Average {
  P kept, taken;
  const StepState* state;
  const P* x;
  P* to;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    if (state->nonfinite) return;
    run.each(
        [&](std::int64_t at, const P(&now)[V], const P(&before)[V]) {
          P out[V];
          for (int k = 0; k < V; ++k) out[k] = kept * before[k] + taken * now[k];
          put_all(to + at, out);
        },
        x, static_cast<const P*>(to));
  }
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
  for_param_type("sum_lanes", lane0.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
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
  for_param_type("lamb_moments", u.p.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
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

void CudaBackend::average(double decay, const StepState* state, Tensor x, Tensor to) {
  for_param_type("average", x.dtype(), [&](auto type) {
    using P = typename decltype(type)::type;
    each_vector<P>("average", x.size(), aligned({x.raw(), to.raw()}), stream_,
                   Average<P>{P(decay), P(1 - decay), state, x.data<P>(), to.data<P>()});
  });
}

void CudaBackend::round_to_bf16(Tensor p, Tensor to) {
  each_vector<bf16>("round_to_bf16", p.size(), aligned({p.raw(), to.raw()}), stream_,
                    Round{p.data<float>(), to.data<bf16>()});
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
