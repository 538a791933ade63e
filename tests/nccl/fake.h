// What tests ask of the library in fake.cpp, which stands in for NCCL.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace normlab::fake_nccl {

enum class Call : std::uint8_t { group_start, group_end, send, receive, broadcast };

struct Record {
  Call call;
  int peer = 0;  // of a broadcast its root
  std::size_t bytes = 0;
};

/// One for each process. What is found goes to `problem` of all ranks.
struct Control {
  /// Runs a function in the order of the stream.
  void (*in_order)(void* stream, const std::function<void()>&) = [](void*, const std::function<void()>& work) {
    work();
  };
  bool (*on_device)(const void*, std::size_t) = [](const void*, std::size_t) { return true; };
  int version = 22809;
  std::string failing;                 // the function that gives `error`
  int error = 5;                       // ncclInvalidUsage
  int async_error = 0;                 // that ncclCommGetAsyncError() tells
  bool aborted = false;                // a communicator
  std::vector<Record> records{};       // the calls of this process
  void* stream = nullptr;              // of all calls
  const char* (*problem)() = nullptr;  // the first that any rank found, or ""
};

}  // namespace normlab::fake_nccl

/// In the library.
extern "C" normlab::fake_nccl::Control* fake_nccl_control();
