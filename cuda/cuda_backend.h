// The GPU kernels. Each source file contains the kernels of one family and the methods that start them, with the names
// and in the order of core/cpu. All work goes through one stream, in order; only synchronize() waits for it.
#pragma once

#include <array>
#include <memory>

#include "core/shared_kernels.h"
#include "cuda/device.h"
#include "cuda/formula_kernels.h"
#include "cuda/lt_products.h"
#include "cuda/memory.h"
#include "cuda/nccl_exchange.h"
#include "cuda/products.h"
#include "cuda/stack_place.h"
#include "cuda/transfer.h"
#include "cuda/waiting_sums.h"
#include "cuda/watch.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// What all backends of one GPU share: memory, the stream of all work, and library products.
struct CudaDevice {
  explicit CudaDevice(StackPlace* in_stack = nullptr) : place(in_stack) {}
  StackPlace* const place;  // null outside of a stack
  const SlabPlace buffers = place != nullptr ? place->buffers : SlabPlace();
  Stream stream, copies;
  DeviceMemory memory{stream, place != nullptr ? place->memory : SlabPlace()};
  std::array<Uploads, kUploads> uploads{Uploads(stream, copies), Uploads(stream, copies), Uploads(stream, copies),
                                        Uploads(stream, copies), Uploads(stream, copies)};  // by kind
  LtProducts lt_products{stream};
  std::string preferred;      // SHA-256 of the file of its algorithms, if there is one
  Products products{stream};  // those that cuBLASLt lacks
  Readback readback{stream};
  FormulaKernels own_formulas;
  FormulaKernels& formulas = place != nullptr ? place->formulas : own_formulas;
  WaitingSums sums{stream};
  Buffer partial{"sums in two stages", stream};  // that do not wait
  Buffer rounded_weight{"a rounded weight", stream, buffers}, rounded_bias{"a rounded bias", stream, buffers};
  Buffer wide{"an intermediate result", stream, buffers};  // as large as an activation
  std::unique_ptr<NcclExchange> exchange;                  // of a group of several processes, made on first use
};

class CudaBackend final : public SharedKernels<CudaBackend> {
 public:
  /// On the current device. Throws EnvironmentError like device_info(), and if cuBLAS cannot be loaded.
  CudaBackend();
  /// The same in a stack.
  explicit CudaBackend(StackPlace& place);
  const Stream& stream() const { return stream_; }
  bool compare_products() { return lt_products_.compare_new(); }
  std::string name() const override;
  /// gpu, compute_capability, gpu_driver, cuda_runtime, cublas and, with a file of algorithms, gpu_algorithms.
  std::map<std::string, std::string> provenance() const override;
  Memory& memory() override { return device_->memory; }
  bool whole_batch() const override { return true; }
  Tensor upload(Upload, Tensor host) override;
  std::shared_ptr<std::byte[]> upload_buffer(std::size_t bytes) override;
  void wait_for_upload(Upload kind) override { device_->uploads[static_cast<std::size_t>(kind)].wait(); }
  void read(Tensor from, void* to) override { device_->readback.add(from, to); }
  void synchronize() override {
    if (device_->place != nullptr) device_->place->before_waiting();
    device_->readback.wait();
  }
  void forget_reads() override {
    device_->readback.forget();
    sums_.forget();
  }
  bool sums_gradients() const override { return true; }
  void finish_sums() override { sums_.finish(); }
  Exchange& exchange(Group& group) override;
  std::unique_ptr<Watch> watch() override { return std::make_unique<StreamWatch>(stream_); }
  std::unique_ptr<Recording> record(FunctionRef<void()> work) override;
  bool run_together(const StepKey& key, FunctionRef<void()> work) override;
  std::uint64_t thread_memory() const override { return stream_.buffer_growths(); }
  /// The GPU has native bf16 products only; emulated ones run on the CPU.
  Backend& with_bf16(Bf16Products) override;
  Backend& with_tf32() override;
  std::string product_choices() const override { return lt_products_.choices(); }
  void choose_products(const std::string& recorded) override { lt_products_.choose(recorded); }
  void prefer_products(const ProductAlgorithms& algorithms) override;
  std::vector<TunedProduct> tune_products(double seconds) override { return lt_products_.tune(seconds); }
  bool rounds_bias() const override { return true; }  // a product only adds a bias of its result's type
  bool has_products_through_gelu(GeluForm, DType) const override;
  void linear_backward_through_gelu(LinearDims, GeluForm, const LinearBackward&) override;
  void prepare_attention(AttentionDims, DType) override;
  std::string first_nan(FormulaDims, const FormulaBackward&) override;
  std::string formula_compiler() override;
  NORMLAB_KERNELS(NORMLAB_OVERRIDE)
  NORMLAB_UPDATES(NORMLAB_OVERRIDE)

 private:
  friend SharedKernels<CudaBackend>;
  CudaBackend(std::shared_ptr<CudaDevice> device, bool tf32);

  // shared_kernels.cu, map.cuh
  void require_classes(const char* op, const LossDims&, const Tensor& labels);
  template <class F>
  void each_row(const char* op, std::int64_t rows, const F& f);
  template <class F, std::size_t kIn, std::size_t kColumns, std::size_t kSums>
  void map(const char* op, std::int64_t rows, std::int64_t cols, const F& f, const Operands<kIn, kColumns, kSums>&);
  // linear.cu, for storage types T
  /// `dy`: the gradient of the product, whatever of.dy is.
  template <class T>
  void input_and_weight_gradients(LinearDims, const LinearBackward& args, const T* dy, const Gradient& dx);
  /// y = x w^T + b (+ residual), each value rounded once. Null: without.
  template <class T>
  void multiply_forward(const char* op, LinearDims, Tensor x, const T* weights, T* bias, const T* residual, T* y);
  /// to (+)= the sums over the rows of x [rows, cols].
  void sum_rows(const char* op, std::int64_t rows, std::int64_t cols, Tensor x, Gradient to);
  bool multiply_lt(const char* op, LtProduct, const LtOperands&);
  void multiply(const char* op, LtProduct, const LtOperands&);
  // optimizer.cu: P is the parameters' type, F that of the factors of products.
  template <class P, class F>
  void muon_with(const MuonSettings&, const MuonBatch&, const ParameterUpdate& all);
  /// A weight or bias as products of T activations read it: itself, or a float one rounded into `to`.
  template <class T>
  T* as_read(Tensor parameter, Buffer& to);
  // window_attention.cu
  void window_attention(AttentionDims, const AttentionInput&, const AttentionOutput&);
  void window_attention_backward(AttentionDims, const AttentionInput&, const AttentionOutput&, Tensor dy,
                                 const AttentionGradients&);

  const std::shared_ptr<CudaDevice> device_;
  const bool tf32_;
  const Stream& stream_{device_->stream};
  LtProducts& lt_products_{device_->lt_products};
  Buffer &partial_{device_->partial}, &rounded_weight_{device_->rounded_weight}, &rounded_bias_{device_->rounded_bias},
      &wide_{device_->wide};
  WaitingSums& sums_{device_->sums};
  std::unique_ptr<CudaBackend> with_tf32_;  // made on first use
};

/// A backend on GPU `number` of those that this process sees, for the threads that call it. `shared`: see use_device().
std::unique_ptr<Backend> make_backend(int number = 0, bool shared = false);

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
