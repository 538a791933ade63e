// RandAugment (Cubuk et al. 2020) as in Big Vision, torchvision, timm and ildoonee's port. docs/data.md describes the
// differences.
#pragma once

#include <optional>
#include <span>

#include "experiments/lab/data/draws.h"
#include "experiments/lab/data/ops/operation.h"

namespace normlab {

/// Thread-safe if each thread has its own scratch.
class RandAugment {
 public:
  /// InputError for what problem_of() (descriptor/augment_config.h) finds. Without a dialect nothing is applied, and
  /// only apply() may be called.
  explicit RandAugment(const RandAugmentConfig& config);

  /// Applies `layers` operations, drawn with replacement. Keeps the image size.
  void apply(Image& image, const AugmentDraws& draws, OpScratch& scratch) const;

  /// The operation of one layer; nullopt if timm's probability skips it.
  std::optional<DrawnOp> draw(std::uint32_t layer, std::int64_t height, std::int64_t width,
                              const AugmentDraws& draws) const;
  void run(const DrawnOp& drawn, Image& image, OpScratch& scratch) const {
    normlab::run(drawn, style_, image, scratch);
  }

  /// The library's list; all are equally likely.
  std::span<const AugmentOp> operations() const;
  /// Whether the argument is negated with probability one half (timm, increasing: mirrors an
  /// enhancement's factor about 1).
  bool is_signed(AugmentOp op) const;
  /// For an image of this size.
  double argument(AugmentOp op, double level, bool negative, std::int64_t height, std::int64_t width) const;

 private:
  RandAugmentConfig config_;
  OpStyle style_;
};

}  // namespace normlab
