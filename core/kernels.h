// The kernels that every device implements: one call per operation, each forward next to its backward.
//
// Tensors are contiguous and row-major. "rows" are all axes but the last. Activations have the network's storage type T
// (f32, f64, bf16), parameters and their gradients Param<T>, kept statistics Acc<T>. A `Gradient` says where a gradient
// goes and whether it is assigned or added; an empty one is not computed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/collective.h"
#include "core/error.h"
#include "core/gradient.h"
#include "core/host_device.h"
#include "core/kernel_settings.h"
#include "core/places.h"
#include "core/random.h"
#include "core/resample.h"
#include "core/step_state.h"
#include "core/tensor.h"

namespace normlab {

struct LinearDims {
  std::int64_t rows, in, out;
};
/// The backward pass of a dense layer. `saved` is the tensor of that name from linear_gelu.
struct LinearBackward {
  Tensor dy{}, x{}, w{};
  Gradient dx{}, dw{}, db{};
  Tensor saved{};
};
struct NormDims {
  std::int64_t rows, cols;
  double eps;
  bool sum = false;  // rms_norm: eps is added to the sum of squares instead of their mean, as in L2 normalisation
  NORMLAB_HOST_DEVICE std::int64_t mean_over() const { return sum ? 1 : cols; }
};
/// y = norm(x) with gain gamma and bias beta [cols]. mean and rstd are outputs, kept for the backward pass.
struct NormForward {
  Tensor x{}, gamma{}, beta{}, y{}, mean{}, rstd{};
};
struct NormBackward {
  Tensor dy{}, x{}, gamma{}, mean{}, rstd{};
  Gradient dx{}, dgamma{}, dbeta{};
  Gradient dsum{};  // [C], if sums_gradients(): the sums over rows of dx, after this is added to it
};
namespace formula {
struct Programs;  // core/formula/program.h
}
/// A norm or an activation that is given by a formula. Each image is [rows, cols]. The parameters are [cols] or [1];
/// `lasting` holds the reductions that the backward pass reads. `gate`, if any, is a second input like x.
struct FormulaDims {
  std::int64_t images, rows, cols;
};
inline constexpr std::size_t kMostFormulaParameters = 7;
struct FormulaForward {
  const formula::Programs* programs;
  Tensor x{}, y{}, lasting{}, gate{};
  std::array<Tensor, kMostFormulaParameters> parameters{};
};
struct FormulaBackward {
  FormulaForward forward;
  Tensor dy{};
  Gradient dx{}, dgate{};
  std::array<Gradient, kMostFormulaParameters> dparameters{};
};
/// Each image is [rows, cols]. Statistics are over all rows and cols / groups channels.
struct GroupNormDims {
  std::int64_t images, rows, cols, groups;
  double eps;
};
/// Batch norm sees [images, rows_per_image, cols]. Statistics cover groups of `statistics_batch` images of the whole
/// batch (0: all of it). This shard has `images` of them, starting at `first_image`.
struct BatchNormDims {
  std::int64_t images, rows_per_image, cols, first_image, batch, statistics_batch;
  double eps, momentum;
  /// The batch is the part from image `part_begin` on of a step of `step_images`, all of whose groups move the running
  /// values together. 0: the first group of each part moves them.
  std::int64_t step_images = 0, part_begin = 0;
  NORMLAB_HOST_DEVICE constexpr std::int64_t group_size() const {
    return statistics_batch > 0 && statistics_batch < batch ? statistics_batch : batch;
  }
  NORMLAB_HOST_DEVICE constexpr std::int64_t groups() const { return (batch + group_size() - 1) / group_size(); }
  /// Images of a group; the last one may have fewer.
  NORMLAB_HOST_DEVICE constexpr std::int64_t images_of(std::int64_t group) const {
    const std::int64_t left = batch - group * group_size();
    return left < group_size() ? left : group_size();
  }
  constexpr std::int64_t smallest_group() const { return images_of(groups() - 1); }
  /// running = carry() running + sum of share(g) times the statistic of group g, over moving_groups(). Over the parts of
  /// a step that adds up to (1 - momentum) running + momentum times the mean of all groups, weighted by their images.
  NORMLAB_HOST_DEVICE constexpr std::int64_t moving_groups() const { return step_images > 0 ? groups() : 1; }
  NORMLAB_HOST_DEVICE constexpr double carry() const { return step_images > 0 && part_begin > 0 ? 1 : 1 - momentum; }
  NORMLAB_HOST_DEVICE constexpr double share(std::int64_t group) const {
    return step_images > 0 ? momentum * (double(images_of(group)) / double(step_images)) : momentum;
  }
};
/// q, k, v and their gradients have `stride` values from one token to the next: the width heads * head_dim, or three
/// times that if they share one tensor [B, N, 3 H d], each starting at its own third.
struct AttentionDims {
  std::int64_t batch, tokens, heads, head_dim, stride;
  constexpr std::int64_t width() const { return heads * head_dim; }
};
/// keep [B, H, N, N] u8 or empty: attention weights are multiplied by keep / (1 - rate). With `windows`, attention is
/// inside windows (Liu et al. 2021), which take the place of images in the order of cut_windows. Only then is there a
/// `table` [offsets, H], and the scores are q k^T / sqrt(d) + bias + mask. For tokens i and j of a window, bias is
/// table row (yi - yj + w - 1)(2 w - 1) + xi - xj + w - 1, and mask is -100 if only the cyclic shift made them
/// neighbours, else 0.
struct AttentionInput {
  Tensor q{}, k{}, v{}, keep{};
  double rate = 0.0;
  std::optional<WindowDims> windows{};
  Tensor table{};
};
/// y [B, N, H d] and the log-sum-exp of each row of scores, lse [B, H, N].
struct AttentionOutput {
  Tensor y{}, lse{};
};
struct AttentionGradients {
  Gradient dq{}, dk{}, dv{}, dtable{};
  Gradient dsum{};  // [3 H d], if sums_gradients(): the sums over all tokens of dq, dk and dv, which lie side by side
};
/// Attention from one token of each image to all tokens: q, y and their gradients [B, H d], k and v [B, N, H d].
/// `stride` in AttentionDims applies to k and v. weights [B, H, N] are kept.
struct TokenAttention {
  Tensor q{}, k{}, v{}, y{}, weights{};
};
struct TokenAttentionBackward {
  Tensor dy{}, q{}, k{}, v{}, weights{};
  Gradient dq{}, dk{}, dv{};
};
struct ResampleDims {
  std::int64_t batch, height, width, channels, out_height, out_width;
  Resampling method;
};
struct TokenDims {
  std::int64_t batch, tokens, cols;
};
/// Of x [batch, tokens, cols]: the first `turned` channels of each token from `first` on, cut into heads.
struct RotaryDims {
  std::int64_t batch, tokens, cols, turned, head_dim, first;
  RotaryPairs pairs{};
  bool back = false;  // by the negative angles
};
struct LossDims {
  std::int64_t batch, classes;
  double label_smoothing = 0.0;
  Smoothing smoothing{};
  bool sigmoid = false;                   // instead of softmax
  std::optional<std::int32_t> ignored{};  // softmax: the label of pixels without loss and gradient
};
/// A shard's `images` pairs of image and text of a batch of `batch`, from pair `first` on. sigmoid: SigLIP's loss.
struct ContrastDims {
  std::int64_t images, batch, first;
  bool sigmoid;
};
/// Cosines of the shard's images with all texts, rows [images, batch], and of its texts with all images, cols; the
/// logarithm of the temperature t [1] and the bias b [1].
struct Contrast {
  Tensor rows{}, cols{}, t{}, b{};
};
/// Element i of this shard's mask is element first + i of the whole batch's.
struct MaskDraw {
  StreamKey key;
  double rate;
  std::int64_t first;
};

/// Kernels with one source for all devices (core/shared_kernels.h), as declarations.
#define NORMLAB_SHARED_KERNELS(KERNEL)                                                                                \
  /* Elementwise, any shape. copy_gradient is the backward pass of add for either operand. */                         \
  KERNEL(add(Tensor a, Tensor b, Tensor y))                                                                           \
  KERNEL(copy_gradient(Tensor dy, Gradient dx))                                                                       \
  KERNEL(tanh_backward(Tensor dy, Tensor y, Gradient dx))                                                             \
  /* y [rows, cols] = x * gain[c / group], gain [cols / group]. group is 1 for a gain per channel, cols for a */      \
  /* scalar, the head width for a gain per head. */                                                                   \
  KERNEL(scale(std::int64_t group, Tensor x, Tensor gain, Tensor y))                                                  \
  KERNEL(scale_backward(std::int64_t group, Tensor dy, Tensor x, Tensor gain, Gradient dx, Gradient dgain))           \
  /* y = gamma x + beta. */                                                                                           \
  KERNEL(affine(Tensor x, Tensor gamma, Tensor beta, Tensor y))                                                       \
  KERNEL(affine_backward(Tensor dy, Tensor x, Tensor gamma, Gradient dx, Gradient dgamma, Gradient dbeta))            \
  /* y [B, N, C] = x + position [N, C]. */                                                                            \
  KERNEL(add_positions(TokenDims, Tensor x, Tensor position, Tensor y))                                               \
  KERNEL(add_positions_backward(TokenDims, Tensor dy, Gradient dx, Gradient dposition))                               \
                                                                                                                      \
  /* y = x, where pair c of each head of a token is turned: (a, b) to (a cos - b sin, b cos + a sin). table */        \
  /* [N - first, head_dim] has the cosines of a token's angles, then their sines. */                                  \
  KERNEL(rotate(RotaryDims, Tensor x, Tensor table, Gradient y))                                                      \
  /* Sets the first n tokens of each image of y [B, N, C] to the tokens [n, C]. */                                    \
  KERNEL(put_token(TokenDims, Tensor token, Tensor y))                                                                \
  /* losses [batch], one per image. labels i32 [batch], or targets [batch, classes] in Acc<T>; the other is empty. */ \
  /* softmax: -sum_c t_c log p_c. sigmoid: summed over classes (Big Vision). */                                       \
  KERNEL(cross_entropy(LossDims, Tensor logits, Tensor labels, Tensor targets, Tensor losses))                        \
  KERNEL(cross_entropy_backward(LossDims, Tensor dlosses, Tensor logits, Tensor labels, Tensor targets, Gradient))    \
  /* y = x / (|x| + 1e-8) for each row; y in Acc<T>. */                                                               \
  KERNEL(unit_rows(Tensor x, Tensor y))                                                                               \
  KERNEL(unit_rows_backward(Tensor dy, Tensor x, Gradient dx))                                                        \
  /* Logits are exp(t) cosine, for the sigmoid + b. losses [images]. statistics [images, 4]: of the softmax over */   \
  /* texts, then over images, the largest logit and the sum of exp(logit - largest). */                               \
  KERNEL(contrast(ContrastDims, const Contrast&, Tensor statistics, Tensor losses))                                   \
  /* y [rows, cols] = the rows of table [words, cols] that ids i32 [rows] name. */                                    \
  KERNEL(embed(Tensor ids, Tensor table, Tensor y))

/// Kernels that each device has its own source of.
#define NORMLAB_KERNELS(KERNEL)                                                                                       \
  /* y [rows, out] = x [rows, in] w^T + b (+ residual); w [out, in]; b [out] or empty; residual [rows, out] or */     \
  /* empty, its gradient is dy. With bf16 activations w may be the rounded bf16 copy of the parameter; a float w */   \
  /* is rounded here. dw is float either way. b may be bf16 if rounds_bias(). */                                      \
  KERNEL(linear(LinearDims, Tensor x, Tensor w, Tensor b, Tensor residual, Tensor y))                                 \
  KERNEL(linear_backward(LinearDims, const LinearBackward&))                                                          \
  /* y = gelu(h), h = x w^T + b. `saved` has y's shape and holds what this device reads in the backward pass, */      \
  /* gelu'(h) or h. Empty if there is no backward pass. */                                                            \
  KERNEL(linear_gelu(LinearDims, GeluForm, Tensor x, Tensor w, Tensor b, Tensor saved, Tensor y))                     \
  KERNEL(linear_gelu_backward(LinearDims, GeluForm, const LinearBackward&))                                           \
                                                                                                                      \
  /* Elementwise, any shape. */                                                                                       \
  KERNEL(gelu(GeluForm, Tensor x, Tensor y))                                                                          \
  KERNEL(gelu_backward(GeluForm, Tensor dy, Tensor x, Gradient dx))                                                   \
  KERNEL(tanh(Tensor x, Tensor y))                                                                                    \
  /* x is f32, f64 or i32. */                                                                                         \
  KERNEL(fill(Tensor x, double value))                                                                                \
                                                                                                                      \
  /* LayerNorm (Ba et al. 2016): y = gamma (x - mean) rstd + beta; mean and rstd [rows]. gamma and beta may both */   \
  /* be empty. Without a mean it is RMSNorm (Zhang and Sennrich 2019): y = gamma x / sqrt(mean(x^2) + eps), which */  \
  /* has no beta. */                                                                                                  \
  KERNEL(layer_norm(NormDims, const NormForward&))                                                                    \
  KERNEL(layer_norm_backward(NormDims, const NormBackward&))                                                          \
  /* GroupNorm (Wu and He 2018): y = gamma (x - mean) rstd + beta. mean, rstd [images, groups]. */                    \
  KERNEL(group_norm(GroupNormDims, const NormForward&))                                                               \
  KERNEL(group_norm_backward(GroupNormDims, const NormBackward&))                                                     \
  /* y = gamma phi(alpha x + shift) + beta (PointwisePhi); alpha [1], shift [1] or empty. No mean, no rstd. */        \
  KERNEL(pointwise_norm(PointwisePhi, Tensor x, Tensor alpha, Tensor shift, Tensor gamma, Tensor beta, Tensor y))     \
  KERNEL(pointwise_norm_backward(PointwisePhi, const NormBackward&, Tensor alpha, Tensor shift, Gradient dalpha,      \
                                 Gradient dshift))                                                                    \
  /* SeeDNorm (arXiv:2510.22777): y = (gamma + tanh(x . beta) alpha) x / RMS(x); alpha, beta, gamma [cols]. Keeps */  \
  /* rstd and the gates tanh(x . beta), both [rows]. */                                                               \
  KERNEL(seednorm(NormDims, const NormForward&, Tensor alpha, Tensor gates))                                          \
  KERNEL(seednorm_backward(NormDims, const NormBackward&, Tensor alpha, Tensor beta, Tensor gates, Gradient dalpha))  \
  /* BHyT (arXiv:2601.09719): y = gamma tanh(alpha x / (kappa RMS(x))); alpha [1], rstd [kept_by_bhyt()]. */          \
  KERNEL(bhyt(NormDims, double kappa, const NormForward&, Tensor alpha))                                              \
  KERNEL(bhyt_backward(NormDims, double kappa, const NormBackward&, Tensor alpha, Gradient dalpha))                   \
  /* Batch norm over shards (Ioffe and Szegedy 2015), which meet once forward and once backward. Every shard */       \
  /* receives mean and rstd [groups, cols] of the whole batch. Statistics are taken per image and combined in */      \
  /* image order, so the cut into shards changes no bit. running_mean and running_var [cols] move as the dims say, */ \
  /* with unbiased variances (PyTorch). */                                                                            \
  KERNEL(batch_norm(BatchNormDims, Collective&, const NormForward&, Tensor running_mean, Tensor running_var))         \
  KERNEL(batch_norm_backward(BatchNormDims, Collective&, const NormBackward&))                                        \
  /* Recomputes y from the mean and rstd of batch_norm. */                                                            \
  KERNEL(batch_norm_again(BatchNormDims, const NormForward&))                                                         \
  /* With running statistics: y = gamma (x - running_mean) / sqrt(running_var + eps) + beta. NormBackward's mean */   \
  /* and rstd are empty. */                                                                                           \
  KERNEL(batch_norm_frozen(NormDims, Tensor x, Tensor gamma, Tensor beta, Tensor running_mean, Tensor running_var,    \
                           Tensor y))                                                                                 \
  KERNEL(batch_norm_frozen_backward(NormDims, const NormBackward&, Tensor running_mean, Tensor running_var))          \
                                                                                                                      \
  /* Norms that are given by formulas. */                                                                             \
  KERNEL(formula(FormulaDims, const FormulaForward&))                                                                 \
  KERNEL(formula_backward(FormulaDims, const FormulaBackward&))                                                       \
  /* to [1] = state->progress, for formulas. */                                                                       \
  KERNEL(put_progress(const StepState* state, Tensor to))                                                             \
                                                                                                                      \
  /* y = softmax(q k^T / sqrt(d)) v per image and head. lse is kept, the weights are not. */                          \
  KERNEL(attention(AttentionDims, const AttentionInput&, const AttentionOutput&))                                     \
  KERNEL(attention_backward(AttentionDims, const AttentionInput&, const AttentionOutput&, Tensor dy,                  \
                            const AttentionGradients&))                                                               \
  KERNEL(token_attention(AttentionDims, const TokenAttention&))                                                       \
  KERNEL(token_attention_backward(AttentionDims, const TokenAttentionBackward&))                                      \
                                                                                                                      \
  /* The backward pass of contrast. statistics [batch, 4] and dlosses [batch] are of the whole batch. Cosines are */  \
  /* replaced by their gradients, those of cols again those of the shard's texts. partial [images, 2] is scratch. */  \
  KERNEL(contrast_backward(ContrastDims, const Contrast&, Tensor statistics, Tensor dlosses, Tensor partial,          \
                           Gradient dt, Gradient db))                                                                 \
  KERNEL(embed_backward(Tensor dy, Tensor ids, Gradient dtable))                                                      \
                                                                                                                      \
  /* x [B, H, W, C] to y [B, out_height, out_width, C], each axis by the weights of core/resample.h. */               \
  KERNEL(resample(ResampleDims, Tensor x, Tensor y))                                                                  \
  KERNEL(resample_backward(ResampleDims, Tensor dy, Gradient dx))                                                     \
  /* [B, C] = mean over N of [B, N, C]. */                                                                            \
  KERNEL(mean_tokens(TokenDims, Tensor x, Tensor y))                                                                  \
  KERNEL(mean_tokens_backward(TokenDims, Tensor dy, Gradient dx))                                                     \
  /* dtoken [n, C] of put_token. */                                                                                   \
  KERNEL(put_token_backward(TokenDims, Tensor dy, Gradient dtoken))                                                   \
  /* y[i] (+)= whole[place(i)], 0 where that is padding; and its transpose, whole[place(i)] (+)= pieces[i], where */  \
  /* different i have different places. Either is the other's backward pass, except that values of `whole` without */ \
  /* a piece keep what they hold. */                                                                                  \
  KERNEL(gather(const MoveDims&, Tensor whole, Gradient y))                                                           \
  KERNEL(scatter(const MoveDims&, Tensor pieces, Gradient whole))                                                     \
                                                                                                                      \
  /* y = x keep / (1 - rate), plus residual unless that is empty; residual has x's shape, its gradient is dy. keep */ \
  /* u8, one per `group` elements: group is 1 for dropout, an image's size for drop-path. */                          \
  KERNEL(dropout(std::int64_t group, double rate, Tensor x, Tensor keep, Tensor residual, Tensor y))                  \
  KERNEL(dropout_backward(std::int64_t group, double rate, Tensor dy, Tensor keep, Gradient dx))                      \
  /* Writes 0 or 1 by comparing an integer drawn for (site, step, element) with a threshold. */                       \
  KERNEL(draw_mask(MaskDraw, const StepState* state, Tensor keep))                                                    \
                                                                                                                      \
  /* For probes, from features x [B, N, C], in double. of_images [B, 2]: sums over positions of the squared */        \
  /* mean and the biased variance over channels. of_channels [B, 2, C]: mean over positions and sum of */             \
  /* squared deviations. */                                                                                           \
  KERNEL(feature_statistics(TokenDims, Tensor x, Tensor of_images, Tensor of_channels))                               \
  /* Writes `code` to *flag (i32 [1]) if x holds NaN or infinity and *flag is still 0. */                             \
  KERNEL(check_finite(Tensor x, std::int32_t code, Tensor flag))

class Kernels {
 public:
  virtual ~Kernels() = default;
  /// Prepares products of these sizes, so that no step has to. `b`: with a bias.
  virtual void prepare_linear(LinearDims, DType, [[maybe_unused]] bool b) {}
  virtual void prepare_attention(AttentionDims, DType) {}
  /// The same for a matrix that Muon updates with bf16 products.
  virtual void prepare_muon([[maybe_unused]] std::int64_t rows, [[maybe_unused]] std::int64_t cols) {}
  /// With bf16 activations this device adds the bias of a dense layer rounded to bf16, and prefers to be given the
  /// rounded copy.
  virtual bool rounds_bias() const { return false; }
  /// linear() reads a weight [out, in] fastest in panels of this many rows; 0: row-major.
  virtual std::int64_t panel_rows(DType) const { return 0; }
  /// Writes the full panels of w [out, in] for Tensor::with_panels(): [out / panel_rows(), in, panel_rows()].
  virtual void pack_panels([[maybe_unused]] Tensor w, [[maybe_unused]] Tensor panels) {}
  /// Whether this device continues the backward pass of linear, whose x is the y of linear_gelu, through that GELU: dx
  /// is the gradient of its h.
  virtual bool has_products_through_gelu(GeluForm, DType) const { return false; }
  virtual void linear_backward_through_gelu(LinearDims, GeluForm, const LinearBackward&) {
    throw InputError("linear_backward_through_gelu: this device has no such product");
  }

  /// Values that bhyt() keeps in rstd.
  virtual std::int64_t kept_by_bhyt(NormDims d, [[maybe_unused]] double kappa) const { return d.rows; }

  /// Whether layer_norm_backward() and attention_backward() give dsum, so that no pass of its own reads dx for it.
  virtual bool sums_gradients() const { return false; }
  /// Computes all gradients that were asked for with Gradient::later.
  virtual void finish_sums() {}

  /// What of a formula is NaN first: a part of its text such as "log(x)", of which no part is NaN; or if only
  /// gradients are, "the derivative by log(x)", the one that is nearest to the result. "" if there is none, or if the
  /// device cannot tell. Reads x, the parameters, and dy unless it is empty.
  virtual std::string first_nan(FormulaDims, const FormulaBackward&) { return {}; }

#define NORMLAB_PURE(...) virtual void __VA_ARGS__ = 0;
  NORMLAB_KERNELS(NORMLAB_PURE)
  NORMLAB_SHARED_KERNELS(NORMLAB_PURE)
#undef NORMLAB_PURE
};

}  // namespace normlab
