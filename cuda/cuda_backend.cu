#include "cuda/cuda_backend.h"

#include "core/error.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

CudaBackend::CudaBackend() = default;

std::string CudaBackend::name() const { return "cuda"; }

Backend& CudaBackend::with_bf16(Bf16Products products) {
  if (products == Bf16Products::emulated)
    throw EnvironmentError("--device cuda has products in bf16 of its own; bf16_emulated is for --device cpu");
  return *this;
}

Tensor CudaBackend::upload(Upload kind, Tensor host) { return uploads_[static_cast<int>(kind)].bring(host); }

std::unique_ptr<Backend> make_backend() {
  device_info();  // says first what is missing
  return std::make_unique<CudaBackend>();
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
