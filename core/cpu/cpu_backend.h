// The kernels of the CPU: plain loops over one shard on one thread, and BLAS calls. Each file beside this one holds the
// template kernels of one family and the methods that pick the type.
#pragma once

#include "core/backend.h"

namespace normlab {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(Bf16Products bf16_products) : bf16_products_(bf16_products) {}
  std::string name() const override;
  Backend& with_bf16(Bf16Products) override;
  void set_tf32(bool on) override;
  void prepare_linear(LinearDims, DType, bool b) override;
  void prepare_attention(AttentionDims, DType) override;
  std::uint64_t thread_memory() const override;
  void even_out_thread_memory() override;
  void linear(LinearDims, Tensor x, Tensor w, Tensor b, Tensor y) override;
  void linear_backward(LinearDims, Tensor dy, Tensor x, Tensor w, Gradient dx, Gradient dw, Gradient db) override;
  void linear_add(LinearDims, Tensor x, Tensor w, Tensor b, Tensor residual, Tensor y) override;
  void linear_gelu(LinearDims, GeluForm, Tensor x, Tensor w, Tensor b, Tensor slope, Tensor y) override;
  void linear_gelu_backward(LinearDims, GeluForm, Tensor dy, Tensor x, Tensor w, Tensor slope, Gradient dx, Gradient dw,
                            Gradient db) override;
  bool has_products_through_gelu(GeluForm, DType) const override;
  void linear_backward_through_gelu(LinearDims, GeluForm, Tensor dy, Tensor x, Tensor w, Tensor slope, Gradient dh,
                                    Gradient dw, Gradient db) override;
  void gelu(GeluForm, Tensor x, Tensor y) override;
  void gelu_backward(GeluForm, Tensor dy, Tensor x, Gradient dx) override;
  void tanh(Tensor x, Tensor y) override;
  void tanh_backward(Tensor dy, Tensor y, Gradient dx) override;
  void add(Tensor a, Tensor b, Tensor y) override;
  void copy_gradient(Tensor dy, Gradient dx) override;
  void fill(Tensor x, double value) override;
  void read(Tensor from, void* to) override;
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
  // linear_bf16.cpp and attention_bf16.cpp: the same for bf16 activations.
  void linear_bf16(LinearDims, Tensor x, Tensor w, Tensor b, Tensor y);
  void linear_bf16_backward(LinearDims, const bf16* dy, Tensor x, Tensor w, Gradient dx, Gradient dw, Gradient db);
  void linear_add_bf16(LinearDims, Tensor x, Tensor w, Tensor b, Tensor residual, Tensor y);
  void linear_gelu_bf16(LinearDims, GeluForm, Tensor x, Tensor w, Tensor b, Tensor slope, Tensor y);
  void linear_bf16_backward_through_gelu(LinearDims, const bf16* dy, Tensor x, Tensor w, Tensor slope, Gradient dh,
                                         Gradient dw, Gradient db);
  void linear_gelu_bf16_backward(LinearDims, Tensor dy, Tensor x, Tensor w, Tensor slope, Gradient dx, Gradient dw,
                                 Gradient db);
  // `windows` and `table`: null and empty where attention is over the whole image.
  void attention_bf16(AttentionDims, const WindowDims* windows, Tensor q, Tensor k, Tensor v, Tensor table, Tensor keep,
                      double rate, Tensor y, Tensor lse);
  void attention_bf16_backward(AttentionDims, const WindowDims* windows, Tensor dy, Tensor q, Tensor k, Tensor v,
                               Tensor table, Tensor keep, double rate, Tensor y, Tensor lse, Gradient dq, Gradient dk,
                               Gradient dv, Gradient dtable);

  const Bf16Products bf16_products_;
};

}  // namespace normlab
