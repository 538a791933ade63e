// Communication between the shards of a step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "core/function_ref.h"
#include "core/tensor.h"

namespace normlab {

/// The shards of this process, or a single one. Every shard makes the same calls in the same order.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Contributes `mine`. Once all shards have, `combine` runs once, on one thread, over all contributions in shard
  /// order; all shards see its writes afterwards. A waiting shard gives up its thread and lane, so it must not keep
  /// thread-local memory such as scratch() across the call.
  virtual void meet(void* mine, FunctionRef<void(std::span<void* const>)> combine) = 0;
  /// Memory of this shard that survives meetings, aligned for double, contents undefined. Valid until the next call.
  virtual std::byte* kept(std::size_t bytes) = 0;

  /// Replaces `values` in every shard by their sum, added in double in shard order.
  void all_reduce(std::span<double> values);
  /// Copies `values` of shard `root` to all shards.
  void broadcast(std::span<double> values, int root);
  void barrier();
};

/// The collective of a single shard, which never waits.
class SingleShard final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void meet(void* mine, FunctionRef<void(std::span<void* const>)> combine) override { combine({&mine, 1}); }
  std::byte* kept(std::size_t bytes) override {
    kept_.resize(std::max(kept_.size(), bytes));
    return kept_.data();
  }

 private:
  std::vector<std::byte> kept_;
};

}  // namespace normlab
