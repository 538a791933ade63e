// Extended signal propagation plots: how large the residual stream and its branches are, block by block ("Leveraging
// Batch Normalization for Vision Transformers", section 3.3, equations 1 and 2), and gradient norms by layer.
//
// Sums are taken an image at a time and added in image order, in double: neither the cut into shards nor the number of
// threads changes a bit of them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/shards.h"
#include "nn/context.h"
#include "nn/placement.h"

namespace normlab {

struct TokenDims;

/// Which axis keeps its statistics apart. channel: one mean and variance a channel, over images and positions, as batch
/// norm sees features. position: one a position of each image, over channels, as layer norm sees them.
enum class ProbeAxis : std::uint8_t { channel, position };
inline constexpr ProbeAxis kProbeAxes[] = {ProbeAxis::channel, ProbeAxis::position};

/// That of the network's main norm, the first of attention's and the MLP's pre, post and out and of final that is not
/// none: channel for batch norm, position for everything else and where there is no norm at all.
ProbeAxis probe_axis(const Placement& placement);

/// Of features F along an axis: afsm, the Average Feature Squared Mean (equation 1), and afv, the Average Feature
/// Variance (equation 2, biased): mean and variance over what the axis joins, averaged over what it keeps apart.
struct FeatureMoments {
  double afsm = 0.0, afv = 0.0;
};

/// Takes features in, images in any order and from several threads, and gives their moments.
class FeatureStatistics {
 public:
  FeatureStatistics(std::int64_t images, std::int64_t channels);
  /// features [n, ..., C] (f32, f64 or bf16) of the images first_image .. first_image + n, in memory of the host or on
  /// a tape. Threads may hand in different images at a time. Throws InputError for another number of channels, or
  /// images that are not there.
  void see(const Tensor& features, std::int64_t first_image);
  void see(const Var& features, std::int64_t first_image);
  /// Once all images were seen, and the tape's device has been waited for.
  FeatureMoments moments(ProbeAxis axis) const;

 private:
  TokenDims dims_of(const Tensor& features, std::int64_t first_image);
  double* mean(std::int64_t image) { return channels_sums_.data() + image * 2 * channels_; }
  const double* mean(std::int64_t image) const { return channels_sums_.data() + image * 2 * channels_; }

  std::int64_t channels_;
  std::vector<std::int64_t> positions_;  // of each image
  std::vector<double> images_sums_;      // [images, 2], and
  std::vector<double> channels_sums_;    // [images, 2, C]: as Backend::feature_statistics() gives them
};

/// The signal of one batch as it goes through a network. Make one, hand its observers to the Context of each shard,
/// read it once the batch is through.
class SignalProbe {
 public:
  /// A branch that ends in a residual sum, in the order of the network.
  struct Layer {
    std::string name;  // "blocks.0.attn"
    FeatureMoments stream[2],
        branch[2];  // by ProbeAxis; stream: what goes on behind the sum (and behind a norm `post`)
  };

  /// Sets what `ctx` is observed by. The context must not outlive the probe.
  void observe(Context& ctx);
  /// After all shards: every layer. AFSM and AFV of the paper are `stream`, AFVR is `branch[..].afv`.
  std::vector<Layer> layers() const;

 private:
  struct Point {
    std::string name;
    FeatureStatistics stream, branch;
    Point(std::string name_of, std::int64_t images, std::int64_t channels)
        : name(std::move(name_of)), stream(images, channels), branch(images, channels) {}
  };
  Point* find(const std::string& name) const;  // the lock is held
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Point>> points_;
};

/// Norm of the gradient of a group of parameters.
struct GradientNorm {
  std::string layer;
  double norm = 0.0;
};

/// Of the summed gradients in lane 0, which every optimisation step leaves there, before clipping. Layers: each branch
/// ("blocks.0.attn", "blocks.0.mlp") and each block ("blocks.0"); "patch_embed", and "stem" for all before the blocks
/// (layer 0 of Place); whatever else has parameters ("final", "pooled", "rep", "head", ...); "global" for all. In
/// the order of the parameters. Squares are added in double, in the order of a parameter's values, then of parameters.
std::vector<GradientNorm> gradient_norms(const ParameterSet& parameters, ShardPool& pool);

/// The same of one parameter.
double gradient_norm(const ParameterSet& parameters, int parameter);

}  // namespace normlab
