// Merges frozen batch norms into neighbouring linear layers; the remaining network computes the same without them
// ("Leveraging Batch Normalization for Vision Transformers", section 3.4, equations 3 to 5). All arithmetic is double,
// and values are rounded once, at the end.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "nn/model/host_tensors.h"
#include "nn/model/model_config.h"

namespace normlab {

/// A batch norm with frozen statistics: x to scale x + offset, per channel.
struct FrozenNorm {
  std::vector<double> scale, offset;
};
/// scale = gamma / sqrt(var + eps), offset = beta - scale mean. Throws InputError if a variance plus eps is
/// not positive.
FrozenNorm frozen_norm(std::span<const double> gamma, std::span<const double> beta, std::span<const double> mean,
                       std::span<const double> var, double eps);

/// Turns linear(norm(x)) into one linear layer: changes weight [out, in] and bias [out] in place; the norm is [in]. For
/// a layer without bias, pass zeros, which become its bias.
void merge_into_next(const FrozenNorm& norm, std::span<double> weight, std::span<double> bias);
/// Turns norm(linear(x)) into one linear layer. The norm's width is `out` or divides it; then it repeats, like the norm
/// of one head over all heads. For a layer without bias, pass zeros, which become its bias.
void merge_into_previous(const FrozenNorm& norm, std::span<double> weight, std::span<double> bias);

/// What happened to the norm at one site, in all blocks with the same norm there.
struct FusedSite {
  std::string site;  // path in the placement: "attn.pre", "attn.pre (blocks 0-3)" if blocks differ
  NormKind kind;
  bool merged;
  std::string what;  // the linear layers it was merged into, or why it was kept
};

struct FusedModel {
  ModelConfig config;
  HostTensors tensors;
  std::vector<FusedSite> sites;
};
/// Merges every norm that can be merged, according to kSites. Their values are removed and their sites become `none`.
/// `sites` has one entry for each site with a norm, in the order in which data passes them. In evaluation the returned
/// network gives the same logits up to rounding.
/// - A layer without bias gains one. If one of q, k, v does, the others get zeros: the network then has qkv_bias.
/// - If attn.out follows a head scale, the head scale is merged into proj too, in all blocks; HeadScale becomes none.
/// - final lies before the pooling. Mean and token selection commute with it, so it is merged after them, unless
///   `pooled` has a norm of another kind.
/// - prep_bn is merged as its evaluation: BN(x) + eta x.
/// - Also kept: attn.pre if windows are padded after it; norms of other kinds.
/// `tensors` must be exactly the parameters and running statistics of `config`. Throws InputError for the first that is
/// not, and for a merged value that is not finite in float.
FusedModel fuse_batch_norms(const ModelConfig& config, HostTensors tensors);

/// The sites as readable lines of text, and the number of values before and after.
std::string fusion_report(std::span<const FusedSite> sites, std::int64_t values_before, std::int64_t values_after);

}  // namespace normlab
