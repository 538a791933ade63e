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
struct FusedSite {
  std::string site;  // path in the placement: "attn.pre", "attn.pre (blocks 0-3)" where blocks differ
  NormKind kind;
  bool merged;
  std::string what;  // the linears that took it in, or why it was left
};

struct FusedModel {
  ModelConfig config;
  HostTensors tensors;
  std::vector<FusedSite> sites;
};
/// Merges what can be merged, as the rows of kSites say: the norms' values go, and their sites become `none`. One entry
/// of `sites` for each that has a norm, in the order data meets them. In evaluation the network that is returned gives
/// the same logits up to rounding.
/// - A linear without a bias gains one. Where one of q, k, v does, the others get zeros: the network has qkv_bias then.
/// - attn.out behind a head scale takes the head scale along into proj, in all blocks; HeadScale becomes none.
/// - final lies before the pooling; mean and selection of a token commute with it, so it merges behind them, unless
///   `pooled` holds a norm of another kind.
/// - Left as well: attn.pre where windows are padded behind it; norms of other kinds.
/// `tensors` are exactly the parameters and running statistics of `config`. InputError for the first that is not, and
/// for a merged value that is not finite in float.
FusedModel fuse_batch_norms(const ModelConfig& config, HostTensors tensors);

/// The sites as lines of text for people, and the number of values before and after.
std::string fusion_report(std::span<const FusedSite> sites, std::int64_t values_before, std::int64_t values_after);

}  // namespace normlab
