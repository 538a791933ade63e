// mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019) as in big_vision, torchvision and timm. A batch is mixed as a
// whole, before it is split into shards or parts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "experiments/lab/data/draws.h"
#include "experiments/lab/data/resize.h"
#include "experiments/lab/descriptor/config.h"

namespace normlab {

struct Mixing {
  std::int64_t partner = 0;  // its position in the batch
  double lambda = 1.0;       // weight of the image itself, always used for targets; 1: unchanged
  bool cut = false;          // CutMix: the partner's pixels within `box`; else a weighted sum
  Box box{};
};

inline bool mixes(const MixConfig& config) { return config.mixup > 0 || config.cutmix > 0; }

/// Depends only on (seed, step), the image's position, and whether `epoch` still mixes.
/// - Partner: the previous image, cyclically (big_vision, torchvision), or the image at the mirrored position (timm),
///   where the middle image of an odd batch is its own partner.
/// - Lambda: Beta(p, p), one per batch or one per image (timm's "elem"). big_vision takes the larger of it and 1 - it.
/// - Box: sides of sqrt(1 - lambda) times the image's about a random centre, clipped to the image. Half sides
///   (torchvision, big_vision) or sides (timm, 1.0) are rounded down. Lambda becomes the share of pixels kept.
std::vector<Mixing> draw_mixing(const MixConfig& config, std::int64_t batch, std::int64_t height, std::int64_t width,
                                std::uint64_t seed, std::int64_t step, std::int64_t epoch = 0);

/// [height, width, channels], rounded to T once. `own` and `partner` are unmixed images.
template <class A, class T>
void mix_image(const Mixing& mixing, const A* own, const A* partner, std::int64_t height, std::int64_t width,
               std::int64_t channels, T* out);

/// [batch, classes]: lambda times the image's target plus (1 - lambda) times the partner's, both with label
/// smoothing. Mixing preserves sums, so smoothing before (timm, big_vision) and after it (PyTorch's loss, as in
/// torchvision's recipes) are equivalent.
template <class A>
void mix_targets(std::span<const Mixing> mixings, std::span<const std::int32_t> labels, std::int64_t classes,
                 double smoothing, Smoothing over, A* out);

}  // namespace normlab
