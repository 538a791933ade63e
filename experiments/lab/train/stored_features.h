// The head's inputs of a training that changes nothing before the head, computed once instead of in every epoch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "experiments/lab/data/image_set.h"
#include "experiments/lab/descriptor/slice.h"

namespace normlab {

class BatchSource;
class Engine;
class ShardPool;

/// Whether a training computes the head's inputs once for each image. A pure function of settings and sizes.
struct FeaturePlan {
  std::int64_t width = 0;  // of an image's features; 0: more than the head is trained
  std::string obstacle{};  // why each epoch computes them anew
  double images = 0;       // of all slices; 0 while a size is unknown
  double bytes = 0;        // of their features
  bool once() const { return width > 0 && obstacle.empty(); }
  /// "the head's inputs are computed once: 70000 images, 53.8 MB"; empty if more than the head is trained.
  std::string words() const;
};
FeaturePlan feature_plan(const TrialConfig& config, const SliceSizes& sizes);

/// The most memory that features may take.
inline constexpr double kMostFeatureBytes = 4e9;

/// The features of a slice: [images, width] in the type of the network's activations.
class StoredFeatures {
 public:
  StoredFeatures(std::int64_t images, std::int64_t width, DType dtype);
  /// Stores the features of images from `first` on.
  void put(std::int64_t first, const std::vector<double>& values);
  const Tensor& all() const { return all_; }

 private:
  std::vector<std::byte> memory_;
  Tensor all_;
};

/// Computes the features of training or evaluation images, in the batches in which a step (of parts of `part` images)
/// or an evaluation would compute them. Null if `stopped` says so. NonFiniteError names the first image whose features
/// are not finite.
enum class FeatureSlice : std::uint8_t { training, evaluation };
std::shared_ptr<const StoredFeatures> store_features(Engine& engine, BatchSource& batches, FeatureSlice slice,
                                                     const ImageSet& images, std::int64_t part, ShardPool& pool,
                                                     const std::function<bool()>& stopped);

}  // namespace normlab
