// Extended signal propagation plots: the size of the residual stream and its branches, block by block ("Leveraging
// Batch Normalization for Vision Transformers", section 3.3, equations 1 and 2), and gradient norms by layer.
//
// Sums are taken per image and added in image order, in double, so neither the cut into shards nor the number of
// threads changes a bit.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/shards.h"
#include "core/words.h"
#include "nn/model/placement.h"
#include "nn/model/step.h"
#include "nn/probes/named_records.h"

namespace normlab {

class Backend;

/// Element i of a tensor of f32, f64 or bf16, in host memory.
double number_at(const Tensor& t, std::int64_t i);

/// A tensor's values in host memory, whatever its type of numbers and device.
std::vector<double> values_of(Backend& backend, const Tensor& t);

/// The axis along which statistics stay separate. channel: one mean and variance per channel, over images and
/// positions, as batch norm sees features. position: one per position of each image, over channels, as layer norm
/// sees them.
enum class ProbeAxis : std::uint8_t { channel, position };
constexpr auto stated_words(ProbeAxis) { return words<ProbeAxis>("channel", "position"); }
inline constexpr ProbeAxis kProbeAxes[] = {ProbeAxis::channel, ProbeAxis::position};

/// The axis of the network's main norm, the first one that is not none among attention's and the MLP's pre, post and
/// out and final: channel for batch norm, position for every other kind and if there is no norm.
ProbeAxis probe_axis(const Placement& placement);

/// Moments of features F along an axis: afsm, the Average Feature Squared Mean (equation 1), and afv, the Average
/// Feature Variance (equation 2, biased). Mean and variance are over what the axis joins, then averaged over what
/// it separates.
struct FeatureMoments {
  double afsm = 0.0, afv = 0.0;
};

/// Moments of features that arrive image by image, in any order and from several threads.
class FeatureStatistics {
 public:
  FeatureStatistics(std::int64_t images = 0, std::int64_t channels = 0);
  /// Adds features [n, ..., C] (f32, f64 or bf16) of the images first_image .. first_image + n. Threads may add
  /// different images concurrently. Throws InputError for another number of channels or images out of range.
  void see(const Var& features, std::int64_t first_image);
  std::array<ImageRows*, 3> rows() { return {&positions_, &sums_, &channel_sums_}; }
  /// Only after all images were added and the tape's device has synchronised.
  FeatureMoments moments(ProbeAxis axis) const;

 private:
  ImageRows positions_;            // their number
  ImageRows sums_, channel_sums_;  // [2] and [2, C]: as from Backend::feature_statistics()
};

/// The signal of one batch through a network: give its observers to the step, and read it after the batch.
class SignalProbe {
 public:
  /// A branch that ends in a residual sum, in the order of the network.
  struct Layer {
    std::string name;  // "blocks.0.attn"
    FeatureMoments stream[2],
        branch[2];  // by ProbeAxis; stream: what continues after the sum (and a norm `post`)
  };

  /// Sets the observers of values and branches, which must not outlive the probe.
  void observe(Observers& observers);
  /// After the shards here: takes over those of other processes. All call it.
  void gather(Group& group) { points_.gather(group); }
  /// After all shards: every layer. AFSM and AFV of the paper are `stream`, AFVR is `branch[..].afv`.
  std::vector<Layer> layers() const;

 private:
  struct Point {
    FeatureStatistics stream, branch;
    std::array<ImageRows*, 6> rows() {
      const auto [a, b, c] = stream.rows();
      const auto [d, e, f] = branch.rows();
      return {a, b, c, d, e, f};
    }
  };
  NamedRecords<Point> points_;
};

/// The share of a training step's images for which the largest output is that of the largest target: the label's class,
/// or the one with the larger share of a mixed image. The first of equal ones. For task classify.
class BatchAccuracyProbe {
 public:
  /// `targets`: those of the step's loss, in host or device memory. Sets the observer of values, which also calls the
  /// one that was set, and must not outlive the probe.
  void observe(Observers& observers, Backend& backend, const Tensor& targets);
  /// After the shards here: takes over those of other processes. All call it.
  void gather(Group& group) { right_.gather(group); }
  /// After all shards.
  double accuracy() const;

 private:
  std::vector<std::size_t> wanted_;  // the class of each image
  ImageRows right_;                  // 1 or 0
};

/// Norm of the gradient of a group of parameters.
struct GradientNorm {
  std::string layer;
  double norm = 0.0;
};

/// Norms of the summed gradients, which every optimisation step leaves in lane 0 before clipping. Layers: each
/// branch ("blocks.0.attn", "blocks.0.mlp") and each block ("blocks.0"); "patch_embed", and "stem" for all before
/// the blocks (layer 0 of Place); other parts with parameters ("final", "pooled", "rep", "head", ...); "global" for
/// all. In the order of the parameters. Squares are added in double, in the order of each parameter's values, then
/// of the parameters.
std::vector<GradientNorm> gradient_norms(const ParameterSet& parameters, ShardPool& pool);

/// Norms of the update of one step, divided by the norms of the weights before it. Layers as in gradient_norms().
class UpdateProbe {
 public:
  /// Copies the weights before the step.
  explicit UpdateProbe(const ParameterSet& parameters);
  /// After the step. A layer whose weights were all zero gives infinity or NaN.
  std::vector<GradientNorm> ratios(const ParameterSet& parameters, ShardPool& pool) const;

 private:
  std::vector<std::vector<double>> before_;  // by parameter
};

}  // namespace normlab
