#include "nn/training/shard_runner.h"

#include <algorithm>

#include "core/backend.h"

namespace normlab {

ShardRunner::Workspace::Workspace(Backend& backend)
    : arena(backend.memory()), tape(backend, arena), profile(backend.watch()) {}

void ShardRunner::run(const ShardPlan& plan, std::int64_t images, FunctionRef<void(Workspace&, const BatchSlice&)> body,
                      ShardShare& share, bool by_lane) {
  const int count = share.count(), lanes = share.lanes();
  if (count == 0) return;
  const auto at_once = static_cast<std::size_t>(plan.lockstep ? count : std::min(lanes, pool_.threads()));
  while (workspaces_.size() < at_once) {
    workspaces_.push_back(std::make_unique<Workspace>(backend_));
    free_.push_back(workspaces_.back().get());
  }
  const auto run_shard = [&](Collective& shards) {
    const std::int64_t first = shards.rank() * plan.images;
    const auto run_in = [&](Workspace& w) {
      w.tape.set_profile(profiling_ ? &w.profile : nullptr);
      w.tape.reset();
      body(w, {std::min(plan.images, images - first), first, images, &shards});
    };
    if (plan.lockstep)
      run_in(*workspaces_[static_cast<std::size_t>(shards.place())]);
    else
      run_in(*Lease(*this).workspace);
  };
  pool_.run(count, lanes, plan.lockstep, run_shard, &share, by_lane);
  if (!plan.lockstep) {
    const auto largest = std::max_element(workspaces_.begin(), workspaces_.end(), [](const auto& a, const auto& b) {
      return a->arena.reserved() < b->arena.reserved();
    });
    for (const auto& w : workspaces_) w->arena.grow_like((*largest)->arena);
  }
  if (backend_.thread_memory() != thread_memory_) {
    pool_.on_each_thread([this] { backend_.match_thread_memory(); });
    thread_memory_ = backend_.thread_memory();
  }
}

void ShardRunner::set_profiling(bool on) {
  profiling_ = on;
  for (const auto& w : workspaces_) w->profile.clear();
}

Profile ShardRunner::profile() const {
  Profile all;
  for (const auto& w : workspaces_) all.add(w->profile);
  return all;
}

std::size_t ShardRunner::arena_bytes() const {
  std::size_t total = 0;
  for (const auto& w : workspaces_) total += w->arena.reserved();
  return total;
}

std::vector<const void*> ShardRunner::last_addresses() const {
  std::vector<const void*> all;
  for (const auto& w : workspaces_) all.insert(all.end(), w->addresses.begin(), w->addresses.end());
  return all;
}

}  // namespace normlab
