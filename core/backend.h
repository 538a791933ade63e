// The kernels a device must have. Coarse on purpose: one call an op, each forward beside its backward as pure virtuals,
// so that an op without a gradient does not compile.
//
// Conventions: tensors are contiguous and row-major. "rows" are all axes but the last. Activations have the storage
// type T of the network (f32, f64, bf16), parameters and their gradients Param<T>, kept statistics Acc<T>. A `Gradient`
// says where a gradient goes and whether it is written or added; one that is not wanted is empty and is skipped.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "core/collective.h"
#include "core/function_ref.h"
#include "core/memory.h"
#include "core/random.h"
#include "core/resample.h"
#include "core/step_state.h"
#include "core/tensor.h"
#include "core/update_settings.h"

namespace normlab {

enum class Write : std::uint8_t { assign, add };

struct Gradient {
  Tensor to;
  Write write = Write::assign;
  explicit operator bool() const { return bool(to); }
};

enum class GeluForm : std::uint8_t { erf, tanh };

/// How products of bf16 values are computed: by instructions for them, or in float on the widened values, which rounds
/// at the same places, runs on every CPU and is slow.
enum class Bf16Products : std::uint8_t { native, emulated };

struct LinearDims {
  std::int64_t rows, in, out;
};
struct NormDims {
  std::int64_t rows, cols;
  double eps;
};
/// What a residual branch is multiplied by, row by row: keep / (1 - rate), keep u8 with one value for every `rows`
/// rows, an image's for drop-path; 1 where keep is empty.
struct RowMask {
  Tensor keep;
  std::int64_t rows = 1;
  double rate = 0.0;
};
/// Batch norm sees [images, rows_per_image, cols]; statistics are over all images of a group of `statistics_batch`
/// images of the whole batch (0: all of it), of which this shard has `images` from `first_image` on.
struct BatchNormDims {
  std::int64_t images, rows_per_image, cols, first_image, batch, statistics_batch;
  double eps, momentum;
  constexpr std::int64_t group_size() const {
    return statistics_batch > 0 && statistics_batch < batch ? statistics_batch : batch;
  }
  constexpr std::int64_t groups() const { return (batch + group_size() - 1) / group_size(); }
};
/// q, k and v, and their gradients, have `stride` values from a token to the next: the width heads * head_dim, or three
/// times that where they lie side by side in one tensor [B, N, 3 H d] (each tensor then begins at its own third).
struct AttentionDims {
  std::int64_t batch, tokens, heads, head_dim, stride;
  constexpr std::int64_t width() const { return heads * head_dim; }
};
/// A grid of tokens [batch, height, width, cols] cut into square windows after a cyclic shift of `shift` tokens up and
/// left. A side that the window does not divide gets tokens of zeros below and to the right.
struct WindowDims {
  std::int64_t batch, height, width, cols, window, shift;
  constexpr std::int64_t down() const { return (height + window - 1) / window; }
  constexpr std::int64_t across() const { return (width + window - 1) / window; }
  constexpr std::int64_t windows() const { return down() * across(); }  // an image
  constexpr std::int64_t tokens() const { return window * window; }     // a window
  constexpr std::int64_t offsets() const { return (2 * window - 1) * (2 * window - 1); }
};
/// A grid of tokens [batch, height, width, cols].
struct GridDims {
  std::int64_t batch, height, width, cols;
};
struct PatchDims {
  std::int64_t batch, height, width, channels, patch_height, patch_width;
};
struct ResampleDims {
  std::int64_t batch, height, width, channels, out_height, out_width;
  Resampling how;
};
struct TokenDims {
  std::int64_t batch, tokens, cols;
};
struct LossDims {
  std::int64_t batch, classes;
  double label_smoothing;
  bool smooth_others;  // false: e/C for every class (PyTorch); true: e/(C-1) for each other class (Big Vision)
};
/// Rows of a drawn mask: element i of this shard is element first + i of the whole batch.
struct MaskDraw {
  StreamKey key;
  double rate;
  std::int64_t first;
};
/// Sums of squares of parameters and of LAMB's direction.
struct LambSquares {
  double parameters = 0.0, direction = 0.0;
};
/// Some values with what belongs to them; decay u8 [n]: 1 where weight decay applies. v is empty where an optimiser has
/// no second moment.
struct ParameterUpdate {
  UpdateFactors factors;
  const StepState* state;
  Tensor gradient, decay, p, m, v;
};
/// What is brought to the device: of a step, and of an evaluation, which leaves the next step's alone.
enum class Upload : std::uint8_t { images, targets, state, evaluated_images, evaluated_targets };
inline constexpr int kUploads = 5;

/// Kernels that were asked for once, to be started again as they were: the same kernels on the same memory.
class Recording {
 public:
  virtual ~Recording() = default;
  /// Returns at once.
  virtual void replay() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  /// What a result says of the device beside its name, where it is none that every result names: {"gpu": ...}.
  virtual std::map<std::string, std::string> provenance() const { return {}; }
  /// This device with products in bf16 done that way. Throws EnvironmentError where it lacks the instructions.
  virtual Backend& with_bf16(Bf16Products) = 0;
  /// Products of floats may round their inputs to 10 bits behind the first (TF32). EnvironmentError where there are no
  /// such products.
  virtual void set_tf32(bool on) = 0;
  /// How products are done where a device chooses that by itself, one algorithm each, in a form for choose_products();
  /// empty where there is no choice.
  virtual std::string product_choices() const { return {}; }
  /// From here on as in `recorded` ("": by own choice). InputError where this device cannot.
  virtual void choose_products([[maybe_unused]] const std::string& recorded) {}
  /// Gets ready for products of these sizes, so that no step has to; a device that needs nothing ignores it. `b`: with
  /// a bias.
  virtual void prepare_linear(LinearDims, DType, [[maybe_unused]] bool b) {}
  virtual void prepare_attention(AttentionDims, DType) {}
  /// Beside bf16 activations this device adds a dense layer's bias rounded to bf16, and is best given the copy.
  virtual bool rounds_bias() const { return false; }
  /// Whether linear_backward_through_gelu() saves a pass over memory here.
  virtual bool has_products_through_gelu(GeluForm, DType) const { return false; }
  /// Kernels may keep memory between calls, some for each thread that runs them. A number that changes when there is
  /// more, for a thread than for all others, and what brings the calling thread to the same as them.
  virtual std::uint64_t thread_memory() const { return 0; }
  virtual void even_out_thread_memory() {}
  /// Where tensors for this device live.
  virtual Memory& memory() { return host_memory(); }
  /// Returns when all that was asked for is done: only then may the host read tensors, or write those that kernels
  /// read. A device that works while it is asked has nothing to wait for.
  virtual void synchronize() {}
  /// The device wants its work whole: all images of a batch at once, the parameters in one piece.
  virtual bool whole_batch() const { return false; }
  /// A tensor of the host where kernels can read it: itself, or a copy that stays until the second upload of that kind
  /// after it, while `host` may change at once.
  virtual Tensor upload(Upload, Tensor host) { return host; }
  /// Keeps the kernels that `work` asks for instead of running them, where starting one costs time that counts: null
  /// elsewhere, and `work` is not called. It must not wait, upload or read, and should have run once before, so that it
  /// takes no memory. A recording is stale when thread_memory() has changed since.
  virtual std::unique_ptr<Recording> record([[maybe_unused]] FunctionRef<void()> work) { return nullptr; }
  /// Copies `from` as it is after the kernels started so far; `to` has it after the next synchronize().
  virtual void read(Tensor from, void* to) = 0;

  // y [rows, out] = x [rows, in] w^T + b, w [out, in], b [out] or empty. Beside bf16 activations w may be bf16 as well,
  // the rounded copy of the parameter; a float w is rounded here. dw is float either way. So may b where rounds_bias().
  virtual void linear(LinearDims, Tensor x, Tensor w, Tensor b, Tensor y) = 0;
  virtual void linear_backward(LinearDims, Tensor dy, Tensor x, Tensor w, Gradient dx, Gradient dw, Gradient db) = 0;
  // y = residual + x w^T + b, residual [rows, out]. Its backward is that of linear; the residual's gradient is dy.
  virtual void linear_add(LinearDims, Tensor x, Tensor w, Tensor b, Tensor residual, Tensor y) = 0;
  // y = gelu(h), h = x w^T + b. `kept`, of y's shape, is what the same device wants on the way back, gelu'(h) or h;
  // empty where there is none.
  virtual void linear_gelu(LinearDims, GeluForm, Tensor x, Tensor w, Tensor b, Tensor kept, Tensor y) = 0;
  virtual void linear_gelu_backward(LinearDims, GeluForm, Tensor dy, Tensor x, Tensor w, Tensor kept, Gradient dx,
                                    Gradient dw, Gradient db) = 0;
  // The way back of linear or linear_add for an x that linear_gelu gave beside `kept`, and on through that GELU: dh, of
  // x's shape, is the gradient of its h.
  virtual void linear_backward_through_gelu(LinearDims, GeluForm, Tensor dy, Tensor x, Tensor w, Tensor kept,
                                            Gradient dh, Gradient dw, Gradient db) = 0;

  // Element by element, any shape.
  virtual void gelu(GeluForm, Tensor x, Tensor y) = 0;
  virtual void gelu_backward(GeluForm, Tensor dy, Tensor x, Gradient dx) = 0;
  virtual void tanh(Tensor x, Tensor y) = 0;
  virtual void tanh_backward(Tensor dy, Tensor y, Gradient dx) = 0;
  virtual void add(Tensor a, Tensor b, Tensor y) = 0;
  virtual void copy_gradient(Tensor dy, Gradient dx) = 0;  // the backward of add for each side
  virtual void fill(Tensor x, double value) = 0;           // f32 or f64 or i32; no gradient
  // y [rows, cols] = x * gain[c / group], gain [cols / group]: group 1 a gain a channel, cols a scalar, a head's width
  // a gain a head.
  virtual void scale(std::int64_t group, Tensor x, Tensor gain, Tensor y) = 0;
  virtual void scale_backward(std::int64_t group, Tensor dy, Tensor x, Tensor gain, Gradient dx, Gradient dgain) = 0;
  // Over the last axis.
  virtual void softmax(Tensor x, Tensor y) = 0;
  virtual void softmax_backward(Tensor dy, Tensor y, Gradient dx) = 0;

  // LayerNorm (Ba et al. 2016): y = gamma (x - mean) rstd + beta; gamma and beta [cols] or both empty. mean, rstd
  // [rows].
  virtual void layer_norm(NormDims, Tensor x, Tensor gamma, Tensor beta, Tensor y, Tensor mean, Tensor rstd) = 0;
  virtual void layer_norm_backward(NormDims, Tensor dy, Tensor x, Tensor gamma, Tensor mean, Tensor rstd, Gradient dx,
                                   Gradient dgamma, Gradient dbeta) = 0;
  // RMSNorm (Zhang and Sennrich 2019): y = gamma x / sqrt(mean(x^2) + eps). rstd [rows].
  virtual void rms_norm(NormDims, Tensor x, Tensor gamma, Tensor y, Tensor rstd) = 0;
  virtual void rms_norm_backward(NormDims, Tensor dy, Tensor x, Tensor gamma, Tensor rstd, Gradient dx,
                                 Gradient dgamma) = 0;
  // sum = residual + x mask, rounded to T, and y = its LayerNorm; where `mean` is empty its RMSNorm, without beta.
  virtual void norm_of_sum(NormDims, const RowMask&, Tensor x, Tensor residual, Tensor gamma, Tensor beta, Tensor sum,
                           Tensor y, Tensor mean, Tensor rstd) = 0;
  // dsum takes the norm's gradient; what it is then, with what it had before where that is added, times the mask is
  // dx's, which is wanted only where dsum is.
  virtual void norm_of_sum_backward(NormDims, const RowMask&, Tensor dy, Tensor sum, Tensor gamma, Tensor mean,
                                    Tensor rstd, Gradient dsum, Gradient dx, Gradient dgamma, Gradient dbeta) = 0;
  // y = gamma x + beta.
  virtual void affine(Tensor x, Tensor gamma, Tensor beta, Tensor y) = 0;
  virtual void affine_backward(Tensor dy, Tensor x, Tensor gamma, Gradient dx, Gradient dgamma, Gradient dbeta) = 0;
  // Dynamic Tanh: y = gamma tanh(alpha x) + beta; alpha [1].
  virtual void dyt(Tensor x, Tensor alpha, Tensor gamma, Tensor beta, Tensor y) = 0;
  virtual void dyt_backward(Tensor dy, Tensor x, Tensor alpha, Tensor gamma, Gradient dx, Gradient dalpha,
                            Gradient dgamma, Gradient dbeta) = 0;

  // Batch norm over shards (Ioffe and Szegedy 2015), which meet once forward and once backward. mean, rstd [groups,
  // cols] of the whole batch come back in every shard. Statistics are taken an image at a time and put together in
  // image order, so that the cut into shards changes no bit.
  // running_mean and running_var [cols] take the first group's, the variance unbiased (PyTorch).
  virtual void batch_norm(BatchNormDims, Collective&, Tensor x, Tensor gamma, Tensor beta, Tensor running_mean,
                          Tensor running_var, Tensor y, Tensor mean, Tensor rstd) = 0;
  virtual void batch_norm_backward(BatchNormDims, Collective&, Tensor dy, Tensor x, Tensor gamma, Tensor mean,
                                   Tensor rstd, Gradient dx, Gradient dgamma, Gradient dbeta) = 0;
  // With running statistics: y = gamma (x - running_mean) / sqrt(running_var + eps) + beta.
  virtual void batch_norm_frozen(NormDims, Tensor x, Tensor gamma, Tensor beta, Tensor running_mean, Tensor running_var,
                                 Tensor y) = 0;
  virtual void batch_norm_frozen_backward(NormDims, Tensor dy, Tensor x, Tensor gamma, Tensor running_mean,
                                          Tensor running_var, Gradient dx, Gradient dgamma, Gradient dbeta) = 0;

  // y [B, N, H d] = softmax(q k^T / sqrt(d)) v for each image and head; lse [B, H, N] is kept, the weights are not.
  // keep [B, H, N, N] u8 or empty: the weights are multiplied by keep / (1 - rate).
  virtual void attention(AttentionDims, Tensor q, Tensor k, Tensor v, Tensor keep, double rate, Tensor y,
                         Tensor lse) = 0;
  virtual void attention_backward(AttentionDims, Tensor dy, Tensor q, Tensor k, Tensor v, Tensor keep, double rate,
                                  Tensor y, Tensor lse, Gradient dq, Gradient dk, Gradient dv) = 0;

  // Attention inside windows (Liu et al. 2021): the same with windows for images, in the order of cut_windows, and
  // scores q k^T / sqrt(d) + bias + mask. bias = table [offsets, H] at (yi - yj + w - 1)(2 w - 1) + xi - xj + w - 1 for
  // the tokens i and j of a window; mask = -100 between tokens that the cyclic shift has brought together, else 0.
  virtual void window_attention(AttentionDims, WindowDims, Tensor q, Tensor k, Tensor v, Tensor table, Tensor keep,
                                double rate, Tensor y, Tensor lse) = 0;
  virtual void window_attention_backward(AttentionDims, WindowDims, Tensor dy, Tensor q, Tensor k, Tensor v,
                                         Tensor table, Tensor keep, double rate, Tensor y, Tensor lse, Gradient dq,
                                         Gradient dk, Gradient dv, Gradient dtable) = 0;

  // losses [batch] of each image. labels i32 [batch], or targets [batch, classes] in Acc<T>; the other one is empty.
  // softmax: -sum_c t_c log p_c. sigmoid: summed over classes (Big Vision).
  virtual void softmax_cross_entropy(LossDims, Tensor logits, Tensor labels, Tensor targets, Tensor losses) = 0;
  virtual void softmax_cross_entropy_backward(LossDims, Tensor dlosses, Tensor logits, Tensor labels, Tensor targets,
                                              Gradient dlogits) = 0;
  virtual void sigmoid_cross_entropy(LossDims, Tensor logits, Tensor labels, Tensor targets, Tensor losses) = 0;
  virtual void sigmoid_cross_entropy_backward(LossDims, Tensor dlosses, Tensor logits, Tensor labels, Tensor targets,
                                              Gradient dlogits) = 0;

  // The same for segmentation: batch counts pixels, labels i32 [batch]; a pixel labelled `ignore` has loss 0 and no
  // gradient.
  virtual void pixel_softmax_cross_entropy(LossDims, std::int32_t ignore, Tensor logits, Tensor labels,
                                           Tensor losses) = 0;
  virtual void pixel_softmax_cross_entropy_backward(LossDims, std::int32_t ignore, Tensor dlosses, Tensor logits,
                                                    Tensor labels, Gradient dlogits) = 0;

  // images [B, H, W, C] -> [B, (H/p)(W/p), p p C], a patch flattened row, column, channel.
  virtual void patchify(PatchDims, Tensor images, Tensor y) = 0;
  virtual void patchify_backward(PatchDims, Tensor dy, Gradient dimages) = 0;
  // x [B, H, W, C] to y [B, out_height, out_width, C], each axis by the weights of core/resample.h.
  virtual void resample(ResampleDims, Tensor x, Tensor y) = 0;
  virtual void resample_backward(ResampleDims, Tensor dy, Gradient dx) = 0;
  // y [B, N, C] = x + position [N, C].
  virtual void add_positions(TokenDims, Tensor x, Tensor position, Tensor y) = 0;
  virtual void add_positions_backward(TokenDims, Tensor dy, Gradient dx, Gradient dposition) = 0;
  // [B, C] = mean over N of [B, N, C].
  virtual void mean_tokens(TokenDims, Tensor x, Tensor y) = 0;
  virtual void mean_tokens_backward(TokenDims, Tensor dy, Gradient dx) = 0;
  // [B, 1 + N, C]: the token [C] before the tokens of each image. dims.tokens is N.
  virtual void concat_token(TokenDims, Tensor token, Tensor x, Tensor y) = 0;
  virtual void concat_token_backward(TokenDims, Tensor dy, Gradient dtoken, Gradient dx) = 0;
  // Tokens first .. first + count of each image; count 1 gives [B, C].
  virtual void select_tokens(TokenDims, std::int64_t first, std::int64_t count, Tensor x, Tensor y) = 0;
  virtual void select_tokens_backward(TokenDims, std::int64_t first, std::int64_t count, Tensor dy, Gradient dx) = 0;
  // [B, N, C]: `first` [B, n, C] before `rest` [B, N - n, C], image by image. dims.tokens is N.
  virtual void concat_tokens(TokenDims, std::int64_t n, Tensor first, Tensor rest, Tensor y) = 0;
  virtual void concat_tokens_backward(TokenDims, std::int64_t n, Tensor dy, Gradient dfirst, Gradient drest) = 0;

  // y [B windows, w w, C]: the windows of x [B, H, W, C], row by row, the tokens of a window row by row.
  virtual void cut_windows(WindowDims, Tensor x, Tensor y) = 0;
  virtual void cut_windows_backward(WindowDims, Tensor dy, Gradient dx) = 0;
  // The way back: y [B, H, W, C] from x [B windows, w w, C]; what stands for padding is left out.
  virtual void join_windows(WindowDims, Tensor x, Tensor y) = 0;
  virtual void join_windows_backward(WindowDims, Tensor dy, Gradient dx) = 0;
  // y [B, ceil(H/2) ceil(W/2), 4 C]: four neighbours side by side, (row, column) = (0,0), (1,0), (0,1), (1,1), zeros
  // beyond an odd side.
  virtual void merge_patches(GridDims, Tensor x, Tensor y) = 0;
  virtual void merge_patches_backward(GridDims, Tensor dy, Gradient dx) = 0;

  // y = x keep / (1 - rate); keep u8, one for every `group` elements: 1 for dropout, an image's for drop-path.
  virtual void dropout(std::int64_t group, double rate, Tensor x, Tensor keep, Tensor y) = 0;
  virtual void dropout_backward(std::int64_t group, double rate, Tensor dy, Tensor keep, Gradient dx) = 0;
  // y = residual + x keep / (1 - rate). Backward: dropout's for x, dy for the residual.
  virtual void dropout_add(std::int64_t group, double rate, Tensor x, Tensor keep, Tensor residual, Tensor y) = 0;
  // 0/1 by integer comparison of a draw keyed by (site, step, element).
  virtual void draw_mask(MaskDraw, const StepState* state, Tensor keep) = 0;

  // Of features x [B, N, C], for probes, in double: of_images [B, 2] the sums over positions of the squared mean and of
  // the biased variance over channels, of_channels [B, 2, C] the mean over positions and the sum of squared deviations.
  virtual void feature_statistics(TokenDims, Tensor x, Tensor of_images, Tensor of_channels) = 0;

  // Writes `code` to *flag (i32 [1]) if x holds NaN or infinity and *flag is still 0.
  virtual void check_finite(Tensor x, std::int32_t code, Tensor flag) = 0;

  // Over a block of the flat parameter buffer, whose tensors are slices in Param<T>. lanes [L, n] are summed in order
  // into lane 0; *square takes the sum of squares of the total.
  virtual void sum_lanes(std::int64_t lanes, std::int64_t lane_stride, Tensor lane0, double* square) = 0;
  // From the sum over blocks, in their order: grad_norm, nonfinite and, by clip_norm, clip_factor of *state.
  virtual void clip(ClipForm, std::int64_t blocks, const double* squares, StepState* state) = 0;
  // Each optimiser's rule for one value is in core/update_rules.h. Gradients g are multiplied by state->clip_factor;
  // nothing is written where state->nonfinite is set. lr is state->lr times the factor, wd the decay times its own; m'
  // and v' are moments over their bias correction.
  // m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g g; p -= lr wd p, p -= lr m' / (sqrt(v') + eps).
  virtual void adamw(AdamWSettings, const ParameterUpdate&) = 0;
  // m = momentum m + (g + wd p); p -= lr m, or lr (g + wd p + momentum m) for nesterov.
  virtual void sgd(SgdSettings, const ParameterUpdate&) = 0;
  // AdamW whose decay has state->schedule in place of lr: p -= lr m' / (sqrt(v') + eps) + schedule wd p. m is bf16, or
  // as p: the step is from the value before it is rounded.
  virtual void big_vision_adam(BigVisionAdamSettings, const ParameterUpdate&) = 0;
  // m = g + momentum m; p -= lr (m, or g + momentum m for nesterov) + schedule wd p. m as above.
  virtual void momentum_hp(MomentumSettings, const ParameterUpdate&) = 0;
  // p -= lr wd p, p -= lr sign(b1 m + (1 - b1) g); m = b2 m + (1 - b2) g.
  virtual void lion(LionSettings, const ParameterUpdate&) = 0;
  // LAMB in three passes, for parameters that all decay or all do not. The first updates m and v and gives the sums of
  // squares of p and of r = m' / (sqrt(v') + eps) + wd p; the second |p| / |r| of a tensor from those of its pieces, 1
  // where either is zero; the third: p -= lr *trust_ratio r.
  virtual void lamb_moments(AdamWSettings, const ParameterUpdate&, bool decays, LambSquares* squares) = 0;
  virtual void lamb_ratio(std::int64_t pieces, const LambSquares* squares, double* trust_ratio) = 0;
  virtual void lamb(AdamWSettings, const ParameterUpdate&, bool decays, const double* trust_ratio) = 0;
  // to = decay to + (1 - decay) x, nothing where state->nonfinite is set.
  virtual void average(double decay, const StepState* state, Tensor x, Tensor to) = 0;
  // to bf16 [n] = p rounded: the copy of a block that the next step's products read.
  virtual void round_to_bf16(Tensor p, Tensor to) = 0;
};

/// The CPU: single-threaded kernels, products by OpenBLAS and, in bf16, oneDNN. Stateless but for scratch memory of
/// each thread.
Backend& cpu_backend();

}  // namespace normlab
