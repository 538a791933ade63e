// AutoAugment's policy for CIFAR-10 (Cubuk et al. 2019) as in DeepVoltaire's port and torchvision, and torchvision's
// TrivialAugmentWide (Müller and Hutter 2021). docs/data.md describes the differences.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "experiments/lab/data/draws.h"
#include "experiments/lab/data/ops/operation.h"

namespace normlab {

struct SubPolicyStep {
  AugmentOp op;
  double probability;
  std::int64_t magnitude;  // index of one of ten
};
using SubPolicy = std::array<SubPolicyStep, 2>;

/// Thread-safe if each thread has its own scratch.
class AutoAugment {
 public:
  /// InputError for what problem_of() (descriptor/augment_config.h) finds. Without a dialect nothing is applied, and
  /// only apply() may be called.
  explicit AutoAugment(const AutoAugmentConfig& config);

  /// One sub-policy, drawn uniformly. Keeps the image size.
  void apply(Image& image, const AugmentDraws& draws, OpScratch& scratch) const;

  /// The operations of the drawn sub-policy; nullopt if a probability skips one.
  std::array<std::optional<DrawnOp>, 2> draw(std::int64_t height, std::int64_t width, const AugmentDraws& draws) const;
  void run(const DrawnOp& drawn, Image& image, OpScratch& scratch) const {
    normlab::run(drawn, style_, image, scratch);
  }

  /// CIFAR-10's, of which each dialect has the same 25.
  static std::span<const SubPolicy> sub_policies();
  /// Whether the argument is negated with probability one half.
  bool is_signed(AugmentOp op) const;
  DrawnOp operation(AugmentOp op, std::int64_t magnitude, bool negative, std::int64_t height, std::int64_t width) const;

 private:
  AutoAugmentConfig config_;
  OpStyle style_;
};

/// As AutoAugment.
class TrivialAugment {
 public:
  explicit TrivialAugment(const TrivialAugmentConfig& config);

  /// One of torchvision_operations(), with one of 31 magnitudes.
  void apply(Image& image, const AugmentDraws& draws, OpScratch& scratch) const;
  DrawnOp draw(const AugmentDraws& draws) const;
  void run(const DrawnOp& drawn, Image& image, OpScratch& scratch) const {
    normlab::run(drawn, style_, image, scratch);
  }
  DrawnOp operation(AugmentOp op, std::int64_t magnitude, bool negative) const;

 private:
  TrivialAugmentConfig config_;
  OpStyle style_;
};

}  // namespace normlab
