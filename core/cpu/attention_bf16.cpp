// Attention on bf16 activations: scores and softmax in float, weights rounded for their product with the values. As
// many heads as keep their [N, N] scores in the second-level cache are gathered, multiplied in one call per product,
// and scattered again.
#include "core/cpu/bf16_products.h"
#include "core/cpu/kernel.h"
#include "core/cpu/vector_exp.h"
#include "core/cpu/window_bias.h"

namespace normlab {
using namespace cpu;
namespace {

constexpr std::int64_t kScoreBytes = 192 << 10;  // constant, since the cut into groups must not depend on the machine

/// Heads per call: the largest divisor of the number of heads whose float scores fit.
std::int64_t heads_at_once(AttentionDims d) {
  std::int64_t g = std::clamp<std::int64_t>(kScoreBytes / (d.tokens * d.tokens * 4), 1, d.heads);
  while (d.heads % g != 0) --g;
  return g;
}

/// scores [g, N, N] = a b^T of [g, N, d] each.
Bf16Product scores_product(AttentionDims d) {
  return {.m = d.tokens, .n = d.tokens, .k = d.head_dim, .batch = heads_at_once(d), .transpose_b = true};
}
/// [g, N, d] = weights b, or weights^T b.
Bf16Product values_product(AttentionDims d, bool transpose) {
  return {.m = d.tokens, .n = d.head_dim, .k = d.tokens, .batch = heads_at_once(d), .transpose_a = transpose};
}

/// to [n] = value(i, lanes), vector by vector, rounded.
template <class F>
[[gnu::always_inline]] inline void round_to(bf16* to, std::int64_t n, F&& value) {
  each_vector<float>(n, [&](std::int64_t i, auto lanes) { store(to + i, value(i, lanes), lanes); });
}

/// A group of heads of one image of [B, N, H d]: its place there, and its layout in scratch.
struct Heads {
  AttentionDims dims;
  std::int64_t count;

  const bf16* gather(const bf16* x, std::int64_t stride, bf16* to) const {
    for (std::int64_t h = 0; h < count; ++h)
      for (std::int64_t n = 0; n < dims.tokens; ++n)
        std::memcpy(to + (h * dims.tokens + n) * dims.head_dim, x + n * stride + h * dims.head_dim,
                    static_cast<std::size_t>(dims.head_dim) * sizeof(bf16));
    return to;
  }
  void spread(const float* x, std::int64_t stride, bf16* to, bool add) const {
    for (std::int64_t h = 0; h < count; ++h)
      for (std::int64_t n = 0; n < dims.tokens; ++n) {
        const float* from = x + (h * dims.tokens + n) * dims.head_dim;
        bf16* out = to + n * stride + h * dims.head_dim;
        if (add)
          round_to(out, dims.head_dim,
                   [&](auto c, auto lanes) { return load(out + c, lanes) + load(from + c, lanes); });
        else
          round_to(out, dims.head_dim, [&](auto c, auto lanes) { return load(from + c, lanes); });
      }
  }
};

/// One row: p = softmax(scale s), rounded, with dropout by `keep`; returns the log-sum-exp. Overwrites s.
float softmax_row(std::int64_t n, float scale, float* s, const std::uint8_t* keep, float inverse_keep, bf16* p) {
  const float shift = scale * row_max(n, s), total = exp_row(n, s, scale, shift);
  const float inverse = (keep ? inverse_keep : 1.0f) / total;
  if (keep)
    for (std::int64_t j = 0; j < n; ++j) p[j] = bf16(keep[j] ? s[j] * inverse : 0.0f);
  else
    round_to(p, n, [&](auto j, auto lanes) { return load(s + j, lanes) * inverse; });
  return shift + std::log(total);
}

/// What a window adds to its scores, in float: the bias of every head and each mask.
class WindowScores {
 public:
  WindowScores(const std::optional<WindowDims>& d, std::int64_t heads, const Tensor& table)
      : d_(d), bias_(d ? (heads + kMaskPatterns) * d->tokens() * d->tokens() : 0) {
    if (!d) return;
    const std::int64_t square = d->tokens() * d->tokens();
    masks_ = bias_ + heads * square;
    for (std::int64_t h = 0; h < heads; ++h) expand_bias(*d, heads, h, table.data<float>(), bias_ + h * square);
    std::fill_n(masks_, kMaskPatterns * square, 0.0f);
    for (int p = 1; p < kMaskPatterns; ++p) add_mask(*d, p, masks_ + p * square);
  }
  explicit operator bool() const { return d_.has_value(); }
  /// s [n] = scale s + bias + mask, row `i` of head h in window w.
  void apply(std::int64_t w, std::int64_t h, std::int64_t i, float scale, float* s) const {
    const std::int64_t n = d_->tokens();
    const float *bias = bias_ + (h * n + i) * n, *mask = masks_ + (mask_pattern(*d_, w) * n + i) * n;
    for (std::int64_t j = 0; j < n; ++j) s[j] = scale * s[j] + (bias[j] + mask[j]);
  }

 private:
  const std::optional<WindowDims>& d_;
  const Scratch<float> bias_;
  float* masks_ = nullptr;
};

float scale_of(AttentionDims d) { return float(1 / std::sqrt(double(d.head_dim))); }

}  // namespace

void CpuBackend::prepare_attention(AttentionDims d, DType dtype) {
  if (dtype != DType::bf16 || bf16_products_ == Bf16Products::emulated) return;
  bf16_prepare(scores_product(d));
  for (const bool transpose : {false, true}) bf16_prepare(values_product(d, transpose));
}

void CpuBackend::attention_bf16(AttentionDims d, const AttentionInput& input, const AttentionOutput& output) {
  const auto& [q, k, v, keep, rate, windows, table] = input;
  const std::int64_t N = d.tokens, g = heads_at_once(d), side = g * N * d.head_dim, square = g * N * N;
  const Heads heads{d, g};
  const float scale = scale_of(d), inverse_keep = float(1 / (1 - rate));
  const std::uint8_t* mask = keep.data<std::uint8_t>();
  const Scratch<float> s(square + side);
  float* sums = s + square;
  const Scratch<bf16> a(2 * side + square);
  bf16 *b = a + side, *p = b + side;
  const WindowScores added(windows, d.heads, table);
  for (std::int64_t image = 0; image < d.batch; ++image)
    for (std::int64_t h = 0; h < d.heads; h += g) {
      const std::int64_t at = image * N * d.width() + h * d.head_dim, in = image * N * d.stride + h * d.head_dim,
                         row = (image * d.heads + h) * N;
      bf16_product(bf16_products_, scores_product(d), heads.gather(q.data<bf16>() + in, d.stride, a),
                   heads.gather(k.data<bf16>() + in, d.stride, b), nullptr, s);
      float* head_lse = output.lse.data<float>() + row;
      for (std::int64_t i = 0; i < g * N; ++i) {
        if (added) added.apply(image, h + i / N, i % N, scale, s + i * N);
        head_lse[i] = softmax_row(N, added ? 1.0f : scale, s + i * N, mask ? mask + (row + i) * N : nullptr,
                                  inverse_keep, p + i * N);
      }
      bf16_product(bf16_products_, values_product(d, false), p, heads.gather(v.data<bf16>() + in, d.stride, a), nullptr,
                   sums);
      heads.spread(sums, d.width(), output.y.data<bf16>() + at, false);
    }
}

/// With P the weights, M = keep / (1 - rate) and dP = (dy v^T) M:
///   dv = (P M)^T dy,  dS = P (dP - rowsum(dP P)),  dq = dS k / sqrt(d),  dk = dS^T q / sqrt(d).
/// The row sums equal dy . y. P M and dS / sqrt(d) are rounded; the gradient of the bias is the unrounded dS summed
/// over windows.
void CpuBackend::attention_bf16_backward(AttentionDims d, const AttentionInput& input, const AttentionOutput& output,
                                         Tensor dy, const AttentionGradients& to) {
  const auto& [q, k, v, keep, rate, windows, table] = input;
  const Gradient &dq = to.dq, &dk = to.dk, &dv = to.dv, &dtable = to.dtable;
  const std::int64_t N = d.tokens, g = heads_at_once(d), side = g * N * d.head_dim, square = g * N * N;
  const Heads heads{d, g};
  const float scale = scale_of(d), inverse_keep = float(1 / (1 - rate));
  const std::uint8_t* mask = keep.data<std::uint8_t>();
  const Scratch<float> p(2 * square + side);
  float *dp = p + square, *sums = dp + square;
  const Scratch<bf16> qs(4 * side + square);
  bf16 *ks = qs + side, *vs = ks + side, *gs = vs + side, *narrow = gs + side;
  const WindowScores added(windows, d.heads, table);
  const Scratch<float> dbias(dtable ? d.heads * N * N : 0);
  if (dtable) std::fill_n(dbias.begin(), d.heads * N * N, 0.0f);
  for (std::int64_t image = 0; image < d.batch; ++image)
    for (std::int64_t h = 0; h < d.heads; h += g) {
      const std::int64_t at = image * N * d.width() + h * d.head_dim, in = image * N * d.stride + h * d.head_dim,
                         row = (image * d.heads + h) * N;
      heads.gather(q.data<bf16>() + in, d.stride, qs);
      heads.gather(k.data<bf16>() + in, d.stride, ks);
      heads.gather(v.data<bf16>() + in, d.stride, vs);
      heads.gather(dy.data<bf16>() + at, d.width(), gs);
      bf16_product(bf16_products_, scores_product(d), qs, ks, nullptr, p);
      const float* head_lse = output.lse.data<float>() + row;
      for (std::int64_t i = 0; i < g * N; ++i) {
        float* pr = p + i * N;
        bf16* out = narrow + i * N;
        if (added) added.apply(image, h + i / N, i % N, scale, pr);
        exp_row(N, pr, added ? 1.0f : scale, head_lse[i]);
        if (!dv) continue;
        const std::uint8_t* kept = mask ? mask + (row + i) * N : nullptr;
        if (kept)
          for (std::int64_t j = 0; j < N; ++j) out[j] = bf16(kept[j] ? pr[j] * inverse_keep : 0.0f);
        else
          round_to(out, N, [&](auto j, auto lanes) { return load(pr + j, lanes); });
      }
      if (dv) {
        bf16_product(bf16_products_, values_product(d, true), narrow, gs, nullptr, sums);
        heads.spread(sums, d.stride, dv.to.data<bf16>() + in, adds(dv));
      }
      if (!dq && !dk && !dtable) continue;
      bf16_product(bf16_products_, scores_product(d), gs, vs, nullptr, dp);
      const bf16 *up = dy.data<bf16>() + at, *result = output.y.data<bf16>() + at;
      for (std::int64_t i = 0; i < g * N; ++i) {
        const std::int64_t from = i % N * d.width() + i / N * d.head_dim;
        const float inner =
            sum<float>(d.head_dim, [&](auto c) { return float(up[from + c]) * float(result[from + c]); });
        const float *pr = p + i * N, *dr = dp + i * N;
        const std::uint8_t* kept = mask ? mask + (row + i) * N : nullptr;
        bf16* out = narrow + i * N;
        if (kept)
          for (std::int64_t j = 0; j < N; ++j)
            out[j] = bf16(scale * pr[j] * ((kept[j] ? dr[j] * inverse_keep : 0.0f) - inner));
        else
          round_to(out, N,
                   [&](auto j, auto lanes) { return scale * load(pr + j, lanes) * (load(dr + j, lanes) - inner); });
        if (!dtable) continue;
        float* total = dbias + (h * N + i) * N;
        for (std::int64_t j = 0; j < N; ++j)
          total[j] += pr[j] * ((kept ? (kept[j] ? dr[j] * inverse_keep : 0.0f) : dr[j]) - inner);
      }
      if (dq) {
        bf16_product(bf16_products_, values_product(d, false), narrow, ks, nullptr, sums);
        heads.spread(sums, d.stride, dq.to.data<bf16>() + in, adds(dq));
      }
      if (dk) {
        bf16_product(bf16_products_, values_product(d, true), narrow, qs, nullptr, sums);
        heads.spread(sums, d.stride, dk.to.data<bf16>() + in, adds(dk));
      }
    }
  if (dtable)
    for (std::int64_t h = 0; h < d.heads; ++h) reduce_bias<float>(*windows, d.heads, h, dbias + h * N * N, dtable);
}

}  // namespace normlab
