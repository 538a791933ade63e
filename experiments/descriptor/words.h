// The words that stand for the values of an enum in a descriptor.
#pragma once

#include <array>
#include <string_view>
#include <type_traits>

#include "experiments/descriptor/config.h"

namespace normlab {

/// The words of an enum, in the order of its values.
template <class E>
constexpr auto words_of() {
  using namespace std::string_view_literals;
  if constexpr (std::is_same_v<E, NormKind>) {
    std::array<std::string_view, std::size(kNormKinds)> words;
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = kNormKinds[i].word;
    return words;
  } else if constexpr (std::is_same_v<E, HeadScale>)
    return std::array{"none"sv, "before_proj"sv, "after_proj"sv};
  else if constexpr (std::is_same_v<E, LayerScaleKind>)
    return std::array{"none"sv, "channel"sv, "scalar"sv};
  else if constexpr (std::is_same_v<E, ModelKind>)
    return std::array{"vit"sv, "swin"sv};
  else if constexpr (std::is_same_v<E, Pool>)
    return std::array{"token"sv, "gap"sv};
  else if constexpr (std::is_same_v<E, PosEmbed>)
    return std::array{"learned"sv, "sincos2d"sv};
  else if constexpr (std::is_same_v<E, Gelu>)
    return std::array{"erf"sv, "tanh"sv};
  else if constexpr (std::is_same_v<E, Init>)
    return std::array{"big_vision"sv, "timm"sv, "torch"sv, "timm_jax"sv, "deit"sv};
  else if constexpr (std::is_same_v<E, DatasetLayout>)
    return std::array{"known"sv, "webdataset"sv,    "cifar"sv,     "image_folder"sv,
                      "idx"sv,   "tiny_imagenet"sv, "image_list"sv};
  else if constexpr (std::is_same_v<E, SampleOrder>)
    return std::array{"shuffled"sv, "shards"sv};
  else if constexpr (std::is_same_v<E, OnBadImage>)
    return std::array{"fail"sv, "skip"sv};
  else if constexpr (std::is_same_v<E, ResizeMethod>)
    return std::array{"nearest"sv, "bilinear"sv, "bicubic"sv, "lanczos"sv, "bilinear_plain"sv, "area"sv, "random"sv};
  else if constexpr (std::is_same_v<E, CropName>)
    return std::array{"none"sv, "inception_tensorflow"sv, "inception_torchvision"sv, "stretch"sv, "center"sv};
  else if constexpr (std::is_same_v<E, RandAugmentDialect>)
    return std::array{"none"sv, "big_vision"sv, "torchvision"sv, "timm"sv};
  else if constexpr (std::is_same_v<E, ErasingDialect>)
    return std::array{"none"sv, "timm"sv, "torchvision"sv};
  else if constexpr (std::is_same_v<E, ErasingFill>)
    return std::array{"constant"sv, "color"sv, "pixel"sv};
  else if constexpr (std::is_same_v<E, MixDialect>)
    return std::array{"big_vision"sv, "torchvision"sv, "timm"sv};
  else if constexpr (std::is_same_v<E, MixScope>)
    return std::array{"batch"sv, "image"sv};
  else if constexpr (std::is_same_v<E, EvalCrop>)
    return std::array{"none"sv, "center"sv, "stretch"sv};
  else if constexpr (std::is_same_v<E, ResizeRounding>)
    return std::array{"torchvision"sv, "big_vision"sv};
  else if constexpr (std::is_same_v<E, OptimizerName>)
    return std::array{"adamw"sv, "sgd"sv, "big_vision_adam"sv, "momentum_hp"sv, "lamb"sv, "lion"sv};
  else if constexpr (std::is_same_v<E, MomentProduct>)
    return std::array{"wide"sv, "constant"sv, "rounded"sv};
  else if constexpr (std::is_same_v<E, ScheduleName>)
    return std::array{"constant"sv, "linear"sv, "cosine"sv, "rsqrt"sv, "polynomial"sv, "compound"sv};
  else if constexpr (std::is_same_v<E, Warmup>)
    return std::array{"lifted"sv, "line"sv};
  else if constexpr (std::is_same_v<E, DecayFrom>)
    return std::array{"warmup"sv, "start"sv};
  else if constexpr (std::is_same_v<E, ClipForm>)
    return std::array{"torch"sv, "optax"sv};
  else if constexpr (std::is_same_v<E, Smoothing>)
    return std::array{"all"sv, "others"sv};
  else if constexpr (std::is_same_v<E, KeepCheckpoint>)
    return std::array{"last"sv, "weights"sv, "none"sv};
  else if constexpr (std::is_same_v<E, Better>)
    return std::array{"inferred"sv, "max"sv, "min"sv};
  else if constexpr (std::is_same_v<E, LossName>)
    return std::array{"softmax"sv, "sigmoid"sv};
  else if constexpr (std::is_same_v<E, Precision>)
    return std::array{"fp32"sv, "bf16"sv, "bf16_emulated"sv, "tf32"sv};
}

template <class E>
std::string_view word_of(E value) {
  return words_of<E>()[std::size_t(value)];
}

}  // namespace normlab
