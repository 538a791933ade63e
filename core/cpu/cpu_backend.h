// The kernels of the CPU: plain loops over one shard on one thread, and BLAS calls. Each file beside this one holds the
// template kernels of one family and the methods that pick the type.
#pragma once

#include "core/backend.h"

namespace normlab {

class CpuBackend final : public Backend {
 public:
  std::string name() const override;
  void linear(LinearDims, Tensor x, Tensor w, Tensor b, Tensor y) override;
  void linear_backward(LinearDims, Tensor dy, Tensor x, Tensor w, Gradient dx, Gradient dw, Gradient db) override;
  void linear_gelu(LinearDims, GeluForm, Tensor x, Tensor w, Tensor b, Tensor h, Tensor y) override;
  void linear_gelu_backward(LinearDims, GeluForm, Tensor dy, Tensor x, Tensor w, Tensor h, Gradient dx, Gradient dw,
                            Gradient db) override;
  void gelu(GeluForm, Tensor x, Tensor y) override;
  void gelu_backward(GeluForm, Tensor dy, Tensor x, Gradient dx) override;
  void tanh(Tensor x, Tensor y) override;
  void tanh_backward(Tensor dy, Tensor y, Gradient dx) override;
  void add(Tensor a, Tensor b, Tensor y) override;
  void copy_gradient(Tensor dy, Gradient dx) override;
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
  void softmax_cross_entropy(LossDims, Tensor logits, Tensor labels, Tensor targets, Tensor losses) override;
  void softmax_cross_entropy_backward(LossDims, Tensor dlosses, Tensor logits, Tensor labels, Tensor targets,
                                      Gradient dlogits) override;
  void sigmoid_cross_entropy(LossDims, Tensor logits, Tensor labels, Tensor targets, Tensor losses) override;
  void sigmoid_cross_entropy_backward(LossDims, Tensor dlosses, Tensor logits, Tensor labels, Tensor targets,
                                      Gradient dlogits) override;
  void patchify(PatchDims, Tensor images, Tensor y) override;
  void patchify_backward(PatchDims, Tensor dy, Gradient dimages) override;
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
  void dropout(std::int64_t group, double rate, Tensor x, Tensor keep, Tensor y) override;
  void dropout_backward(std::int64_t group, double rate, Tensor dy, Tensor keep, Gradient dx) override;
  void draw_mask(MaskDraw, const StepState* state, Tensor keep) override;
  void check_finite(Tensor x, std::int32_t code, Tensor flag) override;
  double sum_lanes(std::int64_t lanes, std::int64_t lane_stride, Tensor lane0) override;
  void adamw(AdamWSettings, const StepState* state, std::int64_t lanes, std::int64_t lane_stride, Tensor lane0,
             Tensor decay, Tensor p, Tensor m, Tensor v) override;
  void sgd(SgdSettings, const StepState* state, std::int64_t lanes, std::int64_t lane_stride, Tensor lane0,
           Tensor decay, Tensor p, Tensor m) override;
};

}  // namespace normlab
