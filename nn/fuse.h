// Frozen batch norms merged into the linears beside them: what is left computes the same without them ("Leveraging
// Batch Normalization for Vision Transformers", section 3.4, equations 3 to 5). All arithmetic is double and values are
// rounded once, at the end.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nn/host_tensors.h"
#include "nn/model_config.h"

namespace normlab {

/// What a batch norm does once its statistics are frozen: x to scale x + offset, a channel.
struct FrozenNorm {
  std::vector<double> scale, offset;
};
/// scale = gamma / sqrt(var + eps), offset = beta - scale mean. InputError where a variance plus eps is not above zero.
FrozenNorm frozen_norm(std::span<const double> gamma, std::span<const double> beta, std::span<const double> mean,
                       std::span<const double> var, double eps);

/// linear(norm(x)) as one linear: weight [out, in] and bias [out] are changed in place, the norm is [in]. A linear
/// without a bias gains one: hand in zeros.
void merge_into_next(const FrozenNorm& norm, std::span<double> weight, std::span<double> bias);
/// norm(linear(x)) as one linear. The norm is [out] or divides it: then it repeats, as the norm of one head does over
/// all heads. A linear without a bias gains one: hand in zeros.
void merge_into_previous(const FrozenNorm& norm, std::span<double> weight, std::span<double> bias);

/// What became of the norm at one site, in all blocks that have the same one there.
struct SiteFate {
  std::string site;  // path in the placement: "attn.pre", "attn.pre (blocks 0-3)" where blocks differ
  NormKind kind;
  bool merged;
  std::string what;  // the linears that took it in, or why it was left
};

/// The names behind a placement's sites, whatever the network.
struct FusionPlan {
  std::vector<std::string> blocks;  // "blocks.0": `blocks.0.attn.pre`, `blocks.0.attn.q`, ...
  std::vector<std::string> merges;  // "stages.1": the norm `stages.1.merge` lies before the linear `stages.1.reduction`
  std::vector<std::string> ends;    // the linears that read what was pooled: "head", "rep", "head" and "head_dist"
  bool pads = false;                // zeros come between attn.pre and q, k, v, which a merged offset would not reach
};

/// Merges what can be merged: `tensors` lose the norms' values, and the sites in `placement` become `none`. One entry a
/// site that has a norm, in the order data meets them.
///   into the next linear      stem.patch_in: patch_embed; attn.pre: q, k, v; attn.inner: proj; mlp.pre: fc1;
///                             mlp.inner: fc2; merge: reduction; final and pooled: `ends`
///   into the previous one     stem.patch_out: patch_embed; attn.query, key, value: q, k, v; attn.out: proj;
///                             mlp.hidden: fc1; mlp.out: fc2
/// - A linear without a bias gains one. Where one of q, k, v does, the others get zeros: the network has qkv_bias then.
/// - attn.out behind a head scale takes the head scale along into proj, in all blocks; HeadScale becomes none.
/// - final lies before the pooling; mean and selection of a token commute with it, so it merges behind them, unless
///   `pooled` holds a norm of another kind.
/// - Left: attn.post, mlp.post and stem.posembed_out, which follow a sum; attn.pre where windows are padded behind it;
///   norms of other kinds.
/// InputError for a missing tensor, sizes that do not fit, and a merged value that is not finite in float.
std::vector<SiteFate> fuse_sites(const FusionPlan& plan, Placement& placement, HostTensors& tensors);

struct FusedModel {
  ModelConfig config;
  HostTensors tensors;
  std::vector<SiteFate> sites;
};
/// The same for a trained network: in evaluation the returned one gives the same logits up to rounding. `tensors` are
/// exactly the parameters and running statistics of `config`; InputError names the first that is not.
FusedModel fuse_batch_norms(const ModelConfig& config, HostTensors tensors);

/// The sites as lines of text for people, and the number of values before and after.
std::string fusion_report(std::span<const SiteFate> sites, std::int64_t values_before, std::int64_t values_after);

}  // namespace normlab
