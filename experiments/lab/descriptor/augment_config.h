// Transforms of images between their files and the network.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.h"

namespace normlab {

/// Pillow's bilinear and bicubic widen when an image shrinks; bilinear_plain (no antialiasing) and area are
/// TensorFlow's; random draws bilinear or bicubic per image (timm).
enum class ResizeMethod : std::uint8_t { nearest, bilinear, bicubic, lanczos, bilinear_plain, area, random };
constexpr auto stated_words(ResizeMethod) {
  return words<ResizeMethod>("nearest", "bilinear", "bicubic", "lanczos", "bilinear_plain", "area", "random");
}

/// How a training image gets the model's size. pad: zeros around it, then a crop of its original size. inception_*: a
/// box of random area and aspect, resized. stretch: resized, ignoring the aspect. center: as in evaluation.
enum class CropName : std::uint8_t { none, inception_tensorflow, inception_torchvision, stretch, center };
constexpr auto stated_words(CropName) {
  return words<CropName>("none", "inception_tensorflow", "inception_torchvision", "stretch", "center");
}

enum class RandAugmentDialect : std::uint8_t { none, big_vision, torchvision, timm, ildoonee };
constexpr auto stated_words(RandAugmentDialect) {
  return words<RandAugmentDialect>("none", "big_vision", "torchvision", "timm", "ildoonee");
}

struct RandAugmentConfig {
  RandAugmentDialect dialect = RandAugmentDialect::none;
  std::int64_t layers = 2;
  double magnitude = 10;
  double magnitude_std = 0.0;
  double probability = 0.5;
  bool increasing = false;
  bool repaired = false;
  ResizeMethod interpolation = ResizeMethod::nearest;
  std::vector<std::int64_t> fill{};
  bool operator==(const RandAugmentConfig&) const = default;
};
template <std::same_as<RandAugmentConfig> T>
constexpr auto rows_of(const T*) {
  constexpr std::string_view kHasNone = "the dialect {dialect} has no {}";
  constexpr When<T> kDialect{[](const T& c) { return c.dialect != RandAugmentDialect::none; },
                             "without a dialect RandAugment is off"};
  constexpr When<T> kTimm{[](const T& c) { return c.dialect == RandAugmentDialect::timm; }, kHasNone};
  return Fields{
      field("dialect", &T::dialect, "implementation whose operations and levels are used; none: off"),
      field("layers", &T::layers, "operations per image", {.low = 0, .high = 100}).when(kDialect),
      field("magnitude", &T::magnitude,
            "strength: out of 10 (big_vision, timm) or 30 (ildoonee), or the index of one of 31 levels (torchvision)",
            kNotNegative)
          .when(kDialect),
      field("magnitude_std", &T::magnitude_std, "timm: standard deviation of the drawn magnitude", kNotNegative)
          .when(kDialect)
          .when(kTimm),
      field("probability", &T::probability, "timm: probability that a drawn operation is applied", kShare)
          .when(kDialect)
          .when(kTimm),
      field("increasing", &T::increasing, "timm's inc1: a higher level always changes an image more")
          .when(kDialect)
          .when(kTimm),
      field("repaired", &T::repaired, "big_vision: Contrast and Solarize as intended, not as released")
          .when(kDialect)
          .when({[](const T& c) { return c.dialect == RandAugmentDialect::big_vision; }, kHasNone}),
      field("interpolation", &T::interpolation, "torchvision, timm: interpolation of geometric operations")
          .when(kDialect)
          .when({[](const T& c) {
                   return c.dialect == RandAugmentDialect::torchvision || c.dialect == RandAugmentDialect::timm;
                 },
                 kHasNone}),
      field("fill", &T::fill, "pixel value outside the image, one per channel; the dialect's own if omitted",
            {.low = 0, .high = 255})
          .when(kDialect)};
}

enum class AutoAugmentDialect : std::uint8_t { none, deepvoltaire, torchvision };
constexpr auto stated_words(AutoAugmentDialect) {
  return words<AutoAugmentDialect>("none", "deepvoltaire", "torchvision");
}
enum class TrivialAugmentDialect : std::uint8_t { none, torchvision };
constexpr auto stated_words(TrivialAugmentDialect) { return words<TrivialAugmentDialect>("none", "torchvision"); }

/// A policy whose strength is given.
template <class Dialect>
struct FixedPolicyConfig {
  Dialect dialect = Dialect::none;
  ResizeMethod interpolation = ResizeMethod::nearest;
  std::vector<std::int64_t> fill{};
  bool operator==(const FixedPolicyConfig&) const = default;
};
template <class Dialect>
constexpr auto rows_of(const FixedPolicyConfig<Dialect>*) {
  using T = FixedPolicyConfig<Dialect>;
  constexpr When<T> kDialect{[](const T& c) { return c.dialect != Dialect::none; },
                             "without a dialect the policy is off"};
  return Fields{
      field("dialect", &T::dialect, "implementation whose operations and levels are used; none: off"),
      field("interpolation", &T::interpolation, "torchvision: interpolation of geometric operations")
          .when(kDialect)
          .when({[](const T& c) { return c.dialect == Dialect::torchvision; }, "the dialect {dialect} has no {}"}),
      field("fill", &T::fill, "pixel value outside the image, one per channel; the dialect's own if omitted",
            {.low = 0, .high = 255})
          .when(kDialect)};
}
using AutoAugmentConfig = FixedPolicyConfig<AutoAugmentDialect>;
using TrivialAugmentConfig = FixedPolicyConfig<TrivialAugmentDialect>;

struct PolicyProblem {
  std::string_view key;
  std::string what;
};

/// The first setting that the dialect does not support. torchvision's magnitude is an integer from 0 to 30;
/// big_vision's is at most 20 (where Posterize keeps all 8 bits), ildoonee's at most 30. Geometric operations are
/// nearest (torchvision), bilinear, bicubic, or a random choice of the latter two (timm, which must state its choice).
/// fill is three values.
std::optional<PolicyProblem> problem_of(const RandAugmentConfig& config);
std::optional<PolicyProblem> problem_of(const AutoAugmentConfig& config);
std::optional<PolicyProblem> problem_of(const TrivialAugmentConfig& config);

struct ColorJitterConfig {  // torchvision's: factors from [max(0, 1 - x), 1 + x], hue a share of the circle
  double brightness = 0.0, contrast = 0.0, saturation = 0.0, hue = 0.0;
  bool operator==(const ColorJitterConfig&) const = default;
};
template <std::same_as<ColorJitterConfig> T>
constexpr auto rows_of(const T*) {
  return Fields{
      field("brightness", &T::brightness, "factor drawn from [max(0, 1 - x), 1 + x]", kNotNegative),
      field("contrast", &T::contrast, "factor drawn from [max(0, 1 - x), 1 + x]", kNotNegative),
      field("saturation", &T::saturation, "factor drawn from [max(0, 1 - x), 1 + x]", kNotNegative),
      field("hue", &T::hue, "hue shift drawn from [-x, x], as a share of the colour circle", {.low = 0, .high = 0.5})};
}

enum class ErasingDialect : std::uint8_t { none, timm, torchvision };
constexpr auto stated_words(ErasingDialect) { return words<ErasingDialect>("none", "timm", "torchvision"); }

enum class ErasingFill : std::uint8_t { constant, color, pixel };  // timm's const, rand and pixel
constexpr auto stated_words(ErasingFill) { return words<ErasingFill>("constant", "color", "pixel"); }

struct ErasingConfig {
  ErasingDialect dialect = ErasingDialect::none;
  double probability = 0.25;
  ErasingFill fill = ErasingFill::constant;
  double value = 0.0;
  std::array<double, 2> area{0.02, 1.0 / 3};
  std::array<double, 2> aspect{0.3, 10.0 / 3};
  bool operator==(const ErasingConfig&) const = default;
};
template <std::same_as<ErasingConfig> T>
constexpr auto rows_of(const T*) {
  constexpr When<T> kDialect{[](const T& c) { return c.dialect != ErasingDialect::none; },
                             "without a dialect random erasing is off"};
  return Fields{field("dialect", &T::dialect, "implementation whose way of drawing the box is used; none: off"),
                field("probability", &T::probability, "probability that an image gets a box", kShare).when(kDialect),
                field("fill", &T::fill, "one value, one normal draw per channel, or one per pixel").when(kDialect),
                field("value", &T::value, "fill constant: the value, after normalisation")
                    .when(kDialect)
                    .when({[](const T& c) { return c.fill == ErasingFill::constant; }, "fill {fill} has no {}"}),
                field("area", &T::area, "smallest and largest share of the image's area", kOpenShare).when(kDialect),
                field("aspect", &T::aspect, "smallest and largest height / width", kPositive).when(kDialect)};
}

/// The partner is the previous image in the batch (big_vision, torchvision) or the image at the mirrored position
/// (timm). big_vision takes the larger of lambda and 1 - lambda.
enum class MixDialect : std::uint8_t { big_vision, torchvision, timm };
constexpr auto stated_words(MixDialect) { return words<MixDialect>("big_vision", "torchvision", "timm"); }

enum class MixScope : std::uint8_t { batch, image };
constexpr auto stated_words(MixScope) { return words<MixScope>("batch", "image"); }

struct MixConfig {
  double mixup = 0.0;   // parameter of Beta; 0: off
  double cutmix = 0.0;  // same
  MixDialect dialect = MixDialect::big_vision;
  MixScope scope = MixScope::batch;
  double probability = 1.0;
  double switch_probability = 0.5;
  std::int64_t off_epoch = 0;
  bool operator==(const MixConfig&) const = default;
};
template <std::same_as<MixConfig> T>
constexpr auto rows_of(const T*) {
  constexpr Range kBeta{
      .low = 0, .high = 1e6, .of_descriptors = true, .why = "with a parameter this large every lambda is one half"};
  constexpr When<T> kOn{[](const T& c) { return c.mixup > 0 || c.cutmix > 0; }, "neither mixup nor cutmix is on"};
  return Fields{field("mixup", &T::mixup, "parameter of the Beta distribution; 0: off", kBeta),
                field("cutmix", &T::cutmix, "parameter of the Beta distribution; 0: off", kBeta),
                field("dialect", &T::dialect, "implementation whose partner image and lambda are used").when(kOn),
                field("scope", &T::scope, "one lambda per batch, or one per image").when(kOn),
                field("probability", &T::probability, "probability that a batch (or image) is mixed", kShare).when(kOn),
                field("switch_probability", &T::switch_probability, "if both are on: probability of cutmix", kShare)
                    .when({[](const T& c) { return c.mixup > 0 && c.cutmix > 0; }, "mixup and cutmix are not both on"}),
                field("off_epoch", &T::off_epoch,
                      "number of epochs after which nothing is mixed; 0: images are mixed to the end", kFromZero)
                    .when(kOn)};
}

/// Of an image with its mask; see experiments/lab/data/segment_transform.h.
struct SegmentAugmentConfig {
  std::int64_t resize_to = 0, longest = 0;
  std::array<double, 2> scale{1.0, 1.0};
  double max_share = 1.0;
  bool photometric = false;
  bool operator==(const SegmentAugmentConfig&) const = default;
};
template <std::same_as<SegmentAugmentConfig> T>
constexpr auto rows_of(const T*) {
  constexpr Range kSide{.low = 0, .high = 1 << 16};  // pixels
  return Fields{
      field("resize_to", &T::resize_to, "pixels of the shorter side before scaling; 0: the model's longer side", kSide),
      field("longest", &T::longest, "most pixels of the longer side before scaling; 0: any number", kSide),
      field("scale", &T::scale, "smallest and largest drawn factor of both sides, before a crop of the model's size",
            {.low = 0, .high = 100, .low_open = true}),
      field("max_share", &T::max_share,
            "a crop is drawn again, up to ten times, if one class fills a larger share of it", kOpenShare),
      field("photometric", &T::photometric,
            "brightness, contrast, saturation and hue, each changed with probability one half")};
}

/// policy: randaugment, autoaugment or trivialaugment.
enum class AugmentStep : std::uint8_t { crop_padding, flip, policy };
constexpr auto stated_words(AugmentStep) { return words<AugmentStep>("crop_padding", "flip", "policy"); }

/// Each draw is keyed by (seed, epoch, image key).
struct AugmentConfig {
  std::int64_t crop_padding = 0;  // zeros (pixels) around the image, then a random crop of the original size
  CropName crop = CropName::none;
  std::array<double, 2> crop_area{0.08, 1.0};
  std::array<double, 2> crop_aspect{3.0 / 4, 4.0 / 3};
  ResizeMethod resize = ResizeMethod::bilinear;
  bool flip = false;
  RandAugmentConfig randaugment{};
  AutoAugmentConfig autoaugment{};
  TrivialAugmentConfig trivialaugment{};
  std::vector<AugmentStep> order{AugmentStep::crop_padding, AugmentStep::flip, AugmentStep::policy};
  ColorJitterConfig color_jitter{};
  ErasingConfig erasing{};
  MixConfig mix{};
  SegmentAugmentConfig segment{};
  std::int64_t repeats = 1;  // copies of an image in an epoch's order, whose length is fixed (repeated augmentation)
  bool operator==(const AugmentConfig&) const = default;
};

/// The policies that are on; more than one is an error.
inline std::vector<std::string_view> policies_of(const AugmentConfig& c) {
  std::vector<std::string_view> on;
  if (c.randaugment.dialect != RandAugmentDialect::none) on.push_back("randaugment");
  if (c.autoaugment.dialect != AutoAugmentDialect::none) on.push_back("autoaugment");
  if (c.trivialaugment.dialect != TrivialAugmentDialect::none) on.push_back("trivialaugment");
  return on;
}

template <std::same_as<AugmentConfig> T>
constexpr auto rows_of(const T*) {
  constexpr Range kSide{.low = 0, .high = 1 << 16};  // pixels
  constexpr std::string_view kHasNone = "crop {crop} has no {}";
  constexpr When<T> kInception{
      [](const T& c) { return c.crop == CropName::inception_tensorflow || c.crop == CropName::inception_torchvision; },
      kHasNone};
  return Fields{
      field("crop_padding", &T::crop_padding, "zeros around the image before a random crop", kSide),
      field("crop", &T::crop, "how an image is brought to the model's size; none: it already has it"),
      field("crop_area", &T::crop_area, "inception: smallest and largest share of the image's area", kOpenShare)
          .when(kInception),
      field("crop_aspect", &T::crop_aspect, "inception: smallest and largest width / height", kPositive)
          .when(kInception),
      field("resize", &T::resize, "interpolation when an image is resized")
          .when({[](const T& c) { return c.crop != CropName::none; }, kHasNone}),
      field("flip", &T::flip, "flip left-right with probability one half"),
      field("randaugment", &T::randaugment, "randomly drawn operations"),
      field("autoaugment", &T::autoaugment, "one of AutoAugment's 25 pairs of operations for CIFAR-10"),
      field("trivialaugment", &T::trivialaugment, "one operation of random strength"),
      field("order", &T::order, "order of these three steps; policy: the one of the three policies above")
          .when({[](const T& c) { return (c.crop_padding > 0) + c.flip + !policies_of(c).empty() > 1; },
                 "at most one of crop_padding, flip and a policy is on"}),
      field("color_jitter", &T::color_jitter, "torchvision's colour jitter, in random order"),
      field("erasing", &T::erasing, "blanks a random box, after normalisation"),
      field("mix", &T::mix, "mixes two images of a batch into one"),
      field("segment", &T::segment, "task segment: scaling, crop and distortion of an image with its mask"),
      field("repeats", &T::repeats, "how often an image appears in an epoch's order (repeated augmentation)", kAtOnce)};
}

/// How an evaluation image gets the model's size. center: resizes the shorter side to resize_to, or to size / crop_pct,
/// then crops the centre. stretch: resized, ignoring the aspect. stretch_center: both sides resized to what center would
/// give the shorter one, then the centre cropped, as Big Vision's few-shot evaluation does.
enum class EvalCrop : std::uint8_t { none, center, stretch, stretch_center };
constexpr auto stated_words(EvalCrop) { return words<EvalCrop>("none", "center", "stretch", "stretch_center"); }
constexpr bool cuts_centre(EvalCrop crop) { return crop == EvalCrop::center || crop == EvalCrop::stretch_center; }

enum class ResizeRounding : std::uint8_t { torchvision, big_vision };  // longer side and odd margins
constexpr auto stated_words(ResizeRounding) { return words<ResizeRounding>("torchvision", "big_vision"); }

struct EvalTransformConfig {
  EvalCrop crop = EvalCrop::none;
  double crop_pct = 0.875;
  std::int64_t resize_to = 0;  // shorter side in pixels; 0: by crop_pct
  ResizeMethod resize = ResizeMethod::bilinear;
  ResizeRounding rounding = ResizeRounding::torchvision;
  bool operator==(const EvalTransformConfig&) const = default;
};
template <std::same_as<EvalTransformConfig> T>
constexpr auto rows_of(const T*) {
  constexpr Range kSide{.low = 0, .high = 1 << 16};  // pixels
  constexpr std::string_view kHasNone = "crop {crop} has no {}";
  constexpr When<T> kCenter{[](const T& c) { return cuts_centre(c.crop); }, kHasNone};
  return Fields{
      field("crop", &T::crop, "how an evaluation image is brought to the model's size; none: it already has it"),
      field("crop_pct", &T::crop_pct, "center, stretch_center: the model's size / the resized shorter side", kOpenShare)
          .when(kCenter)
          .when({[](const T& c) { return c.resize_to == 0; }, "resize_to sets the size already"}),
      field("resize_to", &T::resize_to, "center, stretch_center: pixels of the resized shorter side; 0: from crop_pct",
            kSide)
          .when(kCenter),
      field("resize", &T::resize, "interpolation when an image is resized")
          .when({[](const T& c) { return c.crop != EvalCrop::none; }, kHasNone}),
      field("rounding", &T::rounding, "implementation whose rounding of the longer side and odd margins is used")
          .when(kCenter)};
}

}  // namespace normlab
