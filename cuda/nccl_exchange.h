// Moves GPU memory between the processes of a group that have a GPU each.
#pragma once

#include "core/group.h"
#include "cuda/device.h"
#include "cuda/nccl.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

/// Every call goes to the stream and returns at once; a CUDA graph may record it. Sizes are in bytes, so that NCCL
/// converts and adds nothing.
class NcclExchange final : public Exchange {
 public:
  /// All of `group` call it at once. Throws the same EnvironmentError in all if one has no NCCL, or if NCCL refuses.
  NcclExchange(Group& group, Stream& stream);
  ~NcclExchange() override;
  NcclExchange(const NcclExchange&) = delete;
  NcclExchange& operator=(const NcclExchange&) = delete;
  const Group& group() const { return group_; }

  void all_to_all(std::span<const Sent> send, std::span<const Received> receive) override;
  void all_gather(std::span<const Received> parts) override;

 private:
  /// The calls of `body` as one: none waits for another.
  void as_group(FunctionRef<void()> body);
  /// Keeps the first error of a group.
  void note(const char* call, int result);
  /// Throws for an error, after end().
  void check(const char* call, int result);
  /// Throws if NCCL or another process has failed, after end().
  void look();
  /// Ends the work of NCCL that the stream may wait for.
  void end();

  Group& group_;
  Stream& stream_;
  const Nccl& nccl_;
  Nccl::Comm comm_ = nullptr;  // null after an error
  const char* failed_ = nullptr;
  int error_ = 0;  // of failed_
};

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
