// The CPU kernels: plain loops over one shard on one thread, and BLAS calls. Each source file contains the template
// kernels of one family and the methods that select the type.
#pragma once

#include "core/shared_kernels.h"

namespace normlab {

class CpuBackend final : public SharedKernels<CpuBackend> {
 public:
  explicit CpuBackend(Bf16Products bf16_products) : bf16_products_(bf16_products) {}
  std::string name() const override;
  Backend& with_bf16(Bf16Products) override;
  Backend& with_tf32() override;
  void read(Tensor from, void* to) override;
  std::uint64_t thread_memory() const override;
  void match_thread_memory() override;
  void prepare_linear(LinearDims, DType, bool b) override;
  void prepare_attention(AttentionDims, DType) override;
  void prepare_muon(std::int64_t rows, std::int64_t cols) override;
  std::int64_t panel_rows(DType) const override;
  void pack_panels(Tensor w, Tensor panels) override;
  std::int64_t kept_by_bhyt(NormDims, double kappa) const override;
  std::string first_nan(FormulaDims, const FormulaBackward&) override;
  NORMLAB_KERNELS(NORMLAB_OVERRIDE)
  NORMLAB_UPDATES(NORMLAB_OVERRIDE)

 private:
  friend SharedKernels<CpuBackend>;
  // In shared_kernels.cpp.
  void require_classes(const char* op, const LossDims&, const Tensor& labels);
  template <class F>
  void each_row(const char* op, std::int64_t rows, const F& f);
  template <class F, std::size_t kIn, std::size_t kColumns, std::size_t kSums>
  void map(const char* op, std::int64_t rows, std::int64_t cols, const F& f, const Operands<kIn, kColumns, kSums>&);
  // In formula_norms.cpp, for pointwise_norm.
  void tanh_norm(const NormForward&, Tensor alpha, Tensor shift);
  void tanh_norm_backward(const NormBackward&, Tensor alpha, Tensor shift, Gradient dalpha, Gradient dshift);
  // In linear_bf16.cpp and attention_bf16.cpp, for bf16 activations.
  void linear_bf16(LinearDims, Tensor x, Tensor w, Tensor b, Tensor residual, Tensor y);
  void linear_bf16_backward(LinearDims, const LinearBackward&);
  void linear_gelu_bf16(LinearDims, GeluForm, Tensor x, Tensor w, Tensor b, Tensor slope, Tensor y);
  void linear_gelu_bf16_backward(LinearDims, LinearBackward);
  void attention_bf16(AttentionDims, const AttentionInput&, const AttentionOutput&);
  void attention_bf16_backward(AttentionDims, const AttentionInput&, const AttentionOutput&, Tensor dy,
                               const AttentionGradients&);

  const Bf16Products bf16_products_;
};

}  // namespace normlab
