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

/// V adjacent values from `at` on, or those before n: at once if they are `whole`. Null pointers have none.
struct Some {
  std::int64_t at, n;
  bool whole;
  template <int V, class T>
  __device__ void read(const T* from, T (&to)[V]) const {
    if (!from) return;
    if (whole) return load(from + at, to);
    for (int k = 0; k < V; ++k)
      if (at + k < n) to[k] = from[at + k];
  }
  template <int V, class T>
  __device__ void write(T* to, const T (&from)[V]) const {
    if (!to) return;
    if (whole) return store(to + at, from);
    for (int k = 0; k < V; ++k)
      if (at + k < n) to[at + k] = from[k];
  }
};

/// A rule for each value, whose buffers are registers for a vector of them. kMoments: the rule changes m and v.
template <class Each, bool kMoments, class Settings, class P, class M>
__global__ void follow(std::int64_t n, bool vectors, Settings settings, UpdateFactors factors, const StepState* state,
                       UpdateBuffers<P, M> all, bf16* rounded) {
  if (state->nonfinite) return;
  constexpr int V = 4;
  P gradient[V] = {}, p[V] = {}, v[V] = {};
  M m[V] = {};
  std::uint8_t decays[V] = {};
  const Each each(settings, factors, *state, UpdateBuffers<P, M>{gradient, p, m, v, decays});
  each_of_thread(ceil_div(n, V), [&](std::int64_t i) {
    const Some here{i * V, n, vectors && (i + 1) * V <= n};
    here.read(all.gradient, gradient);
    here.read(all.p, p);
    here.read(all.m, m);
    here.read(all.v, v);
    here.read(all.decays, decays);
    NORMLAB_UNROLL
    for (int k = 0; k < V; ++k) each(k);
    here.write(all.p, p);
    if (kMoments) here.write(all.m, m);
    if (kMoments) here.write(all.v, v);
    bf16 narrow[V];
    for (int k = 0; k < V; ++k) narrow[k] = bf16(p[k]);
    here.write(rounded, narrow);
  });
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
                           UpdateBuffers<P> buffers, LambSquares* partial) {
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
  const LambSquares total = sum_over_block(n, partial);
  if (threadIdx.x == 0) *to = total;
}
__global__ void find_ratio(std::int64_t n, const LambSquares* squares, double* ratio) {
  const LambSquares total = sum_over_block(n, squares);
  if (threadIdx.x == 0) *ratio = trust_ratio(total);
}

/// Matrices of a batch, `stride` values apart. Each has `blocks` blocks, so that the order of its sums depends on its
/// size alone. each() calls f(i) for this thread's values of its block's matrix.
struct MuonPlaces {
  std::int64_t size, stride, blocks;
  __device__ std::int64_t matrix() const { return quotient(blockIdx.x, blocks); }
  template <class F>
  __device__ void each(F&& f) const {
    const std::int64_t step = blocks * blockDim.x, block = blockIdx.x - matrix() * blocks;
    for (std::int64_t i = block * blockDim.x + threadIdx.x; i < size; i += step) f(i);
  }
};

/// The directions before orthogonalisation, zero for matrices of others, and the sum of squares of each block.
template <class P>
__global__ void muon_direction(MuonPlaces places, MuonSettings s, const MuonMatrix* matrices, const StepState* state,
                               UpdateBuffers<P> all, P* u, double* partial) {
  const std::int64_t first = matrices[places.matrix()].first;
  P* const to = u + places.matrix() * places.stride;
  const MuonDirection<P> direction(s, *state, all);
  double square = 0;
  places.each([&](std::int64_t i) {
    const P value = state->nonfinite || first < 0 ? P(0) : direction(first + i);
    to[i] = value;
    square += double(value) * double(value);
  });
  square = block_sum(square);
  if (threadIdx.x == 0) partial[blockIdx.x] = square;
}
template <class P, class F>
__global__ void muon_normalise(MuonPlaces places, const double* partial, const P* u, F* x) {
  const double* const own = partial + places.matrix() * places.blocks;
  const double norm = std::sqrt(block_sum_of<double>(places.blocks, [&](std::int64_t i) { return own[i]; }));
  const P scale = P(1 / (norm > kMuonSmallest ? norm : kMuonSmallest));
  const std::int64_t begin = places.matrix() * places.stride;
  places.each([&](std::int64_t i) { x[begin + i] = F(u[begin + i] * scale); });
}
/// The last X is a x + product.
template <class P, class F>
__global__ void muon_step(MuonPlaces places, std::int64_t rows, std::int64_t cols, MuonSettings s,
                          const MuonMatrix* matrices, const StepState* state, UpdateBuffers<P> all, bf16* rounded,
                          const F* x, const P* product) {
  const MuonMatrix of = matrices[places.matrix()];
  if (state->nonfinite || of.first < 0) return;
  const std::int64_t begin = places.matrix() * places.stride;
  const MuonStep<P> after(s, rows, cols, of.factors, *state);
  places.each([&](std::int64_t i) {
    const std::int64_t at = of.first + i;
    const P p = after(all.p[at], all.decays[at] != 0, P(kMuonA) * P(x[begin + i]) + product[begin + i]);
    all.p[at] = p;
    if (rounded) rounded[at] = bf16(p);
  });
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
  bool whole = true;
  for (const Tensor& t : {u.gradient, u.decay, u.p, u.m, u.v, u.rounded}) whole &= aligned({t.raw()});
  for_rule(
      rule, u,
      [&]<class Settings, class P, class M>(auto type, const Settings& settings, const UpdateBuffers<P, M>& buffers) {
        constexpr bool kMoments = !std::is_same_v<Settings, LambSettings>;  // those of LAMB were updated before
        launch("update", follow<typename decltype(type)::type, kMoments, Settings, P, M>,
               {blocks_for(u.p.size()), kThreads}, stream_, u.p.size(), whole, settings, u.factors, u.state, buffers,
               u.rounded.data<bf16>());
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

/// Steps towards orthogonal matrices, like core/cpu/optimizer.cpp.
template <class P, class F>
void CudaBackend::muon_with(const MuonSettings& s, const MuonBatch& batch, const ParameterUpdate& all) {
  constexpr const char* kOp = "muon";
  const std::int64_t rows = batch.rows, cols = batch.cols, size = rows * cols, n = rows < cols ? rows : cols;
  const bool wide = rows <= cols;
  const MuonPlaces places{size, stride_in_batch(size), blocks_for(size)};
  const std::int64_t values = batch.count * places.stride, squares = batch.count * stride_in_batch(n * n);
  P* const u = wide_.get<P>(values);
  F *x = rounded_weight_.get<F>(2 * (values + squares)), *next = x + values;
  F *const second = next + values, *const fourth = second + squares;
  double* const partial = partial_.get<double>(batch.count * places.blocks);
  const UpdateBuffers<P> buffers = buffers_of<P, P>(all);
  const Launch grid{batch.count * places.blocks, kThreads};
  launch(kOp, muon_direction<P>, grid, stream_, places, s, batch.matrices, all.state, buffers, u, partial);
  launch(kOp, muon_normalise<P, F>, grid, stream_, places, partial, u, x);
  LtProduct square{.m = n,
                   .n = n,
                   .k = wide ? cols : rows,
                   .in = Storage<F>::dtype,
                   .out = Storage<F>::dtype,
                   .vector = Storage<F>::dtype,
                   .transpose_a = !wide,
                   .transpose_b = wide,
                   .batch = batch.count};
  LtProduct polynomial = square, step = square;
  polynomial.k = step.k = n;
  polynomial.transpose_a = polynomial.transpose_b = step.transpose_a = step.transpose_b = false;
  step.m = rows, step.n = cols;
  polynomial.add = step.add = true;
  for (int i = 0; i < kMuonSteps; ++i) {
    const bool last = i + 1 == kMuonSteps;
    if (last) step.out = step.vector = Storage<P>::dtype, step.add = false;  // muon_step adds without rounding
    multiply(kOp, square, {x, x, second, second});
    multiply(kOp, polynomial, {.a = second, .b = second, .c = second, .d = fourth, .scale = kMuonC, .kept = kMuonB});
    multiply(kOp, step,
             {.a = wide ? fourth : x,
              .b = wide ? x : fourth,
              .c = x,
              .d = last ? static_cast<void*>(u) : next,
              .kept = kMuonA});
    if (!last) std::swap(x, next);
  }
  launch(kOp, muon_step<P, F>, grid, stream_, places, rows, cols, s, batch.matrices, all.state, buffers,
         all.rounded.data<bf16>(), x, u);
}

void CudaBackend::muon(const MuonSettings& s, const MuonBatch& batch, const ParameterUpdate& all) {
  for_param_type("muon", all.p.dtype(), [&]<class P>(Type<P>) {
    if (std::is_same_v<P, float> && s.bf16)
      muon_with<P, bf16>(s, batch, all);
    else
      muon_with<P, P>(s, batch, all);
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
