#include "cuda/cuda_backend.h"

#include <cstring>

#include "core/error.h"
#include "cuda/recording.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

CudaBackend::CudaBackend() : CudaBackend(std::make_shared<CudaDevice>(), false) {}
CudaBackend::CudaBackend(StackPlace& place) : CudaBackend(std::make_shared<CudaDevice>(&place), false) {}
CudaBackend::CudaBackend(std::shared_ptr<CudaDevice> device, bool tf32) : device_(std::move(device)), tf32_(tf32) {}

std::string CudaBackend::name() const { return "cuda"; }

std::map<std::string, std::string> CudaBackend::provenance() const {
  const DeviceInfo& info = device_info();
  std::map<std::string, std::string> all{
      {"gpu", info.name},
      {"compute_capability", concat(info.major, ".", info.minor)},
      {"gpu_driver", concat(driver_release(), " (CUDA ", version_text(info.driver), ")")},
      {"cuda_runtime", version_text(info.runtime)},
      {"cublas", Products::version()}};
  if (!device_->preferred.empty()) all["gpu_algorithms"] = device_->preferred;
  if (const std::string products = lt_products_.description(); !products.empty()) all["products"] = products;
  return all;
}

void CudaBackend::prefer_products(const ProductAlgorithms& algorithms) {
  lt_products_.prefer(algorithms);
  device_->preferred = algorithms.sha256;
}

Backend& CudaBackend::with_bf16(Bf16Products products) {
  if (products == Bf16Products::emulated)
    throw EnvironmentError(
        "--device cuda: precision \"bf16_emulated\" exists on CPUs only; use \"bf16\" or --device cpu");
  return *this;
}

Backend& CudaBackend::with_tf32() {
  if (tf32_) return *this;
  if (!with_tf32_) with_tf32_.reset(new CudaBackend(device_, true));
  return *with_tf32_;
}

Tensor CudaBackend::upload(Upload kind, Tensor host) {
  return device_->uploads[static_cast<std::size_t>(kind)].bring(host);
}

std::shared_ptr<std::byte[]> CudaBackend::upload_buffer(std::size_t bytes) {
  check("CUDA device", cudaSetDevice(device_info().number));  // of a thread that may never have used it
  const auto buffer = std::make_shared<PinnedBuffer>();
  buffer->resize(bytes);
  std::memset(buffer->data(), 0, bytes);
  return {buffer, buffer->data()};
}

Exchange& CudaBackend::exchange(Group& group) {
  if (group.alone()) return group;
  std::unique_ptr<NcclExchange>& made = device_->exchange;
  if (!made || &made->group() != &group) {
    made.reset();  // first, since both tell the stream what to look at
    made = std::make_unique<NcclExchange>(group, device_->stream);
  }
  return *made;
}

std::unique_ptr<Recording> CudaBackend::record(FunctionRef<void()> work) {
  if (stream_.waits_for_each()) return nullptr;
  return record_graph(stream_, work);
}

bool CudaBackend::run_together(const StepKey& key, FunctionRef<void()> work) {
  if (device_->place == nullptr || stream_.waits_for_each()) return false;
  device_->place->run_together(key, work);
  return true;
}

std::unique_ptr<Backend> make_backend(int number, bool shared) {
  use_device(number, shared);  // reports first what is missing
  return std::make_unique<CudaBackend>();
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
