// LayerNorm and RMSNorm. Rows are normalised over the last axis by one warp or a few. They are
// held in registers (norm_rows.cuh) or, if they are too wide or not made of whole vectors, read again from the cache.
#include "cuda/cuda_backend.h"
#include "cuda/norm_rows.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// mean is null for RMSNorm, which uses a mean of zero; gamma and beta are null if the norm has none.
template <class T>
__global__ void norm_forward(NormDims d, const T* x, const Param<T>* gamma, const Param<T>* beta, T* y, Acc<T>* mean,
                             Acc<T>* rstd) {
  using A = Acc<T>;
  const std::int64_t r = row_of_warp();
  if (r >= d.rows) return;  // a whole warp
  x += r * d.cols;
  y += r * d.cols;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  // Two passes: E[x^2] - E[x]^2 loses every digit once the mean dwarfs the spread.
  const A m = mean ? warp_sum_of<A>(d.cols, [&](std::int64_t c) { return A(x[c]); }) / A(d.cols) : 0;
  const A v = warp_sum_of<A>(d.cols,
                             [&](std::int64_t c) {
                               const A centred = A(x[c]) - m;
                               return centred * centred;
                             }) /
              A(d.mean_over());
  const A s = 1 / std::sqrt(v + A(d.eps));
  for (std::int64_t c = lane; c < d.cols; c += kWarp) {
    const A x_hat = (A(x[c]) - m) * s;
    y[c] = T((gamma ? gamma[c] * x_hat : x_hat) + (beta ? beta[c] : 0));
  }
  if (lane != 0) return;
  if (mean) mean[r] = m;
  rstd[r] = s;
}

/// dx = rstd (g - mean(g) - x_hat mean(g x_hat)), g = dy gamma; without a mean, the term mean(g) is dropped.
template <class T>
__global__ void norm_gradient(NormDims d, const T* dy, const T* x, const Param<T>* gamma, const Acc<T>* mean,
                              const Acc<T>* rstd, T* dx, bool add) {
  using A = Acc<T>;
  const std::int64_t r = row_of_warp();
  if (r >= d.rows) return;
  dy += r * d.cols;
  x += r * d.cols;
  dx += r * d.cols;
  const A m = mean ? mean[r] : 0, s = rstd[r];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  A of_g = 0, of_gh = 0;
  for (std::int64_t c = lane; c < d.cols; c += kWarp) {
    const A g = gamma ? A(dy[c]) * gamma[c] : A(dy[c]);
    of_g += g;
    of_gh += g * ((A(x[c]) - m) * s);
  }
  const A mean_g = mean ? warp_sum(of_g) / A(d.cols) : 0, mean_gh = warp_sum(of_gh) / A(d.mean_over());
  for (std::int64_t c = lane; c < d.cols; c += kWarp) {
    const A g = gamma ? A(dy[c]) * gamma[c] : A(dy[c]);
    put(dx[c], norm_dx(s, g, mean_g, (A(x[c]) - m) * s, mean_gh), add);
  }
}

/// Terms of dgamma and, for K = 2, dbeta: dy x_hat and dy.
template <class T, int K>
struct NormTerms {
  std::int64_t cols;
  const T *dy, *x;
  const Acc<T>*mean, *rstd;
  __device__ void operator()(std::int64_t r, std::int64_t c, Acc<T> (&terms)[K]) const {
    const Acc<T> up = Acc<T>(dy[r * cols + c]);
    terms[0] = up * ((Acc<T>(x[r * cols + c]) - (mean ? mean[r] : 0)) * rstd[r]);
    if constexpr (K > 1) terms[1] = up;
  }
};

template <class T>
void forward(const char* op, NormDims d, const NormForward& n, const Stream& stream) {
  const T* in = n.x.data<T>();
  T* out = n.y.data<T>();
  const Param<T>*g = n.gamma.data<Param<T>>(), *b = n.beta.data<Param<T>>();
  Acc<T>*m = n.mean.data<Acc<T>>(), *s = n.rstd.data<Acc<T>>();
  if (!hold_rows<T>(d.cols, {in, out}, {g, b}, [&](auto held, int warps) {
        constexpr int kHeld = decltype(held)::value;
        launch(op, norm_held<T, kHeld>, {ceil_div(d.rows, kNormWarps / warps * kRowsAtOnce<kHeld>), kNormThreads},
               stream, d, warps, in, g, b, out, m, s);
      }))
    launch(op, norm_forward<T>, warp_a_row(d.rows), stream, d, in, g, b, out, m, s);
}

/// K is the number of wanted parameter gradients: gain and bias, gain only, or none. Returns whether n.dsum is among what
/// was computed.
template <class T, int K>
bool backward(const char* op, NormDims d, const NormBackward& n, const Gradient (&dparameters)[K > 0 ? K : 1],
              WaitingSums& waiting, const Stream& stream) {
  if (K == 0 && !n.dx) return false;
  const T *up = n.dy.data<T>(), *in = n.x.data<T>();
  T* out = n.dx.to.data<T>();
  const bool add = n.dx && adds(n.dx);
  const Param<T>* g = n.gamma.data<Param<T>>();
  const Acc<T>*m = n.mean.data<Acc<T>>(), *s = n.rstd.data<Acc<T>>();
  bool summed = false;
  const bool held = hold_rows<T>(d.cols, {up, in, out}, {g}, [&](auto values, int warps) {
    constexpr int kHeld = decltype(values)::value;
    const auto start = [&](auto sum) {
      constexpr int kAll = K + decltype(sum)::value;
      const std::int64_t chunk_rows = rows_of_norm_chunk<T>(d.rows, kHeld), chunks = ceil_div(d.rows, chunk_rows);
      double* partial = waiting.room(kAll * chunks * d.cols + 1);
      const bool ahead = reads_ahead<T, kHeld, kAll>(warps);
      launch(op, norm_held_gradient<T, kHeld, K, sum>,
             {chunks, kNormThreads, norm_gradient_shared<T, kHeld, kAll>(warps, ahead)}, stream, d, chunk_rows, warps,
             ahead, up, in, g, m, s, out, add, partial);
      if constexpr (kAll > 0) {
        Gradient to[kAll];
        for (int k = 0; k < K; ++k) to[k] = dparameters[k];
        if (sum) to[kAll - 1] = n.dsum;
        finish_sums<kAll, Param<T>>(op, chunks, d.cols, partial, to, waiting, stream);
      }
      summed = sum;
    };
    // Longer rows lack the registers for a further sum.
    if constexpr (2 * kHeld <= kMostHeld<T>)
      if (n.dsum) return start(std::true_type());
    start(std::false_type());
  });
  if (held) return summed;
  if (out) launch(op, norm_gradient<T>, warp_a_row(d.rows), stream, d, up, in, g, m, s, out, add);
  if constexpr (K > 0)
    column_sums<K, Acc<T>, Param<T>>(op, d.rows, d.cols, NormTerms<T, K>{d.cols, up, in, m, s}, dparameters, waiting,
                                     stream);
  return false;
}

}  // namespace

void CudaBackend::layer_norm(NormDims d, const NormForward& n) {
  const char* op = n.mean ? "layer_norm" : "rms_norm";
  for_type(op, n.x.dtype(), [&](auto type) { forward<typename decltype(type)::type>(op, d, n, stream_); });
}

void CudaBackend::layer_norm_backward(NormDims d, const NormBackward& n) {
  const char* op = n.mean ? "layer_norm_backward" : "rms_norm_backward";
  for_type(op, n.x.dtype(), [&]<class T>(Type<T>) {
    const bool summed = n.dbeta    ? backward<T, 2>(op, d, n, {n.dgamma, n.dbeta}, sums_, stream_)
                        : n.dgamma ? backward<T, 1>(op, d, n, {n.dgamma}, sums_, stream_)
                                   : backward<T, 0>(op, d, n, {}, sums_, stream_);
    if (n.dsum && !summed) sum_rows(op, d.rows, d.cols, n.dx.to, n.dsum);
  });
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
