// The operations of the tape. Inputs and results are variables of one tape. A wrong shape throws InputError with the
// operation, the argument and both shapes. B is images, N tokens, D and C widths.
#pragma once

#include "autograd/tape.h"
#include "core/collective.h"
#include "core/kernel_settings.h"
#include "core/random.h"
#include "core/resample.h"
#include "core/step_state.h"

namespace normlab {

struct WindowDims;

/// gelu(linear(x, weight, bias)) in one pass.
Var linear_gelu(const Var& x, const Var& weight, const Var& bias, GeluForm form);

/// The input of a dense layer: any variable, or linear_gelu of one through which the backward pass of the dense layers
/// continues, so that its own gets the gradient of h = linear(x, weight, bias). The latter is for devices with
/// Backend::has_products_through_gelu().
class Activation {
 public:
  Activation(const Var& x) : value_(x) {}  // NOLINT: implicit, since any variable is one
  Activation(const Var& x, const Var& weight, const Var& bias, GeluForm form);
  const Var& value() const { return value_; }

 private:
  friend Var product(const Activation& x, const Var& weight, const Var& bias, const Var& residual);
  GeluForm form_{};
  Tensor slope_;  // what linear_gelu keeps for the backward pass
  Var value_;
};
/// y [..., out] = x [..., in] weight^T + bias; weight [out, in], bias [out] or Var().
Var linear(const Activation& x, const Var& weight, const Var& bias);
/// residual + linear(x, weight, bias) in one pass; residual has the result's shape.
Var linear_add(const Activation& x, const Var& weight, const Var& bias, const Var& residual);

/// x Phi(x), by erf or by the tanh approximation. Any shape, like the next three.
Var gelu(const Var& x, GeluForm form);
Var tanh(const Var& x);
Var add(const Var& a, const Var& b);
/// x [..., C] times gain [G], where G divides C: gain g multiplies the channels g C/G to (g + 1) C/G. G is C for a gain
/// per channel, 1 for a scalar, the number of heads for a gain per head.
Var scale(const Var& x, const Var& gain);
/// The same values under another shape of the same size; nothing is copied.
Var reshape(const Var& x, const Shape& shape);

/// Over the last axis: gamma (x - mean) / sqrt(var + eps) + beta, biased variance; gamma and beta [C], or both Var().
Var layer_norm(const Var& x, const Var& gamma, const Var& beta, double eps);
/// gamma x / sqrt(mean(x^2) + eps).
Var rms_norm(const Var& x, const Var& gamma, double eps);
/// gamma x / sqrt(sum(x^2) + eps).
Var l2_norm(const Var& x, const Var& gamma, double eps);
/// GroupNorm (Wu and He 2018): x [images, ..., C] as in layer_norm, over all tokens of an image and C / groups
/// channels. Throws InputError if `groups` does not divide C.
Var group_norm(const Var& x, const Var& gamma, const Var& beta, std::int64_t groups, double eps);
/// gamma x + beta.
Var affine(const Var& x, const Var& gamma, const Var& beta);
/// gamma phi(alpha x + shift) + beta; alpha [1], shift [1] or Var(). For dyisru, alpha is under the root and there is
/// no shift; a negative alpha gives NaN.
Var pointwise_norm(PointwisePhi phi, const Var& x, const Var& alpha, const Var& shift, const Var& gamma,
                   const Var& beta);
/// SeeDNorm: (gamma + tanh(x . beta) alpha) x / sqrt(mean(x^2) + eps); alpha, beta, gamma [C].
Var seednorm(const Var& x, const Var& alpha, const Var& beta, const Var& gamma, double eps);
/// BHyT: gamma tanh(alpha x / (kappa sqrt(mean(x^2) + eps))), alpha [1].
Var bhyt(const Var& x, const Var& alpha, const Var& gamma, double kappa, double eps);
namespace formula {
struct Programs;
}
/// What the formula says of x [..., C], the rows of `images` images. The parameters are those of the programs, [C] or
/// [1], Var() for one that is not learned. `programs` outlives the step.
Var formula_norm(const formula::Programs& programs, const Var& x, std::int64_t images, std::span<const Var> parameters);
/// What the formula says of each row of x [..., C] and of `gate`, of the same shape, or Var() if it reads no kGate. It
/// has no parameters and no reductions over tokens. `progress` [1] may be empty if it does not read that. `op`: its name.
Var elementwise(const formula::Programs& programs, const Var& x, const Var& gate, Tensor progress,
                const char* op = "activation");

/// The images of a batch on this tape: `images` of `batch`, from `first_image` on. Shards meet in `shards`.
struct BatchSlice {
  std::int64_t images, first_image, batch;
  Collective* shards;
};
struct BatchNormSettings {
  double eps, momentum;
  std::int64_t statistics_batch;                 // images per statistic; 0: the whole batch
  std::int64_t step_images = 0, part_begin = 0;  // see BatchNormDims
};
/// Training: x [images, ..., C] with statistics per channel over all images and tokens of the batch, however it is cut
/// into shards. Moves the running tensors [C] in place with unbiased variances, as PyTorch does: by the first group of
/// statistics, or by the mean of all groups of the step. Throws InputError if a channel would have a single value.
Var batch_norm(const Var& x, const Var& gamma, const Var& beta, Tensor running_mean, Tensor running_var,
               const BatchSlice& slice, const BatchNormSettings& settings);
/// Evaluation: gamma (x - running_mean) / sqrt(running_var + eps) + beta.
Var batch_norm_frozen(const Var& x, const Var& gamma, const Var& beta, Tensor running_mean, Tensor running_var,
                      double eps);

/// q, k, v [B, N, D]; head h has the channels h D/H to (h + 1) D/H. softmax(q k^T / sqrt(D/H)) v with the heads joined
/// again, [B, N, D]. keep is empty, or u8 [B, H, N, N], which multiplies the weights together with 1 / (1 - rate).
Var attention(const Var& q, const Var& k, const Var& v, std::int64_t num_heads, Tensor keep = {}, double rate = 0.0);
/// The same with q, k and v concatenated in one tensor [B, N, 3 D], as one product makes them.
Var attention(const Var& qkv, std::int64_t num_heads, Tensor keep = {}, double rate = 0.0);
/// Attention from one token of each image: q [B, 1, D], k and v [B, N, D], result [B, 1, D].
Var token_attention(const Var& q, const Var& k, const Var& v, std::int64_t num_heads);
/// The same with k and v concatenated in one tensor [B, N, 2 D].
Var token_attention(const Var& q, const Var& kv, std::int64_t num_heads);

/// A token grid, cyclically shifted by shift_y tokens up and shift_x left, then cut into square windows. A side that
/// the window does not divide is padded with zero tokens at the bottom and right.
struct Windows {
  std::int64_t height, width, window, shift_y = 0, shift_x = 0;
  WindowPadding padding{};
  WindowDims dims(std::int64_t batch, std::int64_t cols) const;
  /// True if one window is the whole grid, so that cutting changes nothing.
  bool whole() const { return height == window && width == window && shift_y == 0 && shift_x == 0; }
};
/// x [B, height * width, C] to [B windows, window^2, C], and back without the padding.
Var cut_windows(const Var& x, const Windows& windows);
Var join_windows(const Var& x, const Windows& windows);
/// attention() inside each window [B windows, window^2, D] of cut_windows(), with a bias by relative position from
/// table [(2 window - 1)^2, heads], and -100 on the scores between tokens that only the shift made neighbours ("Swin
/// Transformer", section 3.2).
Var window_attention(const Var& q, const Var& k, const Var& v, const Var& table, std::int64_t num_heads,
                     const Windows& windows, Tensor keep = {}, double rate = 0.0);
Var window_attention(const Var& qkv, const Var& table, std::int64_t num_heads, const Windows& windows, Tensor keep = {},
                     double rate = 0.0);
/// x [B, height * width, C] to [B, ceil(height / 2) ceil(width / 2), 4 C]: four neighbours concatenated in the order
/// (row, column) = (0,0), (1,0), (0,1), (1,1), with zeros beyond an odd side.
Var merge_patches(const Var& x, std::int64_t height, std::int64_t width);

/// Labels i32 [B], or soft targets [B, classes] in the type of statistics.
struct Targets {
  Tensor labels, soft;
  double label_smoothing = 0.0;
  Smoothing smoothing = Smoothing::all;
};
/// logits [B, classes] to one loss per image, [B]: -sum_c t_c log p_c.
Var softmax_cross_entropy(const Var& logits, const Targets& targets);
/// Summed over classes (Big Vision).
Var sigmoid_cross_entropy(const Var& logits, const Targets& targets);

/// Segmentation: logits [..., classes] and labels i32 [...] to one loss per pixel, [...]: -log p_label, or 0 without a
/// gradient where the label is `ignore`. The mean is over the other pixels, so the seed of backward() must contain
/// their number. The CPU throws InputError for a label that is neither a class nor `ignore`.
Var pixel_softmax_cross_entropy(const Var& logits, Tensor labels, std::int32_t ignore = 255);

/// [B, H, W, C] to [B, (H / ph)(W / pw), ph pw C]; a patch is flattened as row, column, channel.
Var patchify(const Var& images, std::int64_t patch_height, std::int64_t patch_width);
/// x [B, H, W, C] to [B, height, width, C], axis by axis; see core/resample.h for `method`.
Var resample(const Var& x, std::int64_t height, std::int64_t width, Resampling method);
/// x [B, N, D] + position [1, N, D].
Var add_positions(const Var& x, const Var& position);
/// Rotary positions: see Kernels::rotate.
struct Rotation {
  std::int64_t turned, head_dim, first;
  RotaryPairs pairs{};
};
/// x [B, N, C] with the pairs of channels of its first `turned` channels turned, in each token from `first` on. table [N
/// - first, head_dim]: cosines, then sines.
Var rotate(const Var& x, Tensor table, const Rotation& rotation);
/// [B, N, D] to [B, D].
Var mean_tokens(const Var& x);
/// tokens [1, n, D] before those of every image: [B, n + N, D].
Var prepend_tokens(const Var& tokens, const Var& x);
/// Tokens first .. first + count of every image: [B, count, D], or [B, D] for one.
Var select_tokens(const Var& x, std::int64_t first, std::int64_t count);
/// [B, n, D] before [B, m, D] in each image: [B, n + m, D].
Var concat_tokens(const Var& first, const Var& rest);

/// x keep / (1 - rate), keep u8 of x's shape.
Var dropout(const Var& x, Tensor keep, double rate);
/// residual + dropout(x) in one pass. With keep [B], one decision per image, this is drop-path.
Var dropout_add(const Var& x, Tensor keep, double rate, const Var& residual);

/// The images of x [B, ...] that `keep` (u8 [B], in host memory) keeps, in order: [kept, ...].
Var gather_images(const Var& x, Tensor keep);
/// residual [B, ...] with x [kept, ...] / (1 - rate) added to the kept images. This is dropout_add with keep [B] if
/// x is the branch of gather_images().
Var scatter_add_images(const Var& x, Tensor keep, double rate, const Var& residual);

/// Identifies a mask's draws: element e of image i is draw first_image * (elements per image) + e of `stream` at the
/// step in `state`.
struct DrawKey {
  StreamKey stream;
  std::int64_t first_image;
  const StepState* state;
};
/// A u8 mask of `shape` (images first) with P(0) = rate, for the ops above. With `keep`, as in gather_images(), the
/// mask is that of the kept images only.
Tensor draw_mask(Tape& tape, const Shape& shape, double rate, const DrawKey& key, Tensor keep = {});

/// `shape` with another last axis.
inline Shape with_back(const Shape& shape, std::int64_t back) {
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  for (int i = 0; i < shape.rank(); ++i) dims[static_cast<std::size_t>(i)] = shape[i];
  dims[static_cast<std::size_t>(shape.rank() - 1)] = back;
  return Shape(dims.begin(), dims.begin() + shape.rank());
}

}  // namespace normlab
