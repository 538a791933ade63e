#include "cuda/cuda_backend.h"

#include "cuda/recording.h"

#include "core/error.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

CudaBackend::CudaBackend() = default;

std::string CudaBackend::name() const { return "cuda"; }

std::map<std::string, std::string> CudaBackend::provenance() const {
  const DeviceInfo& info = device_info();
  std::map<std::string, std::string> all{
      {"gpu", info.name},
      {"compute_capability", concat(info.major, ".", info.minor)},
      {"gpu_driver", concat(driver_release(), " (CUDA ", version_text(info.driver), ")")},
      {"cuda_runtime", version_text(info.runtime)},
      {"cublas", Products::version()}};
  if (const std::string products = lt_products_.description(); !products.empty()) all["products"] = products;
  return all;
}

Backend& CudaBackend::with_bf16(Bf16Products products) {
  if (products == Bf16Products::emulated)
    throw EnvironmentError("--device cuda has products in bf16 of its own; bf16_emulated is for --device cpu");
  return *this;
}

Tensor CudaBackend::upload(Upload kind, Tensor host) { return uploads_[static_cast<std::size_t>(kind)].bring(host); }

std::unique_ptr<Recording> CudaBackend::record(FunctionRef<void()> work) {
  if (stream_.waits_for_each()) return nullptr;
  return record_graph(stream_, work);
}
void CudaBackend::set_tf32(bool on) {
  lt_products_.set_tf32(on);
  products_.set_tf32(on);
}

std::unique_ptr<Backend> make_backend() {
  device_info();  // says first what is missing
  return std::make_unique<CudaBackend>();
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
