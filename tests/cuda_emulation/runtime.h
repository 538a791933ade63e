// The part of the CUDA runtime that the host side of the kernels calls. One device; everything is done when a call
// returns, and streams.h knows what need not be.
#pragma once

#include <cstddef>
#include <functional>

using cudaError_t = int;
inline constexpr cudaError_t cudaSuccess = 0, cudaErrorMemoryAllocation = 2, cudaErrorNoDevice = 100,
                             cudaErrorInsufficientDriver = 35, cudaErrorInvalidValue = 1, cudaErrorNotReady = 600,
                             cudaErrorInvalidResourceHandle = 400, cudaErrorStreamCaptureUnsupported = 900,
                             cudaErrorStreamCaptureUnjoined = 904, cudaErrorStreamCaptureIsolation = 905,
                             cudaErrorNoKernelImageForDevice = 209, cudaErrorInvalidDeviceFunction = 98,
                             cudaErrorECCUncorrectable = 214, cudaErrorContained = 226, cudaErrorIllegalAddress = 700,
                             cudaErrorLaunchTimeout = 702, cudaErrorAssert = 710, cudaErrorHardwareStackError = 714,
                             cudaErrorIllegalInstruction = 715, cudaErrorMisalignedAddress = 716,
                             cudaErrorInvalidAddressSpace = 717, cudaErrorInvalidPc = 718, cudaErrorLaunchFailure = 719,
                             cudaErrorMpsRpcFailure = 806, cudaErrorMpsServerNotReady = 807,
                             cudaErrorMpsClientTerminated = 810;
struct EmulatedStream;
struct EmulatedGraph;
struct EmulatedEvent;
using cudaStream_t = EmulatedStream*;
using cudaEvent_t = EmulatedEvent*;
using cudaGraph_t = EmulatedGraph*;
using cudaGraphExec_t = EmulatedGraph*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeRelaxed = 2 };
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
inline constexpr unsigned cudaMemAttachGlobal = 1, cudaStreamNonBlocking = 1, cudaEventDefault = 0,
                          cudaEventBlockingSync = 1, cudaEventDisableTiming = 2, cudaDeviceScheduleBlockingSync = 4,
                          cudaInitDeviceFlagsAreValid = 1;
#define CUDART_VERSION 13000

struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  int major, minor;
  std::size_t sharedMemPerBlockOptin;
  int concurrentManagedAccess;
};
enum cudaMemLocationType { cudaMemLocationTypeDevice = 1 };
struct cudaMemLocation {
  cudaMemLocationType type;
  int id;
};
enum cudaMemoryAdvise { cudaMemAdviseSetPreferredLocation = 3 };
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeHost };
struct cudaPointerAttributes {
  cudaMemoryType type;
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };

const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaGetDevice(int*);
cudaError_t cudaSetDevice(int);
cudaError_t cudaInitDevice(int, unsigned device_flags, unsigned flags);
cudaError_t cudaDeviceGetPCIBusId(char*, int length, int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int);
cudaError_t cudaDriverGetVersion(int*);
cudaError_t cudaRuntimeGetVersion(int*);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaMalloc(void**, std::size_t);
cudaError_t cudaMallocManaged(void**, std::size_t, unsigned flags = cudaMemAttachGlobal);
cudaError_t cudaMallocHost(void**, std::size_t);
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes*, const void*);
cudaError_t cudaFree(void*);
cudaError_t cudaFreeHost(void*);
cudaError_t cudaMemAdvise(const void*, std::size_t, cudaMemoryAdvise, cudaMemLocation);
cudaError_t cudaMemPrefetchAsync(const void*, std::size_t, cudaMemLocation, unsigned flags, cudaStream_t);
cudaError_t cudaMemcpyAsync(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t = nullptr);
cudaError_t cudaMemsetAsync(void*, int, std::size_t, cudaStream_t = nullptr);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamQuery(cudaStream_t);
// What is asked of the stream in a capture runs when the graph is launched.
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus*);
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long flags = 0);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned flags = 0);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaEventCreateWithFlags(cudaEvent_t*, unsigned);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t = nullptr);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel*, cudaFuncAttribute, int) {
  return cudaSuccess;
}
struct cudaFuncAttributes {
  int numRegs;
};
/// What set_kernel_error() says.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, void (*kernel)());

namespace normlab::emulation {
/// Lets events see so many seconds pass, beside those of the clock.
void pass(double seconds);
/// Runs `work` now, or in its turn where the stream is captured.
void in_order(cudaStream_t, const std::function<void()>& work);
/// Graphs that were launched so far.
long graphs_launched();
/// Whether streams have work that does not end, as where another rank is gone.
void set_endless_work(bool endless);
/// Asked when a kernel of this op begins, and with "" at calls that wait: an error other than cudaSuccess stays with all
/// calls that follow. Null: none, and what was is forgotten.
void set_fault(cudaError_t (*of)(const char* op));
/// As a kernel that begins asks it.
cudaError_t error_at(const char* op);
/// Of cudaInitDevice and of the event that was made last.
unsigned device_flags();
unsigned event_flags();
/// Between a query of free memory and the return of the call, as in a process that loses its turn there.
void set_pause_after_query(void (*pause)());
/// Of each `of` calls about events, the one of number `which` is left out, to see whether it is missed; 0, 0 for none.
void leave_out_events(int which, int of);
/// Whether the binary has kernels for the device.
void set_kernel_error(cudaError_t error);
/// The next calls of cudaGetDeviceCount give this error, to see what is said of it; cudaSuccess for none.
void set_device_error(cudaError_t error);
/// Bytes that allocations may take beyond what they have; 0 for no limit.
void set_memory_limit(std::size_t bytes);
/// That of the driver, 0 for none.
void set_driver_version(int version);
/// Compute capability of the device.
void set_capability(int major, int minor);
}  // namespace normlab::emulation
