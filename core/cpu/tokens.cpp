// Moves tokens: patches of images, positions, class token, pooling.
#include "core/cpu/kernel.h"

namespace normlab {
using namespace cpu;
namespace {

/// Calls visit(offset in the image tensor, offset in the patch tensor, count) for every run of adjacent values.
template <class F>
void for_patch_rows(const PatchDims& d, F&& visit) {
  const std::int64_t grid_w = d.width / d.patch_width, run = d.patch_width * d.channels;
  std::int64_t to = 0;
  for (std::int64_t b = 0; b < d.batch; ++b)
    for (std::int64_t gy = 0; gy < d.height / d.patch_height; ++gy)
      for (std::int64_t gx = 0; gx < grid_w; ++gx)
        for (std::int64_t row = 0; row < d.patch_height; ++row, to += run)
          visit(((b * d.height + gy * d.patch_height + row) * d.width + gx * d.patch_width) * d.channels, to, run);
}

template <class T>
void add_run(std::int64_t n, const T* from, T* to, bool add) {
  for (std::int64_t i = 0; i < n; ++i) put(to[i], Acc<T>(from[i]), add);
}

}  // namespace

void CpuBackend::patchify(PatchDims d, Tensor images, Tensor y) {
  for_type("patchify", images.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T* in = images.data<T>();
    T* out = y.data<T>();
    for_patch_rows(d, [&](auto from, auto to, auto n) { std::copy(in + from, in + from + n, out + to); });
  });
}

void CpuBackend::patchify_backward(PatchDims d, Tensor dy, Gradient dimages) {
  if (!dimages) return;
  for_type("patchify", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T* up = dy.data<T>();
    T* out = dimages.to.data<T>();
    for_patch_rows(d, [&](auto from, auto to, auto n) { add_run<T>(n, up + to, out + from, adds(dimages)); });
  });
}

void CpuBackend::add_positions(TokenDims d, Tensor x, Tensor position, Tensor y) {
  for_type("add_positions", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t n = d.tokens * d.cols;
    const T* in = x.data<T>();
    const Param<T>* p = position.data<Param<T>>();
    T* out = y.data<T>();
    for (std::int64_t b = 0; b < d.batch; ++b)
      for (std::int64_t i = 0; i < n; ++i) out[b * n + i] = T(Acc<T>(in[b * n + i]) + p[i]);
  });
}

void CpuBackend::add_positions_backward(TokenDims d, Tensor dy, Gradient dx, Gradient dposition) {
  copy_gradient(dy, dx);
  for_type("add_positions", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t n = d.tokens * d.cols;
    const T* up = dy.data<T>();
    sum_columns<Param<T>>(d.batch, n, Slot::a, dposition, [&](auto b, auto i) { return Acc<T>(up[b * n + i]); });
  });
}

void CpuBackend::mean_tokens(TokenDims d, Tensor x, Tensor y) {
  for_type("mean_tokens", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    A* total = scratch<A>(Slot::a, d.cols);
    for (std::int64_t b = 0; b < d.batch; ++b) {
      std::memset(total, 0, static_cast<std::size_t>(d.cols) * sizeof(A));
      for (std::int64_t n = 0; n < d.tokens; ++n) {
        const T* row = x.data<T>() + (b * d.tokens + n) * d.cols;
        for (std::int64_t c = 0; c < d.cols; ++c) total[c] += A(row[c]);
      }
      for (std::int64_t c = 0; c < d.cols; ++c) y.data<T>()[b * d.cols + c] = T(total[c] / A(d.tokens));
    }
  });
}

void CpuBackend::mean_tokens_backward(TokenDims d, Tensor dy, Gradient dx) {
  if (!dx) return;
  for_type("mean_tokens", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    using A = Acc<T>;
    for (std::int64_t b = 0; b < d.batch; ++b)
      for (std::int64_t n = 0; n < d.tokens; ++n) {
        const T* up = dy.data<T>() + b * d.cols;
        T* out = dx.to.data<T>() + (b * d.tokens + n) * d.cols;
        for (std::int64_t c = 0; c < d.cols; ++c) put(out[c], A(up[c]) / A(d.tokens), adds(dx));
      }
  });
}

void CpuBackend::concat_token(TokenDims d, Tensor token, Tensor x, Tensor y) {
  for_type("concat_token", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t n = d.tokens * d.cols;
    const Param<T>* first = token.data<Param<T>>();
    for (std::int64_t b = 0; b < d.batch; ++b) {
      T* out = y.data<T>() + b * (n + d.cols);
      for (std::int64_t c = 0; c < d.cols; ++c) out[c] = T(first[c]);
      std::copy(x.data<T>() + b * n, x.data<T>() + (b + 1) * n, out + d.cols);
    }
  });
}

void CpuBackend::concat_token_backward(TokenDims d, Tensor dy, Gradient dtoken, Gradient dx) {
  for_type("concat_token", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t n = d.tokens * d.cols;
    const T* up = dy.data<T>();
    if (dx)
      for (std::int64_t b = 0; b < d.batch; ++b)
        add_run<T>(n, up + b * (n + d.cols) + d.cols, dx.to.data<T>() + b * n, adds(dx));
    sum_columns<Param<T>>(d.batch, d.cols, Slot::a, dtoken,
                          [&](auto b, auto c) { return Acc<T>(up[b * (n + d.cols) + c]); });
  });
}

void CpuBackend::select_tokens(TokenDims d, std::int64_t first, std::int64_t count, Tensor x, Tensor y) {
  for_type("select_tokens", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    for (std::int64_t b = 0; b < d.batch; ++b) {
      const T* from = x.data<T>() + (b * d.tokens + first) * d.cols;
      std::copy(from, from + count * d.cols, y.data<T>() + b * count * d.cols);
    }
  });
}

void CpuBackend::select_tokens_backward(TokenDims d, std::int64_t first, std::int64_t count, Tensor dy, Gradient dx) {
  if (!dx) return;
  for_type("select_tokens", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    for (std::int64_t b = 0; b < d.batch; ++b) {
      T* out = dx.to.data<T>() + b * d.tokens * d.cols;
      if (!adds(dx)) std::fill(out, out + d.tokens * d.cols, T(0.0f));
      add_run<T>(count * d.cols, dy.data<T>() + b * count * d.cols, out + first * d.cols, adds(dx));
    }
  });
}

void CpuBackend::concat_tokens(TokenDims d, std::int64_t n, Tensor first, Tensor rest, Tensor y) {
  for_type("concat_tokens", first.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t head = n * d.cols, tail = (d.tokens - n) * d.cols;
    for (std::int64_t b = 0; b < d.batch; ++b) {
      T* out = y.data<T>() + b * (head + tail);
      std::copy(first.data<T>() + b * head, first.data<T>() + (b + 1) * head, out);
      std::copy(rest.data<T>() + b * tail, rest.data<T>() + (b + 1) * tail, out + head);
    }
  });
}

void CpuBackend::concat_tokens_backward(TokenDims d, std::int64_t n, Tensor dy, Gradient dfirst, Gradient drest) {
  for_type("concat_tokens", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t head = n * d.cols, tail = (d.tokens - n) * d.cols;
    for (std::int64_t b = 0; b < d.batch; ++b) {
      const T* up = dy.data<T>() + b * (head + tail);
      if (dfirst) add_run<T>(head, up, dfirst.to.data<T>() + b * head, adds(dfirst));
      if (drest) add_run<T>(tail, up + head, drest.to.data<T>() + b * tail, adds(drest));
    }
  });
}

void CpuBackend::embed(Tensor ids, Tensor table, Tensor y) {
  for_type("embed", y.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t cols = y.shape().back();
    for (std::int64_t r = 0; r < ids.size(); ++r) {
      const Param<T>* from = table.data<Param<T>>() + ids.data<std::int32_t>()[r] * cols;
      std::transform(from, from + cols, y.data<T>() + r * cols, [](Param<T> value) { return T(value); });
    }
  });
}

void CpuBackend::embed_backward(Tensor dy, Tensor ids, Gradient dtable) {
  if (!dtable) return;
  for_type("embed", dy.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t cols = dy.shape().back();
    Param<T>* const to = dtable.to.data<Param<T>>();
    if (!adds(dtable)) std::fill_n(to, dtable.to.size(), Param<T>(0));
    for (std::int64_t r = 0; r < ids.size(); ++r) {
      Param<T>* const row = to + ids.data<std::int32_t>()[r] * cols;
      for (std::int64_t c = 0; c < cols; ++c) row[c] += Param<T>(dy.data<T>()[r * cols + c]);
    }
  });
}

}  // namespace normlab
