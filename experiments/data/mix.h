// Two images of a batch made one, with their targets: mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019), as
// big_vision, torchvision and timm do them. A batch is mixed whole, before it is cut into shards or parts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experiments/data/draws.h"
#include "experiments/data/resize.h"
#include "experiments/descriptor/config.h"

namespace normlab {

/// What becomes of one image of a batch.
struct Mixing {
  std::int64_t partner = 0;  // its place in the batch
  double lambda = 1.0;       // weight of the image itself, in the targets always; 1: it stays as it is
  bool cut = false;          // CutMix: the partner's pixels within `box`; else a weighted sum
  Box box{};
};

/// Whether anything is ever mixed.
inline bool mixes(const MixConfig& config) { return config.mixup > 0 || config.cutmix > 0; }

/// The mixing of each image of a batch, a function of (seed, step) and its place alone.
/// - Partner: the predecessor, the last image being the first one's (big_vision, torchvision); the image that stands
///   where this one does from the end (timm). An odd batch's middle image is its own partner there.
/// - Lambda: Beta(p, p); big_vision takes the larger of it and 1 - it. One a batch, or one an image (timm's "elem").
/// - Box: sides of sqrt(1 - lambda) times the image's about a drawn middle, cut at the border; half sides are rounded
///   down (torchvision, big_vision) or sides are (timm, 1.0). Lambda then becomes the share of pixels that stay.
std::vector<Mixing> draw_mixing(const MixConfig& config, std::int64_t batch, std::int64_t height, std::int64_t width,
                                std::uint64_t seed, std::int64_t step);

/// One mixed image, [height, width, channels], rounded to T once. `own` and `partner` are images before mixing.
template <class A, class T>
void mix_image(const Mixing& mixing, const A* own, const A* partner, std::int64_t height, std::int64_t width,
               std::int64_t channels, T* out);

/// A batch's targets [batch, classes]: lambda times the image's, (1 - lambda) times the partner's, label smoothing in
/// both. As mixing keeps sums, it is no matter whether labels are smoothed before (timm, big_vision) or after it
/// (PyTorch's loss, which torchvision's recipes use).
template <class A>
void mix_targets(std::span<const Mixing> mixings, std::span<const std::int32_t> labels, std::int64_t classes,
                 double smoothing, Smoothing over, A* out);

}  // namespace normlab
