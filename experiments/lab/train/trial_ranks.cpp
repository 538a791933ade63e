#include "experiments/lab/train/trial_ranks.h"

#include <fmt/format.h>

#include "core/backend.h"
#include "core/lane_tree.h"
#include "core/ranks/forked_ranks.h"
#include "experiments/lab/base/build_info.h"
#include "nn/training/shard_plan.h"

namespace normlab {

void require_equal(Ranks& ranks, const std::string& what, const std::string& here) {
  const std::string there = ranks.shared_text(here);
  ranks.agree([&] {
    if (here != there)
      throw InputError(
          fmt::format("rank {} on {} has another {} than rank 0, and all ranks must have the same:\n  rank {}: {}\n  "
                      "rank 0: {}",
                      ranks.rank(), host_name(), what, ranks.rank(), here, there));
  });
}

void require_ranks(int ranks, const std::string& option, const TrialConfig& config, std::int64_t gpu_shards) {
  if (gpu_shards > 1 && shards_meet(config.model))
    throw InputError(
        fmt::format("--gpu-shards {}: batch norm and image-text training need the whole batch on one GPU; train with "
                    "one rank and --gpu-shards 1",
                    gpu_shards));
  if (ranks == 1) return;
  const auto refuse = [&](const std::string& why) { throw InputError(fmt::format("{} {}: {}", option, ranks, why)); };
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

TrialOutcome run_trial_on(int ranks, const TrialConfig& config, const std::string& id, const DataPair& data,
                          const TrialFolder& folder, const Claim& claim, const TrialOptions& options) {
  require_ranks(ranks, "--ranks", config, options.backend->whole_batch() ? options.gpu_shards : 0);
  TrialOutcome outcome = TrialOutcome::done;
  fork_ranks(ranks, [&](Ranks& group) {
    TrialOptions own = options;
    own.ranks = &group;
    if (!group.root()) own.report = nullptr, own.clock = nullptr;
    outcome = run_trial(config, id, data, folder, claim, own);
  });
  return outcome;
}

}  // namespace normlab
