// Moving tokens about: patches out of images, positions, class token, pooling.
#include "cuda/column_sums.cuh"
#include "cuda/cuda_backend.h"
#include "cuda/moves.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// Where value i of the patches lies in the images.
struct PatchPlace {
  PatchDims d;
  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t run = d.patch_width * d.channels, down = d.height / d.patch_height,
                       across = d.width / d.patch_width;
    const std::int64_t in_run = i % run, row = i / run % d.patch_height, patch = i / (run * d.patch_height);
    const std::int64_t gx = patch % across, gy = patch / across % down, b = patch / (across * down);
    return ((b * d.height + gy * d.patch_height + row) * d.width + gx * d.patch_width) * d.channels + in_run;
  }
};
/// Where value i of a part of every image's values, `count` from `first` on, lies among all of them, `size` an image.
struct PartPlace {
  std::int64_t size, first, count;
  __device__ std::int64_t operator()(std::int64_t i) const { return i / count * size + first + i % count; }
};

/// The way back: where the value of the part that is value i of all of them lies.
struct WholePlace {
  PartPlace part;
  __device__ std::int64_t operator()(std::int64_t i) const {
    const std::int64_t at = i % part.size - part.first;
    return at >= 0 && at < part.count ? i / part.size * part.count + at : kPadding;
  }
};

template <class T>
struct AddPositions {
  std::int64_t size;  // an image
  const T* x;
  const Param<T>* position;
  T* y;
  __device__ void operator()(std::int64_t i) const { y[i] = T(Acc<T>(x[i]) + position[i % size]); }
};
/// Row b of the images' gradients: value c of the part that begins at dy.
template <class T>
struct ImageTerms {
  std::int64_t size;
  const T* dy;
  __device__ void operator()(std::int64_t b, std::int64_t c, Acc<T> (&terms)[1]) const {
    terms[0] = Acc<T>(dy[b * size + c]);
  }
};

/// One column of one image, its tokens in order.
template <class T>
struct MeanTokens {
  TokenDims d;
  const T* x;
  T* y;
  __device__ void operator()(std::int64_t i) const {
    const T* column = x + i / d.cols * d.tokens * d.cols + i % d.cols;
    Acc<T> total = 0;
    for (std::int64_t n = 0; n < d.tokens; ++n) total += Acc<T>(column[n * d.cols]);
    y[i] = T(total / Acc<T>(d.tokens));
  }
};
template <class T>
struct MeanTokensGradient {
  TokenDims d;
  const T* dy;
  T* dx;
  bool add;
  __device__ void operator()(std::int64_t i) const {
    put(dx[i], Acc<T>(dy[i / (d.tokens * d.cols) * d.cols + i % d.cols]) / Acc<T>(d.tokens), add);
  }
};

/// Each image: `head` values of first, then `tail` of rest. `step` from an image to the next in first, 0 where all have
/// the same.
template <class T, class F>
struct Concat {
  std::int64_t head, tail, step;
  const F* first;
  const T* rest;
  T* y;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t b = i / (head + tail), at = i % (head + tail);
    y[i] = at < head ? T(Acc<T>(first[b * step + at])) : rest[b * tail + at - head];
  }
};

}  // namespace

void CudaBackend::patchify(PatchDims d, Tensor images, Tensor y) {
  gather("patchify", PatchPlace{d}, images, y, false, stream_);
}

void CudaBackend::patchify_backward(PatchDims d, Tensor dy, Gradient dimages) {
  if (dimages) scatter("patchify_backward", PatchPlace{d}, dy, dimages.to, adds(dimages), stream_);
}

void CudaBackend::add_positions(TokenDims d, Tensor x, Tensor position, Tensor y) {
  for_type("add_positions", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("add_positions", y.size(), stream_,
                 AddPositions<T>{d.tokens * d.cols, x.data<T>(), position.data<Param<T>>(), y.data<T>()});
  });
}

void CudaBackend::add_positions_backward(TokenDims d, Tensor dy, Gradient dx, Gradient dposition) {
  copy_gradient(dy, dx);
  for_type("add_positions", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t size = d.tokens * d.cols;
    column_sums<1, Acc<T>, Param<T>>("add_positions_backward", d.batch, size, ImageTerms<T>{size, dy.data<T>()},
                                     {dposition}, partial_, stream_);
  });
}

void CudaBackend::mean_tokens(TokenDims d, Tensor x, Tensor y) {
  for_type("mean_tokens", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("mean_tokens", d.batch * d.cols, stream_, MeanTokens<T>{d, x.data<T>(), y.data<T>()});
  });
}

void CudaBackend::mean_tokens_backward(TokenDims d, Tensor dy, Gradient dx) {
  if (!dx) return;
  for_type("mean_tokens", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("mean_tokens_backward", dx.to.size(), stream_,
                 MeanTokensGradient<T>{d, dy.data<T>(), dx.to.data<T>(), adds(dx)});
  });
}

void CudaBackend::concat_token(TokenDims d, Tensor token, Tensor x, Tensor y) {
  for_type("concat_token", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_element("concat_token", y.size(), stream_,
                 Concat<T, Param<T>>{d.cols, d.tokens * d.cols, 0, token.data<Param<T>>(), x.data<T>(), y.data<T>()});
  });
}

void CudaBackend::concat_token_backward(TokenDims d, Tensor dy, Gradient dtoken, Gradient dx) {
  for_type("concat_token", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t rest = d.tokens * d.cols, size = d.cols + rest;
    if (dx) gather("concat_token_backward", PartPlace{size, d.cols, rest}, dy, dx.to, adds(dx), stream_);
    column_sums<1, Acc<T>, Param<T>>("concat_token_backward", d.batch, d.cols, ImageTerms<T>{size, dy.data<T>()},
                                     {dtoken}, partial_, stream_);
  });
}

void CudaBackend::select_tokens(TokenDims d, std::int64_t first, std::int64_t count, Tensor x, Tensor y) {
  gather("select_tokens", PartPlace{d.tokens * d.cols, first * d.cols, count * d.cols}, x, y, false, stream_);
}

void CudaBackend::select_tokens_backward(TokenDims d, std::int64_t first, std::int64_t count, Tensor dy, Gradient dx) {
  const WholePlace place{{d.tokens * d.cols, first * d.cols, count * d.cols}};
  if (dx) gather("select_tokens_backward", place, dy, dx.to, adds(dx), stream_);
}

void CudaBackend::concat_tokens(TokenDims d, std::int64_t n, Tensor first, Tensor rest, Tensor y) {
  for_type("concat_tokens", first.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t head = n * d.cols, tail = (d.tokens - n) * d.cols;
    each_element("concat_tokens", y.size(), stream_,
                 Concat<T, T>{head, tail, head, first.data<T>(), rest.data<T>(), y.data<T>()});
  });
}

void CudaBackend::concat_tokens_backward(TokenDims d, std::int64_t n, Tensor dy, Gradient dfirst, Gradient drest) {
  const std::int64_t size = d.tokens * d.cols, head = n * d.cols;
  if (dfirst) gather("concat_tokens_backward", PartPlace{size, 0, head}, dy, dfirst.to, adds(dfirst), stream_);
  if (drest) gather("concat_tokens_backward", PartPlace{size, head, size - head}, dy, drest.to, adds(drest), stream_);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
