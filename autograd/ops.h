// The operations of the tape. Each takes and gives variables of one tape; shapes are checked and a wrong one is an
// InputError that names operation, argument and both shapes. B images, N tokens, D and C widths.
#pragma once

#include "autograd/tape.h"
#include "core/collective.h"
#include "core/kernel_settings.h"
#include "core/random.h"
#include "core/resample.h"
#include "core/step_state.h"

namespace normlab {

struct WindowDims;

/// y [..., out] = x [..., in] weight^T + bias; weight [out, in], bias [out] or Var().
Var linear(const Var& x, const Var& weight, const Var& bias);
/// residual + linear(x, weight, bias), residual of the result's shape, added while a tile of the product is at hand.
Var linear_add(const Var& x, const Var& weight, const Var& bias, const Var& residual);
/// gelu(linear(x, weight, bias)) in one pass behind the product.
Var linear_gelu(const Var& x, const Var& weight, const Var& bias, GeluForm form);

/// The same as the input of dense layers that take their gradient back through the GELU, so that it reaches this layer
/// as that of h = linear(x, weight, bias). For devices where Backend::has_products_through_gelu().
class Activation {
 public:
  Activation(const Var& x, const Var& weight, const Var& bias, GeluForm form);

 private:
  friend Var linear(const Activation& x, const Var& weight, const Var& bias);
  friend Var linear_add(const Activation& x, const Var& weight, const Var& bias, const Var& residual);
  GeluForm form_;
  Tensor kept_;
  Var value_;
};
Var linear(const Activation& x, const Var& weight, const Var& bias);
Var linear_add(const Activation& x, const Var& weight, const Var& bias, const Var& residual);

/// x Phi(x), by erf or by the tanh approximation. Any shape, as the next three.
Var gelu(const Var& x, GeluForm form);
Var tanh(const Var& x);
Var add(const Var& a, const Var& b);
/// x [..., C] times gain [G], G dividing C: gain g multiplies the channels g C/G to (g + 1) C/G. G = C is a gain a
/// channel, 1 a scalar, the number of heads a gain a head.
Var scale(const Var& x, const Var& gain);
/// Over the last axis.
Var softmax(const Var& x);
/// The same values under another shape of the same size; nothing is copied.
Var reshape(const Var& x, const Shape& shape);

/// Over the last axis: gamma (x - mean) / sqrt(var + eps) + beta, biased variance; gamma and beta [C], or both Var().
Var layer_norm(const Var& x, const Var& gamma, const Var& beta, double eps);
/// gamma x / sqrt(mean(x^2) + eps).
Var rms_norm(const Var& x, const Var& gamma, double eps);
/// GroupNorm (Wu and He 2018): x [images, ..., C] as layer_norm, over all of an image and C / groups channels.
/// InputError where `groups` do not divide C.
Var group_norm(const Var& x, const Var& gamma, const Var& beta, std::int64_t groups, double eps);
/// gamma x + beta.
Var affine(const Var& x, const Var& gamma, const Var& beta);
/// gamma tanh(alpha x) + beta, alpha [1].
Var dyt(const Var& x, const Var& alpha, const Var& gamma, const Var& beta);

/// The images of one batch that this tape sees: `images` of `batch`, from `first_image` on. The other shards meet in
/// `shards`.
struct BatchSlice {
  std::int64_t images, first_image, batch;
  Collective* shards;
};
struct BatchNormSettings {
  double eps, momentum;
  std::int64_t statistics_batch;  // images a statistic is taken over; 0: the whole batch
};
/// Training: statistics a channel over all images (and tokens) of the batch, whatever its cut into shards; x [images,
/// ..., C]. The running tensors [C] are updated in place: PyTorch's rule, unbiased variance, by the first statistics
/// group. InputError where a channel would have one value.
Var batch_norm(const Var& x, const Var& gamma, const Var& beta, Tensor running_mean, Tensor running_var,
               const BatchSlice& slice, const BatchNormSettings& settings);
/// Evaluation: gamma (x - running_mean) / sqrt(running_var + eps) + beta.
Var batch_norm_frozen(const Var& x, const Var& gamma, const Var& beta, Tensor running_mean, Tensor running_var,
                      double eps);

/// q, k, v [B, N, D], head h owns the channels h D/H to (h + 1) D/H: softmax(q k^T / sqrt(D/H)) v, heads joined again,
/// [B, N, D]. keep: empty, or u8 [B, H, N, N] that multiplies the weights together with 1 / (1 - rate).
Var attention(const Var& q, const Var& k, const Var& v, std::int64_t num_heads, Tensor keep = {}, double rate = 0.0);
/// The same with q, k and v side by side in one tensor [B, N, 3 D], as one product makes them.
Var attention(const Var& qkv, std::int64_t num_heads, Tensor keep = {}, double rate = 0.0);
/// Attention of one token of each image: q [B, 1, D], k and v [B, N, D], the result [B, 1, D].
Var token_attention(const Var& q, const Var& k, const Var& v, std::int64_t num_heads);
/// The same with k and v side by side in one tensor [B, N, 2 D].
Var token_attention(const Var& q, const Var& kv, std::int64_t num_heads);

/// A grid of tokens cut into square windows, after a cyclic shift of `shift` tokens up and left. Where the window does
/// not divide a side, tokens of zeros follow below and to the right.
struct Windows {
  std::int64_t height, width, window, shift;
  WindowDims dims(std::int64_t batch, std::int64_t cols) const;
  /// True where one window is the whole grid: cutting it changes nothing.
  bool whole() const { return height == window && width == window && shift == 0; }
};
/// x [B, height * width, C] to [B windows, window^2, C], and back; what stands for padding is left out.
Var cut_windows(const Var& x, const Windows& windows);
Var join_windows(const Var& x, const Windows& windows);
/// attention() in each of the windows [B windows, window^2, D] that cut_windows() makes, with a bias by relative
/// position out of table [(2 window - 1)^2, heads] and -100 on the scores between tokens that only the shift has
/// brought together ("Swin Transformer", section 3.2).
Var window_attention(const Var& q, const Var& k, const Var& v, const Var& table, std::int64_t num_heads,
                     const Windows& windows, Tensor keep = {}, double rate = 0.0);
Var window_attention(const Var& qkv, const Var& table, std::int64_t num_heads, const Windows& windows, Tensor keep = {},
                     double rate = 0.0);
/// x [B, height * width, C] to [B, ceil(height / 2) ceil(width / 2), 4 C]: neighbours side by side in the order (row,
/// column) = (0,0), (1,0), (0,1), (1,1), zeros beyond an odd side.
Var merge_patches(const Var& x, std::int64_t height, std::int64_t width);

/// Labels i32 [B], or soft targets [B, classes] in the type of statistics.
struct Targets {
  Tensor labels, soft;
  double label_smoothing = 0.0;
  Smoothing smoothing = Smoothing::all;
};
/// logits [B, classes] to a loss an image, [B]: -sum_c t_c log p_c.
Var softmax_cross_entropy(const Var& logits, const Targets& targets);
/// Summed over classes (Big Vision).
Var sigmoid_cross_entropy(const Var& logits, const Targets& targets);

/// Segmentation: logits [..., classes] and labels i32 [...] to a loss a pixel, [...]: -log p_label, and 0 without a
/// gradient where the label is `ignore`. The mean is over the pixels that count, so their number is in the seed of
/// backward(). The CPU throws InputError for a label that is neither a class nor `ignore`.
Var pixel_softmax_cross_entropy(const Var& logits, Tensor labels, std::int32_t ignore = 255);

/// [B, H, W, C] to [B, (H / ph)(W / pw), ph pw C], a patch flattened row, column, channel.
Var patchify(const Var& images, std::int64_t patch_height, std::int64_t patch_width);
/// x [B, H, W, C] to [B, height, width, C], axis by axis; `how` is told apart in core/resample.h.
Var resample(const Var& x, std::int64_t height, std::int64_t width, Resampling how);
/// x [B, N, D] + position [1, N, D].
Var add_positions(const Var& x, const Var& position);
/// [B, N, D] to [B, D].
Var mean_tokens(const Var& x);
/// token [1, 1, D] before the tokens of every image: [B, 1 + N, D].
Var concat_token(const Var& token, const Var& x);
/// Tokens first .. first + count of every image: [B, count, D], or [B, D] for one.
Var select_tokens(const Var& x, std::int64_t first, std::int64_t count);
/// [B, n, D] before [B, m, D], image by image: [B, n + m, D].
Var concat_tokens(const Var& first, const Var& rest);

/// x keep / (1 - rate), keep u8 of x's shape.
Var dropout(const Var& x, Tensor keep, double rate);
/// The same with one decision an image, keep u8 [B].
Var drop_path(const Var& x, Tensor keep, double rate);

/// residual + dropout(x) or residual + drop_path(x) in one pass; keep of x's shape or [B].
Var dropout_add(const Var& x, Tensor keep, double rate, const Var& residual);

/// The images of x [B, ...] that `keep` (u8 [B], in memory of the host) keeps, in order: [kept, ...].
Var gather_images(const Var& x, Tensor keep);
/// residual [B, ...], and x [kept, ...] / (1 - rate) added to the images that are kept: residual + drop_path(branch)
/// where x is the branch of gather_images().
Var scatter_add_images(const Var& x, Tensor keep, double rate, const Var& residual);

/// What a mask is drawn from: element e of image i is draw first_image * (elements an image) + e of `stream` at the
/// step in `state`.
struct DrawKey {
  StreamKey stream;
  std::int64_t first_image;
  const StepState* state;
};
/// A mask u8 of `shape` (images first) with P(0) = rate, for the ops above. `keep`: as in gather_images(), of which the
/// mask is that of the kept images alone.
Tensor draw_mask(Tape& tape, const Shape& shape, double rate, const DrawKey& key, Tensor keep = {});

/// `shape` with another last axis.
inline Shape with_back(const Shape& shape, std::int64_t back) {
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  for (int i = 0; i < shape.rank(); ++i) dims[static_cast<std::size_t>(i)] = shape[i];
  dims[static_cast<std::size_t>(shape.rank() - 1)] = back;
  return Shape(dims.begin(), dims.begin() + shape.rank());
}

}  // namespace normlab
