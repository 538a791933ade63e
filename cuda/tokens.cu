// Moves tokens: patches of images, positions, class token, pooling.
#include "cuda/cuda_backend.h"
#include "cuda/moves.cuh"
#include "cuda/vector_sums.cuh"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

/// The place in the images of value i of the patches.
struct PatchPlace {
  PatchDims d;
  std::int64_t together() const { return d.patch_width * d.channels; }
  template <class I>
  __device__ I operator()(I i) const {
    const I width = I(d.width), channels = I(d.channels), patch_height = I(d.patch_height),
            patch_width = I(d.patch_width), run = patch_width * channels, across = width / patch_width,
            down = I(d.height) / patch_height;
    const I line = i / run, in_run = i - line * run, patch = line / patch_height, row = line - patch * patch_height;
    const I grid_row = patch / across, gx = patch - grid_row * across, b = grid_row / down, gy = grid_row - b * down;
    return ((b * I(d.height) + gy * patch_height + row) * width + gx * patch_width) * channels + in_run;
  }
};
/// The place of value i of a part among all values. The part has `count` of each image's `size` values, from
/// `first` on.
struct PartPlace {
  std::int64_t size, first, count;
  std::int64_t together() const { return std::gcd(std::gcd(size, first), count); }
  template <class I>
  __device__ I operator()(I i) const {
    const I image = i / I(count);
    return image * I(size) + I(first) + (i - image * I(count));
  }
};

/// The backward pass: the place in the part of value i of all values.
struct WholePlace {
  PartPlace part;
  std::int64_t together() const { return part.together(); }
  template <class I>
  __device__ I operator()(I i) const {
    const I image = i / I(part.size), at = i - image * I(part.size), first = I(part.first), count = I(part.count);
    return at >= first && at - first < count ? image * count + (at - first) : I(kPadding);
  }
};

/// A row is an image.
template <class T>
struct AddPositions {
  const T* x;
  const Param<T>* position;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    Param<T> plus[V];
    load(position + run.column, plus);
    run.each(
        [&](std::int64_t at, const T(&in)[V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) out[k] = Acc<T>(in[k]) + plus[k];
          put_all(y + at, out);
        },
        x);
  }
};
/// dx = dy, and on the way the sums over images.
template <class T>
struct AddPositionsGradient {
  const T* dy;
  T* dx;
  bool add;
  template <int V>
  __device__ void operator()(SumRun<1, V, Acc<T>>& run) const {
    run.each(
        [&](std::int64_t at, const T(&dys)[V], Acc<T>(&terms)[1][V]) {
          Acc<T> out[V];
          for (int k = 0; k < V; ++k) terms[0][k] = out[k] = Acc<T>(dys[k]);
          if (dx) put_all(dx + at, out, add);
        },
        dy);
  }
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

/// Columns of one image, with its tokens in order. A row is an image.
template <class T>
struct MeanTokens {
  TokenDims d;
  const T* x;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    run.each([&](std::int64_t at) {
      const std::int64_t first = (at - run.column) * d.tokens + run.column;
      Acc<T> total[V] = {};
      const Run<V> tokens{first, d.cols, first + d.tokens * d.cols - run.column, run.column, 0};
      tokens.each(
          [&](std::int64_t, const T(&in)[V]) {
            for (int k = 0; k < V; ++k) total[k] += Acc<T>(in[k]);
          },
          x);
      for (int k = 0; k < V; ++k) total[k] /= Acc<T>(d.tokens);
      put_all(y + at, total);
    });
  }
};
/// A part is an image.
template <class T>
struct MeanTokensGradient {
  TokenDims d;
  const T* dy;
  T* dx;
  bool add;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    T up[V];
    load(dy + run.part * d.cols + run.column, up);
    run.each([&](std::int64_t at) {
      Acc<T> out[V];
      for (int k = 0; k < V; ++k) out[k] = Acc<T>(up[k]) / Acc<T>(d.tokens);
      put_all(dx + at, out, add);
    });
  }
};

/// For each image: `head` values of first, then `tail` of rest. `step` is the distance between images in first, 0 if
/// all share the same values.
template <class T, class F>
struct Concat {
  std::int64_t head, tail, step;
  const F* first;
  const T* rest;
  T* y;
  template <int V>
  __device__ void operator()(const Run<V>& run) const {
    run.each([&](std::int64_t i) {
      const std::int64_t b = quotient(i, head + tail), at = i - b * (head + tail);
      T values[V];
      if (at < head) {
        F of_first[V];
        load(first + b * step + at, of_first);
        for (int k = 0; k < V; ++k) values[k] = T(Acc<T>(of_first[k]));
      } else {
        load(rest + b * tail + at - head, values);
      }
      store(y + i, values);
    });
  }
  /// Whether vectors can be used, none of which has values of both.
  bool in_vectors() const { return aligned({first, rest, y}) && head % kVector<T> == 0 && tail % kVector<T> == 0; }
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
    each_vector<T>("add_positions", Parts(d.batch, d.tokens * d.cols), aligned({x.raw(), position.raw(), y.raw()}),
                   stream_, AddPositions<T>{x.data<T>(), position.data<Param<T>>(), y.data<T>()});
  });
}

void CudaBackend::add_positions_backward(TokenDims d, Tensor dy, Gradient dx, Gradient dposition) {
  if (!dposition) return copy_gradient(dy, dx);
  for_type("add_positions", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    vector_sums<1, T>("add_positions_backward", d.batch, d.tokens * d.cols, aligned({dy.raw(), dx.to.raw()}),
                      AddPositionsGradient<T>{dy.data<T>(), dx.to.data<T>(), adds(dx)}, {dposition}, partial_, stream_);
  });
}

void CudaBackend::mean_tokens(TokenDims d, Tensor x, Tensor y) {
  for_type("mean_tokens", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_vector<T>("mean_tokens", Parts(d.batch, d.cols), aligned({x.raw(), y.raw()}), stream_,
                   MeanTokens<T>{d, x.data<T>(), y.data<T>()}, 1);
  });
}

void CudaBackend::mean_tokens_backward(TokenDims d, Tensor dy, Gradient dx) {
  if (!dx) return;
  for_type("mean_tokens", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    each_vector<T>("mean_tokens_backward", Parts(d.batch * d.tokens, d.cols, d.tokens, d.batch),
                   aligned({dy.raw(), dx.to.raw()}), stream_,
                   MeanTokensGradient<T>{d, dy.data<T>(), dx.to.data<T>(), adds(dx)});
  });
}

void CudaBackend::concat_token(TokenDims d, Tensor token, Tensor x, Tensor y) {
  for_type("concat_token", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const Concat<T, Param<T>> concat{d.cols, d.tokens * d.cols, 0, token.data<Param<T>>(), x.data<T>(), y.data<T>()};
    each_vector<T>("concat_token", y.size(), concat.in_vectors(), stream_, concat);
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
    const Concat<T, T> concat{head, tail, head, first.data<T>(), rest.data<T>(), y.data<T>()};
    each_vector<T>("concat_tokens", y.size(), concat.in_vectors(), stream_, concat);
  });
}

void CudaBackend::concat_tokens_backward(TokenDims d, std::int64_t n, Tensor dy, Gradient dfirst, Gradient drest) {
  const std::int64_t size = d.tokens * d.cols, head = n * d.cols;
  if (dfirst) gather("concat_tokens_backward", PartPlace{size, 0, head}, dy, dfirst.to, adds(dfirst), stream_);
  if (drest) gather("concat_tokens_backward", PartPlace{size, head, size - head}, dy, drest.to, adds(drest), stream_);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
