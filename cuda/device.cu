#include "cuda/device.h"

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "core/device_fault.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

constexpr const char* kOtherwise = "; run with --device cpu";

int wanted = 0;  // the GPU of this process
bool shared_with_workers = false;

/// Represents all kernels: if this one was compiled for the GPU, so were the others.
__global__ void any_kernel() {}

/// Of the errors after which, by CUDA's documentation, a process must be started again. Those of the multi-process
/// service come to clients that another one has ended, and to new ones before it is ready again.
bool ends_context(cudaError_t error) {
  switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsClientTerminated:
      return true;
    default:
      return false;
  }
}

/// `after` is added to CUDA's words.
[[noreturn]] void throw_error(cudaError_t error, const std::string& before, const std::string& after = "") {
  const std::string what =
      concat(before, "CUDA: ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")", after);
  if (ends_context(error)) throw DeviceFault(what);
  throw EnvironmentError(what);
}

}  // namespace

std::string version_text(int number) { return concat(number / 1000, ".", number % 1000 / 10); }

std::string driver_release() {
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ..."
  std::ifstream file("/proc/driver/nvidia/version");
  for (std::string word; file >> word && word != "GCC";)
    if (word.find_first_not_of("0123456789.") == word.npos && word.find('.') != word.npos) return word;
  return "unknown";
}

DeviceInfo query_device(int number) {
  DeviceInfo info;
  check("CUDA runtime", cudaRuntimeGetVersion(&info.runtime));
  check("CUDA driver", cudaDriverGetVersion(&info.driver));
  if (info.driver == 0)
    throw EnvironmentError(
        "--device cuda: no NVIDIA driver is installed (libcuda.so.1 is missing); install it, or run with --device cpu");
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver)
    throw EnvironmentError(concat("--device cuda: the NVIDIA driver supports CUDA ", version_text(info.driver),
                                  ", but this binary needs ", version_text(info.runtime),
                                  "; install a newer driver, or run with --device cpu"));
  if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
    throw EnvironmentError(
        "--device cuda: no NVIDIA GPU is visible (see nvidia-smi and CUDA_VISIBLE_DEVICES); run with --device cpu");
  if (error != cudaSuccess)
    throw_error(error, "--device cuda: cannot start: ", concat("; check that nvidia-smi works", kOtherwise));
  if (number >= count)
    throw EnvironmentError(concat(
        "--device cuda: rank ", number, " (from 0) of this host takes the GPU of that number, but sees only ", count,
        " (nvidia-smi and CUDA_VISIBLE_DEVICES); start fewer ranks on a host, or let each see all its GPUs"));
  info.number = number;
  if (shared_with_workers)  // before the first call that makes a context
    check("CUDA device", cudaInitDevice(number, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid));
  check("CUDA device", cudaSetDevice(info.number));
  cudaDeviceProp p;
  check("CUDA device", cudaGetDeviceProperties(&p, info.number));
  info.name = p.name;
  info.major = p.major;
  info.minor = p.minor;
  info.memory = p.totalGlobalMem;
  info.shared_per_block = p.sharedMemPerBlockOptin;
  info.managed_at_any_time = p.concurrentManagedAccess != 0;
  if (info.major < 8)
    throw EnvironmentError(concat("--device cuda: ", info.name, " has compute capability ", info.major, ".", info.minor,
                                  ", but this binary needs 8.0 or above (A100 and later)", kOtherwise));
  cudaFuncAttributes attributes;
  const cudaError_t kernels = cudaFuncGetAttributes(&attributes, any_kernel);
  if (kernels == cudaErrorNoKernelImageForDevice || kernels == cudaErrorInvalidDeviceFunction)
    throw EnvironmentError(concat("--device cuda: this binary has no kernels for ", info.name, " (compute capability ",
                                  info.major, ".", info.minor, "); build with `make CUDA=1 CUDA_ARCH=", info.major,
                                  info.minor, "`", kOtherwise));
  check("CUDA device", kernels);
  return info;
}

void check(const char* op, cudaError_t error) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // otherwise the next kernel reports it too
  throw_error(error, concat(op, ": "));
}

void use_device(int number, bool shared) {
  wanted = number;
  shared_with_workers = shared;
  device_info();
  check("CUDA device", cudaSetDevice(number));
}

bool device_is_shared() { return shared_with_workers; }

const DeviceInfo& device_info() {
  static const DeviceInfo info = query_device(wanted);
  return info;
}

void check_launch(const char* op, std::int64_t blocks, int threads, std::size_t shared) {
  constexpr std::int64_t kMaxBlocks = 0x7fffffff;
  constexpr int kMaxThreads = 1024;
  if (blocks < 0 || blocks > kMaxBlocks || threads < 1 || threads > kMaxThreads)
    throw InputError(concat(op, ": ", blocks, " blocks of ", threads, " threads exceed the limits of CUDA"));
  if (shared > device_info().shared_per_block)
    throw InputError(concat(op, ": needs ", shared, " bytes of shared memory per block, but the GPU has ",
                            device_info().shared_per_block));
}

Stream::Stream() {
  check("stream", cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking));
  const char* wait = std::getenv("NORMLAB_CUDA_SYNC");
  wait_for_each_ = wait && *wait == '1';
}

Stream::~Stream() { cudaStreamDestroy(handle_); }

void Stream::look_until_done() const {
  constexpr std::chrono::milliseconds kBetweenLooks{10};
  auto next = std::chrono::steady_clock::now() + kBetweenLooks;
  while (cudaStreamQuery(handle_) == cudaErrorNotReady) {
    if (std::chrono::steady_clock::now() < next) {
      std::this_thread::yield();
      continue;
    }
    look_();
    next = std::chrono::steady_clock::now() + kBetweenLooks;
  }
}

void Stream::synchronize() const {
  if (look_) look_until_done();
  const cudaError_t error = cudaStreamSynchronize(handle_);
  if (error == cudaSuccess) return;
  throw_error(error, "",
              concat(", seen after ", last_op_, " was started",
                     wait_for_each_ ? "" : " (set NORMLAB_CUDA_SYNC=1 to find the kernel)"));
}

void Stream::launched(const char* op) const {
  last_op_ = op;
  ++launches_;
  check(op, cudaGetLastError());
  if (wait_for_each_) synchronize();
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
