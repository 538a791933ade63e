// Communication between the shards of a step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "core/function_ref.h"
#include "core/tensor.h"

namespace normlab {

/// The shards of a step, in all processes of a group, or a single one. Every shard makes the same calls in the same
/// order.
class Collective {
 public:
  using Bytes = std::span<const std::byte>;
  /// Gets what all shards contribute, in shard order, and the own objects of the shards in this process, in that order.
  using Combine = FunctionRef<void(std::span<const Bytes> all, std::span<void* const> here)>;

  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Its index among the shards of this process.
  virtual int place() const = 0;
  /// Contributes `bytes`. Once all shards have, `combine` runs once in each process, on one thread; all shards there
  /// see its writes afterwards. A waiting shard gives up its thread and lane, so it must not keep thread-local memory
  /// such as scratch() across the call.
  virtual void meet(Bytes bytes, void* result, Combine combine) = 0;
  /// Memory of this shard that survives meetings, aligned for double, contents undefined. Valid until the next call.
  virtual std::byte* memory(std::size_t bytes) = 0;
};

/// The collective of a single shard, which never waits.
class SingleShard final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int place() const override { return 0; }
  void meet(Bytes bytes, void* result, Combine combine) override { combine({&bytes, 1}, {&result, 1}); }
  std::byte* memory(std::size_t bytes) override {
    memory_.resize(std::max(memory_.size(), bytes));
    return memory_.data();
  }

 private:
  std::vector<std::byte> memory_;
};

}  // namespace normlab
