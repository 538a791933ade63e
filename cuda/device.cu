#include "cuda/device.h"

#include <cstdlib>

#include "core/error.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

std::string version(int number) { return concat(number / 1000, ".", number % 1000 / 10); }

}  // namespace

DeviceInfo query_device() {
  DeviceInfo info;
  check("CUDA runtime", cudaRuntimeGetVersion(&info.runtime));
  check("CUDA driver", cudaDriverGetVersion(&info.driver));
  if (info.driver == 0)
    throw EnvironmentError(
        "--device cuda: no NVIDIA driver is installed (libcuda.so.1 is missing); install it, or run with --device cpu");
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver)
    throw EnvironmentError(concat("--device cuda: the NVIDIA driver knows CUDA ", version(info.driver),
                                  ", this binary needs ", version(info.runtime),
                                  "; install a newer driver, or run with --device cpu"));
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
    throw EnvironmentError(
        "--device cuda: no NVIDIA GPU is visible (see nvidia-smi and CUDA_VISIBLE_DEVICES); run with --device cpu");
  check("CUDA device", error);
  check("CUDA device", cudaGetDevice(&info.number));
  cudaDeviceProp p;
  check("CUDA device", cudaGetDeviceProperties(&p, info.number));
  info.name = p.name;
  info.major = p.major;
  info.minor = p.minor;
  info.multiprocessors = p.multiProcessorCount;
  info.memory = p.totalGlobalMem;
  info.shared_per_block = p.sharedMemPerBlockOptin;
  info.managed_at_any_time = p.concurrentManagedAccess != 0;
  if (info.major < 8)
    throw EnvironmentError(concat("--device cuda: ", info.name, " has compute capability ", info.major, ".", info.minor,
                                  ", this binary needs 8.0 or above (A100 and later); run with --device cpu"));
  return info;
}

void check(const char* op, cudaError_t error) {
  if (error == cudaSuccess) return;
  throw EnvironmentError(concat(op, ": CUDA: ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"));
}

const DeviceInfo& device_info() {
  static const DeviceInfo info = query_device();
  return info;
}

void check_launch(const char* op, std::int64_t blocks, int threads, std::size_t shared) {
  constexpr std::int64_t kMaxBlocks = 0x7fffffff;
  constexpr int kMaxThreads = 1024;
  if (blocks < 0 || blocks > kMaxBlocks || threads < 1 || threads > kMaxThreads)
    throw InputError(concat(op, ": ", blocks, " blocks of ", threads, " threads are beyond what CUDA takes"));
  if (shared > device_info().shared_per_block)
    throw InputError(concat(op, ": needs ", shared, " bytes of shared memory a block, the GPU has ",
                            device_info().shared_per_block));
}

Stream::Stream() {
  check("stream", cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking));
  const char* wait = std::getenv("NORMLAB_CUDA_SYNC");
  wait_for_each_ = wait && *wait == '1';
}

Stream::~Stream() { cudaStreamDestroy(handle_); }

void Stream::synchronize() const {
  const cudaError_t error = cudaStreamSynchronize(handle_);
  if (error == cudaSuccess) return;
  throw EnvironmentError(concat("CUDA: ", cudaGetErrorString(error), " (", cudaGetErrorName(error), "), seen after ",
                                last_op_, " was started",
                                wait_for_each_ ? "" : " (NORMLAB_CUDA_SYNC=1 says which kernel it was)"));
}

void Stream::launched(const char* op) const {
  last_op_ = op;
  check(op, cudaGetLastError());
  if (wait_for_each_) synchronize();
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
