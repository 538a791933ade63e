// What shards may say to each other within a step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "core/function_ref.h"
#include "core/tensor.h"

namespace normlab {

/// Shards of this process, or one shard alone. Every shard makes the same calls in the same order.
class Collective {
 public:
  virtual ~Collective() = default;
  /// This shard's number and how many there are.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Hands in `mine`. When all shards have, `combine` runs once, on one thread, over all contributions in shard order,
  /// and its writes are seen by all shards when they go on. Whoever waits gives its thread and its lane away: memory
  /// of the thread, such as scratch(), may be another's after it.
  virtual void meet(void* mine, FunctionRef<void(std::span<void* const>)> combine) = 0;
  /// Memory of this shard that outlives a meeting, aligned for a double, with whatever was there; until it asks again.
  virtual std::byte* kept(std::size_t bytes) = 0;

  /// Replaces `values` in every shard by the sum over all shards, added in shard order, in double.
  void all_reduce(std::span<double> values);
  /// Copies `values` of shard `root` to all shards.
  void broadcast(std::span<double> values, int root);
  void barrier();
};

/// A collective of one shard: nothing ever waits.
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
