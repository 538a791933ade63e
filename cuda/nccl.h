// NVIDIA's library that moves bytes between GPUs, opened at run time, so that the program needs none.
#pragma once

#include <cstddef>
#include <string>

#include "core/library.h"

namespace normlab {

/// The functions that are used, as nccl.h declares them. Results are ncclResult_t, types ncclDataType_t.
class Nccl {
 public:
  struct Id {
    char bytes[128];
  };
  using Comm = void*;
  using Stream = void*;            // cudaStream_t
  static constexpr int kByte = 1;  // ncclUint8

  /// Throws EnvironmentError if the library is missing or older than 2.13, which has no ncclGetLastError().
  explicit Nccl(const std::string& file = "libnccl.so.2");
  /// Throws EnvironmentError with NCCL's own words for anything but success.
  void check(const char* call, int result, Comm comm = nullptr) const;

  int (*GetUniqueId)(Id*);
  int (*CommInitRank)(Comm*, int size, Id, int number);
  int (*CommAbort)(Comm);
  int (*CommGetAsyncError)(Comm, int* error);
  int (*GroupStart)();
  int (*GroupEnd)();
  int (*Send)(const void*, std::size_t count, int type, int peer, Comm, Stream);
  int (*Recv)(void*, std::size_t count, int type, int peer, Comm, Stream);
  int (*Broadcast)(const void* send, void* receive, std::size_t count, int type, int root, Comm, Stream);

 private:
  const char* (*GetErrorString)(int);
  const char* (*GetLastError)(Comm);
};

}  // namespace normlab
