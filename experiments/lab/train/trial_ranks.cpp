// What processes that train a trial together must agree on.
#include <fmt/format.h>

#include "core/lane_tree.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/train/trial.h"
#include "nn/training/shard_plan.h"

namespace normlab {

void require_equal(Group& group, const std::string& what, const std::string& here) {
  const std::string there = group.shared_text(here);
  group.agree([&] {
    if (here != there)
      throw InputError(
          fmt::format("rank {} on {} has another {} than rank 0, and all ranks must have the same:\n  rank {}: {}\n  "
                      "rank 0: {}",
                      group.number(), host_name(), what, group.number(), here, there));
  });
}

void require_divisible(const Team& team, const TrialConfig& config, std::int64_t gpu_shards) {
  if (gpu_shards > 1 && shards_meet(config.model))
    throw InputError(
        fmt::format("--gpu-shards {}: batch norm and image-text training need the whole batch on one GPU; train with "
                    "one rank and --gpu-shards 1",
                    gpu_shards));
  const int ranks = team.size();
  if (ranks == 1) return;
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("{} {}: {}", team.option, ranks, why));
  };
  if (gpu_shards > kMostLanes || (gpu_shards > 0 && ranks > gpu_shards))
    refuse(
        fmt::format("GPUs divide the {} shards of a batch, and each rank needs one; use fewer ranks, or up to {} "
                    "--gpu-shards",
                    std::min(gpu_shards, kMostLanes), kMostLanes));
  if (config.train.batch_size < ranks)
    refuse(
        fmt::format("a batch has {} images, and each rank needs at least one; use fewer ranks, or raise "
                    "train.batch_size",
                    config.train.batch_size));
}

}  // namespace normlab
