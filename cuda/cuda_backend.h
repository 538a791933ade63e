// The kernels of the GPU. Each file beside this one holds those of one family and the methods that start them, with the
// names and in the order of core/cpu. All work goes through one stream, in order; nothing waits for it but
// synchronize().
#pragma once

#include <array>
#include <memory>

#include "core/backend.h"
#include "cuda/device.h"
#include "cuda/lt_products.h"
#include "cuda/memory.h"
#include "cuda/products.h"
#include "cuda/transfer.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

class CudaBackend final : public Backend {
 public:
  /// On the current device. Throws EnvironmentError as device_info() does, and where cuBLAS cannot be loaded.
  CudaBackend();
  std::string name() const override;
  /// gpu, compute_capability, gpu_driver, cuda_runtime and cublas.
  std::map<std::string, std::string> provenance() const override;
  /// Products in bf16 are the GPU's own; emulated ones are the CPU's.
  Backend& with_bf16(Bf16Products) override;
  Memory& memory() override { return memory_; }
  void synchronize() override { readback_.wait(); }
  bool whole_batch() const override { return true; }
  Tensor upload(Upload, Tensor host) override;
  void read(Tensor from, void* to) override { readback_.add(from, to); }
  std::uint64_t thread_memory() const override { return Buffer::growths(); }
  std::unique_ptr<Recording> record(FunctionRef<void()> work) override;
  void set_tf32(bool on) override;
  std::string product_choices() const override { return lt_products_.choices(); }
  void choose_products(const std::string& recorded) override { lt_products_.choose(recorded); }
  bool rounds_bias() const override { return true; }  // a product adds a bias of its result's type alone
  bool has_products_through_gelu(GeluForm, DType) const override;

  void linear(LinearDims, Tensor x, Tensor w, Tensor b, Tensor y) override;
  void linear_backward(LinearDims, Tensor dy, Tensor x, Tensor w, Gradient dx, Gradient dw, Gradient db) override;
  void linear_add(LinearDims, Tensor x, Tensor w, Tensor b, Tensor residual, Tensor y) override;
  void linear_gelu(LinearDims, GeluForm, Tensor x, Tensor w, Tensor b, Tensor kept, Tensor y) override;
  void linear_gelu_backward(LinearDims, GeluForm, Tensor dy, Tensor x, Tensor w, Tensor kept, Gradient dx, Gradient dw,
                            Gradient db) override;
  void linear_backward_through_gelu(LinearDims, GeluForm, Tensor dy, Tensor x, Tensor w, Tensor kept, Gradient dh,
                                    Gradient dw, Gradient db) override;
  void gelu(GeluForm, Tensor x, Tensor y) override;
  void gelu_backward(GeluForm, Tensor dy, Tensor x, Gradient dx) override;
  void tanh(Tensor x, Tensor y) override;
  void tanh_backward(Tensor dy, Tensor y, Gradient dx) override;
  void add(Tensor a, Tensor b, Tensor y) override;
  void copy_gradient(Tensor dy, Gradient dx) override;
  void fill(Tensor x, double value) override;
  void scale(std::int64_t group, Tensor x, Tensor gain, Tensor y) override;
  void scale_backward(std::int64_t group, Tensor dy, Tensor x, Tensor gain, Gradient dx, Gradient dgain) override;
  void softmax(Tensor x, Tensor y) override;
  void softmax_backward(Tensor dy, Tensor y, Gradient dx) override;
  void layer_norm(NormDims, Tensor x, Tensor gamma, Tensor beta, Tensor y, Tensor mean, Tensor rstd) override;
  void layer_norm_backward(NormDims, Tensor dy, Tensor x, Tensor gamma, Tensor mean, Tensor rstd, Gradient dx,
                           Gradient dgamma, Gradient dbeta) override;
  void rms_norm(NormDims, Tensor x, Tensor gamma, Tensor y, Tensor rstd) override;
  void rms_norm_backward(NormDims, Tensor dy, Tensor x, Tensor gamma, Tensor rstd, Gradient dx,
                         Gradient dgamma) override;
  void norm_of_sum(NormDims, const RowMask&, Tensor x, Tensor residual, Tensor gamma, Tensor beta, Tensor sum, Tensor y,
                   Tensor mean, Tensor rstd) override;
  void norm_of_sum_backward(NormDims, const RowMask&, Tensor dy, Tensor sum, Tensor gamma, Tensor mean, Tensor rstd,
                            Gradient dsum, Gradient dx, Gradient dgamma, Gradient dbeta) override;
  void affine(Tensor x, Tensor gamma, Tensor beta, Tensor y) override;
  void affine_backward(Tensor dy, Tensor x, Tensor gamma, Gradient dx, Gradient dgamma, Gradient dbeta) override;
  void dyt(Tensor x, Tensor alpha, Tensor gamma, Tensor beta, Tensor y) override;
  void dyt_backward(Tensor dy, Tensor x, Tensor alpha, Tensor gamma, Gradient dx, Gradient dalpha, Gradient dgamma,
                    Gradient dbeta) override;
  void batch_norm(BatchNormDims, Collective&, Tensor x, Tensor gamma, Tensor beta, Tensor running_mean,
                  Tensor running_var, Tensor y, Tensor mean, Tensor rstd) override;
  void batch_norm_backward(BatchNormDims, Collective&, Tensor dy, Tensor x, Tensor gamma, Tensor mean, Tensor rstd,
                           Gradient dx, Gradient dgamma, Gradient dbeta) override;
  void batch_norm_frozen(NormDims, Tensor x, Tensor gamma, Tensor beta, Tensor running_mean, Tensor running_var,
                         Tensor y) override;
  void batch_norm_frozen_backward(NormDims, Tensor dy, Tensor x, Tensor gamma, Tensor running_mean, Tensor running_var,
                                  Gradient dx, Gradient dgamma, Gradient dbeta) override;
  void attention(AttentionDims, Tensor q, Tensor k, Tensor v, Tensor keep, double rate, Tensor y, Tensor lse) override;
  void attention_backward(AttentionDims, Tensor dy, Tensor q, Tensor k, Tensor v, Tensor keep, double rate, Tensor y,
                          Tensor lse, Gradient dq, Gradient dk, Gradient dv) override;
  void window_attention(AttentionDims, WindowDims, Tensor q, Tensor k, Tensor v, Tensor table, Tensor keep, double rate,
                        Tensor y, Tensor lse) override;
  void window_attention_backward(AttentionDims, WindowDims, Tensor dy, Tensor q, Tensor k, Tensor v, Tensor table,
                                 Tensor keep, double rate, Tensor y, Tensor lse, Gradient dq, Gradient dk, Gradient dv,
                                 Gradient dtable) override;
  void softmax_cross_entropy(LossDims, Tensor logits, Tensor labels, Tensor targets, Tensor losses) override;
  void softmax_cross_entropy_backward(LossDims, Tensor dlosses, Tensor logits, Tensor labels, Tensor targets,
                                      Gradient dlogits) override;
  void sigmoid_cross_entropy(LossDims, Tensor logits, Tensor labels, Tensor targets, Tensor losses) override;
  void sigmoid_cross_entropy_backward(LossDims, Tensor dlosses, Tensor logits, Tensor labels, Tensor targets,
                                      Gradient dlogits) override;
  void pixel_softmax_cross_entropy(LossDims, std::int32_t ignore, Tensor logits, Tensor labels, Tensor losses) override;
  void pixel_softmax_cross_entropy_backward(LossDims, std::int32_t ignore, Tensor dlosses, Tensor logits, Tensor labels,
                                            Gradient dlogits) override;
  void patchify(PatchDims, Tensor images, Tensor y) override;
  void patchify_backward(PatchDims, Tensor dy, Gradient dimages) override;
  void resample(ResampleDims, Tensor x, Tensor y) override;
  void resample_backward(ResampleDims, Tensor dy, Gradient dx) override;
  void add_positions(TokenDims, Tensor x, Tensor position, Tensor y) override;
  void add_positions_backward(TokenDims, Tensor dy, Gradient dx, Gradient dposition) override;
  void mean_tokens(TokenDims, Tensor x, Tensor y) override;
  void mean_tokens_backward(TokenDims, Tensor dy, Gradient dx) override;
  void concat_token(TokenDims, Tensor token, Tensor x, Tensor y) override;
  void concat_token_backward(TokenDims, Tensor dy, Gradient dtoken, Gradient dx) override;
  void select_tokens(TokenDims, std::int64_t first, std::int64_t count, Tensor x, Tensor y) override;
  void select_tokens_backward(TokenDims, std::int64_t first, std::int64_t count, Tensor dy, Gradient dx) override;
  void concat_tokens(TokenDims, std::int64_t n, Tensor first, Tensor rest, Tensor y) override;
  void concat_tokens_backward(TokenDims, std::int64_t n, Tensor dy, Gradient dfirst, Gradient drest) override;
  void cut_windows(WindowDims, Tensor x, Tensor y) override;
  void cut_windows_backward(WindowDims, Tensor dy, Gradient dx) override;
  void join_windows(WindowDims, Tensor x, Tensor y) override;
  void join_windows_backward(WindowDims, Tensor dy, Gradient dx) override;
  void merge_patches(GridDims, Tensor x, Tensor y) override;
  void merge_patches_backward(GridDims, Tensor dy, Gradient dx) override;
  void dropout(std::int64_t group, double rate, Tensor x, Tensor keep, Tensor y) override;
  void dropout_backward(std::int64_t group, double rate, Tensor dy, Tensor keep, Gradient dx) override;
  void dropout_add(std::int64_t group, double rate, Tensor x, Tensor keep, Tensor residual, Tensor y) override;
  void draw_mask(MaskDraw, const StepState* state, Tensor keep) override;
  void feature_statistics(TokenDims, Tensor x, Tensor of_images, Tensor of_channels) override;
  void check_finite(Tensor x, std::int32_t code, Tensor flag) override;
  void sum_lanes(std::int64_t lanes, std::int64_t lane_stride, Tensor lane0, double* square) override;
  void clip(ClipForm, std::int64_t blocks, const double* squares, StepState* state) override;
  void adamw(AdamWSettings, const ParameterUpdate&) override;
  void sgd(SgdSettings, const ParameterUpdate&) override;
  void big_vision_adam(BigVisionAdamSettings, const ParameterUpdate&) override;
  void momentum_hp(MomentumSettings, const ParameterUpdate&) override;
  void lion(LionSettings, const ParameterUpdate&) override;
  void lamb_moments(AdamWSettings, const ParameterUpdate&, bool decays, LambSquares* squares) override;
  void lamb_ratio(std::int64_t pieces, const LambSquares* squares, double* trust_ratio) override;
  void lamb(AdamWSettings, const ParameterUpdate&, bool decays, const double* trust_ratio) override;
  void average(double decay, const StepState* state, Tensor x, Tensor to) override;
  void round_to_bf16(Tensor p, Tensor to) override;

 private:
  // linear.cu, for storage types T
  /// db is emptied where it was made on the way.
  template <class T>
  void input_and_weight_gradients(LinearDims, const T* dy, Tensor x, Tensor w, Gradient dx, Gradient dw, Gradient& db);
  void multiply(const char* op, const LtProduct&, const void* a, const void* b, void* c);
  /// A weight or bias as products beside activations of T read it: itself, or a float one rounded into `to`.
  template <class T>
  T* as_read(Tensor parameter, Buffer& to);

  Stream stream_, copies_;
  DeviceMemory memory_{stream_};
  std::array<Uploads, kUploads> uploads_{Uploads(stream_, copies_), Uploads(stream_, copies_),
                                         Uploads(stream_, copies_), Uploads(stream_, copies_),
                                         Uploads(stream_, copies_)};  // by kind
  LtProducts lt_products_{stream_};
  Products products_{stream_};  // those that cuBLASLt does not have
  Readback readback_{stream_};
  Buffer partial_{stream_};  // of sums in two stages
  Buffer rounded_weight_{stream_}, rounded_bias_{stream_};
  Buffer wide_{stream_};  // an intermediate as large as an activation
};

/// A backend on the current device.
std::unique_ptr<Backend> make_backend();

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
