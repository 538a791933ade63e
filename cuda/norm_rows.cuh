// LayerNorm and RMSNorm with a row held in the registers of a few warps: each direction passes over memory once, 16
// bytes at a time. RMSNorm is the same with a mean of zero.
#pragma once

#include "cuda/column_sums.cuh"
#include "cuda/vectors.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

inline constexpr int kNormThreads = 128, kNormWarps = kNormThreads / kWarp;

/// The most values of a row in a lane's registers: more would leave too few warps to keep memory busy.
template <class T>
inline constexpr int kMostHeld = 128 / static_cast<int>(sizeof(Acc<T>));

/// The warps of a block that share a row: 1, 2 or 4.
struct Team {
  int lanes, lane, index;
  __device__ explicit Team(int warps)
      : lanes(warps * kWarp),
        lane(static_cast<int>(threadIdx.x) % lanes),
        index(static_cast<int>(threadIdx.x) / lanes) {}
  /// The first column of the lane's i-th vector of V values.
  template <int V>
  __device__ int column(int i) const {
    return (i * lanes + lane) * V;
  }
};

/// Sums `sums` over the lanes of a team; the same bits in each. All threads of a block must call this, each time with
/// another `of_warp` [K * kNormWarps] than in the previous call.
template <int K, class A>
__device__ void team_sums(const Team& team, A (&sums)[K], A* of_warp) {
  for (int k = 0; k < K; ++k) sums[k] = warp_sum(sums[k]);
  if (team.lanes == kWarp) return;
  if (threadIdx.x % kWarp == 0)
    for (int k = 0; k < K; ++k) of_warp[k * kNormWarps + static_cast<int>(threadIdx.x) / kWarp] = sums[k];
  __syncthreads();
  const int warps = team.lanes / kWarp;
  for (int k = 0; k < K; ++k) {
    sums[k] = 0;
    for (int w = 0; w < warps; ++w) sums[k] += of_warp[k * kNormWarps + team.index * warps + w];
  }
}

/// V parameters, a whole number of vectors.
template <int V, class P>
__device__ void load_parameters(const P* from, P (&to)[V]) {
  constexpr int kPart = kVector<P> < V ? kVector<P> : V;
  for (int i = 0; i < V; i += kPart) {
    P part[kPart];
    load(from + i, part);
    for (int k = 0; k < kPart; ++k) to[i + k] = part[k];
  }
}

/// Rows that a team processes at once in the forward pass, so that gains and biases are read once for them.
template <int kHeld>
inline constexpr int kRowsAtOnce = kHeld <= 8 ? 4 : 2;

/// A lane holds kHeld values of a row. mean is null for RMSNorm; gamma and beta are null if the norm has none.
template <class T, int kHeld>
__global__ void __launch_bounds__(kNormThreads) norm_held(NormDims d, int warps, const T* x, const Param<T>* gamma,
                                                          const Param<T>* beta, T* y, Acc<T>* mean, Acc<T>* rstd) {
  using A = Acc<T>;
  constexpr int V = kVector<T>, kVectors = kHeld / V, kRows = kRowsAtOnce<kHeld>;
  NORMLAB_SHARED(A, of_warp, 2 * kRows * kNormWarps);
  const Team team(warps);
  const int cols = static_cast<int>(d.cols);
  const std::int64_t first = (std::int64_t{blockIdx.x} * (kNormWarps / warps) + team.index) * kRows;
  // Issues all loads before using the first, since a use waits for its load.
  Packed<T> in[kRows][kVectors] = {};
  NORMLAB_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const bool there = first + r < d.rows;
    const std::int64_t at = (first + r) * d.cols;
    NORMLAB_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const int c = team.column<V>(i);
      if (there && c < cols) in[r][i] = load_packed(x + at + c);
    }
  }
  A row[kRows][kHeld], m[kRows] = {}, s[kRows] = {};
  NORMLAB_UNROLL
  for (int r = 0; r < kRows; ++r) {
    NORMLAB_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      T values[V];
      unpack(in[r][i], values);
      for (int k = 0; k < V; ++k) row[r][i * V + k] = A(values[k]);
    }
  }
  // Two passes: E[x^2] - E[x]^2 loses every digit once the mean dwarfs the spread.
  if (mean) {
    NORMLAB_UNROLL
    for (int i = 0; i < kHeld; ++i)
      for (int r = 0; r < kRows; ++r) m[r] += row[r][i];
    team_sums(team, m, of_warp);
    for (int r = 0; r < kRows; ++r) m[r] /= A(cols);
  }
  NORMLAB_UNROLL
  for (int i = 0; i < kHeld; ++i)
    for (int r = 0; r < kRows; ++r) {
      row[r][i] = team.column<V>(i / V) < cols ? row[r][i] - m[r] : 0;
      s[r] += row[r][i] * row[r][i];
    }
  team_sums(team, s, of_warp + kRows * kNormWarps);
  for (int r = 0; r < kRows; ++r) s[r] = 1 / std::sqrt(s[r] / A(d.mean_over()) + A(d.eps));
  NORMLAB_UNROLL
  for (int i = 0; i < kVectors; ++i) {
    const int c = team.column<V>(i);
    if (c >= cols) break;
    Param<T> g[V], b[V] = {};
    for (int k = 0; k < V; ++k) g[k] = 1;
    if (gamma) load_parameters(gamma + c, g);
    if (beta) load_parameters(beta + c, b);
    for (int r = 0; r < kRows; ++r) {
      if (first + r >= d.rows) break;
      T out[V];
      for (int k = 0; k < V; ++k) out[k] = T(g[k] * (row[r][i * V + k] * s[r]) + b[k]);
      store(y + (first + r) * d.cols + c, out);
    }
  }
  if (team.lane != 0) return;
  for (int r = 0; r < kRows; ++r)
    if (first + r < d.rows) {
      if (mean) mean[first + r] = m[r];
      rstd[first + r] = s[r];
    }
}

/// Blocks of norm_held_gradient that a multiprocessor's registers should hold.
template <class T>
constexpr int norm_blocks(int held) {
  constexpr bool kNarrow = sizeof(T) < sizeof(Acc<T>);
  constexpr int kBlocks[] = {kNarrow ? 7 : 6, kNarrow ? 4 : 3, kNarrow ? 3 : 2, 2};
  return kBlocks[4 * held / kMostHeld<T> - 1];
}

/// Rows per block in the backward pass. There are at most as many blocks as an H200's 132 multiprocessors hold, so that
/// all finish together. A function of the shape alone, which fixes the order of sums.
template <class T>
constexpr std::int64_t rows_of_norm_chunk(std::int64_t rows, int held) {
  constexpr std::int64_t kFewest = 16;
  const std::int64_t even = ceil_div(rows, 132 * norm_blocks<T>(held));
  return even > kFewest ? even : kFewest;
}

/// Shared memory of norm_held_gradient: K double sums per column, what each thread adds to them, and with `ahead` each
/// thread's part of the next rows of dy, x and dx.
template <class T, int kHeld, int K>
constexpr std::size_t norm_gradient_shared(int warps, bool ahead) {
  return K * kHeld * (sizeof(double) * static_cast<std::size_t>(warps * kWarp) + sizeof(Acc<T>) * kNormThreads) +
         (ahead    ? 3 * sizeof(T) * kHeld * kNormThreads
          : K == 0 ? sizeof(double)
                   : 0);
}
/// Whether there is room for the next rows in as many blocks as the registers allow.
template <class T, int kHeld, int K>
bool reads_ahead(int warps) {
  return blocks_fit(norm_blocks<T>(kHeld), norm_gradient_shared<T, kHeld, K>(warps, true));
}

/// total [K, kHeld, team.lanes] += `few` of all teams of the block, team by team; then few = 0. `each` is
/// [K, kHeld, kNormThreads]. The i-th values of adjacent lanes are adjacent, rather than those of columns, to avoid
/// bank conflicts.
template <int K, int kHeld, class A>
__device__ void add_few(const Team& team, A (&few)[K][kHeld], double* total, A* each) {
  const int thread = static_cast<int>(threadIdx.x);
  __syncthreads();  // no thread reads the previous sums any more
  for (int k = 0; k < K; ++k) {
    NORMLAB_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      each[(k * kHeld + i) * kNormThreads + thread] = few[k][i];
      few[k][i] = 0;
    }
  }
  __syncthreads();
  for (int at = thread; at < K * kHeld * team.lanes; at += kNormThreads) {
    const A* value = each + at / team.lanes * kNormThreads + at % team.lanes;
    double sum = 0;
    for (int t = 0; t < kNormThreads; t += team.lanes) sum += double(value[t]);
    total[at] += sum;
  }
}

/// dx = rstd (g - mean(g) - x_hat mean(g x_hat)), g = dy gamma. The K column sums, of dy x_hat and for K = 2 also
/// of dy, go to partial [K, chunks, cols], and with kSum those of the dx that is stored behind them. dx, mean and gamma
/// are null if absent; without a mean, the term mean(g) is dropped.
template <class T, int kHeld, int K, bool kSum>
__global__ void __launch_bounds__(kNormThreads, norm_blocks<T>(kHeld))
    norm_held_gradient(NormDims d, std::int64_t chunk_rows, int warps, bool ahead, const T* dy, const T* x,
                       const Param<T>* gamma, const Acc<T>* mean, const Acc<T>* rstd, T* dx, bool add,
                       double* partial) {
  using A = Acc<T>;
  constexpr int V = kVector<T>, kVectors = kHeld / V, kAll = K + kSum, kSums = kAll > 0 ? kAll : 1;
  constexpr int kFewRows = 8;  // that a thread adds in A
  NORMLAB_SHARED(A, of_warp, 2 * 2 * kNormWarps);
  NORMLAB_DYNAMIC_SHARED(double, total);
  const Team team(warps);
  const int cols = static_cast<int>(d.cols), teams = kNormWarps / warps, totals = kAll * kHeld * team.lanes;
  A* each = reinterpret_cast<A*>(total + totals);
  T* const staged = reinterpret_cast<T*>(each + kAll * kHeld * kNormThreads) + static_cast<int>(threadIdx.x) * V;
  for (int at = static_cast<int>(threadIdx.x); at < totals; at += kNormThreads) total[at] = 0;
  const std::int64_t begin = blockIdx.x * chunk_rows, end = begin + chunk_rows < d.rows ? begin + chunk_rows : d.rows;
  A few[kSums][kHeld] = {};
  int rows = 0;
  AsyncCopies copies;
  A next_m = 0, next_s = 0;
  const auto fetch = [&](std::int64_t first) {
    const std::int64_t r = first + team.index, row = r * d.cols;
    const bool there = r < end;
    NORMLAB_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const int c = team.column<V>(i);
      const auto copy = [&](int which, const T* from) {
        copies.template copy<16>(staged + (which * kVectors + i) * kNormThreads * V, from + row + c, there && c < cols);
      };
      copy(0, dy);
      copy(1, x);
      if (add) copy(2, dx);
    }
    next_m = there && mean ? mean[r] : 0;
    next_s = there ? rstd[r] : 0;
  };
  if (ahead) fetch(begin);
  for (std::int64_t first = begin; first < end; first += teams) {
    const std::int64_t r = first + team.index, row = r * d.cols;
    const bool there = r < end;
    A m, s, g[kHeld], h[kHeld], sums[2] = {};
    Packed<T> packed[3][kVectors] = {};  // dy, x, and dx, which is read with the rest, as loads cannot move past stores
    if (ahead) {
      m = next_m;
      s = next_s;
      copies.wait();  // each thread reads what it has copied itself
      NORMLAB_UNROLL
      for (int i = 0; i < 3 * kVectors; ++i)
        if (i < 2 * kVectors || add) packed[i / kVectors][i % kVectors] = load_packed(staged + i * kNormThreads * V);
      if (first + teams < end) fetch(first + teams);
    } else {
      m = there && mean ? mean[r] : 0;
      s = there ? rstd[r] : 0;
      NORMLAB_UNROLL
      for (int i = 0; i < kVectors; ++i) {
        const int c = team.column<V>(i);
        if (!there || c >= cols) break;
        packed[0][i] = load_packed(dy + row + c);
        packed[1][i] = load_packed(x + row + c);
        if (add) packed[2][i] = load_packed(dx + row + c);
      }
    }
    NORMLAB_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      T up[V], in[V];
      unpack(packed[0][i], up);
      unpack(packed[1][i], in);
      for (int k = 0; k < V; ++k) {
        g[i * V + k] = A(up[k]);
        h[i * V + k] = (A(in[k]) - m) * s;
      }
    }
    NORMLAB_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      const int c = team.column<V>(i);
      Param<T> gain[V];
      for (int k = 0; k < V; ++k) gain[k] = 1;
      if (gamma && c < cols) load_parameters(gamma + c, gain);
      for (int k = 0; k < V; ++k) {
        A& up = g[i * V + k];
        const A x_hat = h[i * V + k];
        if constexpr (K > 0) few[0][i * V + k] += up * x_hat;
        if constexpr (K > 1) few[1][i * V + k] += up;
        up *= gain[k];
        sums[0] += up;
        sums[1] += up * x_hat;
      }
    }
    if (dx) {
      team_sums(team, sums, of_warp + rows % 2 * 2 * kNormWarps);
      const A mean_g = mean ? sums[0] / A(cols) : 0, mean_gh = sums[1] / A(d.mean_over());
      NORMLAB_UNROLL
      for (int i = 0; i < kVectors; ++i) {
        const int c = team.column<V>(i);
        if (!there || c >= cols) break;
        T out[V];
        unpack(packed[2][i], out);
        for (int k = 0; k < V; ++k) {
          put(out[k], norm_dx(s, g[i * V + k], mean_g, h[i * V + k], mean_gh), add);
          if constexpr (kSum) few[K][i * V + k] += A(out[k]);
        }
        store(dx + row + c, out);
      }
    }
    if (++rows % kFewRows == 0 && kAll > 0) add_few(team, few, total, each);
  }
  if constexpr (kAll > 0) {
    add_few(team, few, total, each);
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < cols; c += kNormThreads) {
      const int lane = c / V % team.lanes, i = c / V / team.lanes * V + c % V;
      for (int k = 0; k < kAll; ++k)
        partial[(std::int64_t{k} * gridDim.x + blockIdx.x) * cols + c] = total[(k * kHeld + i) * team.lanes + lane];
    }
  }
}

/// If rows of `cols` values can be held and `pointers` allow whole vectors, calls start(values per lane, a constant,
/// and warps per row). Returns whether it did.
template <class T, class F>
bool hold_rows(std::int64_t cols, std::initializer_list<const T*> pointers,
               std::initializer_list<const Param<T>*> parameters, F&& start) {
  constexpr int kQuarter = kMostHeld<T> / 4;
  if (!in_vectors<T>(cols, pointers) || !in_vectors<Param<T>>(cols, parameters)) return false;
  int warps = 1;
  while (warps < kNormWarps && cols > warps * kWarp * kMostHeld<T>) warps *= 2;
  const std::int64_t quarters = ceil_div(cols, warps * kWarp * kQuarter);
  if (quarters > 4) return false;
  if (quarters == 1) start(std::integral_constant<int, kQuarter>(), warps);
  if (quarters == 2) start(std::integral_constant<int, 2 * kQuarter>(), warps);
  if (quarters == 3) start(std::integral_constant<int, 3 * kQuarter>(), warps);
  if (quarters == 4) start(std::integral_constant<int, 4 * kQuarter>(), warps);
  return true;
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
