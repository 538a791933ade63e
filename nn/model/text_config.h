// The settings of a text tower. The field names are the JSON keys of a descriptor's "model.text".
#pragma once

#include <cstdint>

#include "core/field.h"
#include "nn/model/activation.h"
#include "nn/model/limits.h"
#include "nn/model/placement.h"

namespace normlab {

inline constexpr Range kVocabularies = limits::sizes(limits::kClasses, 2);

/// A Transformer over words, as in LiT ("LiT: Zero-Shot Transfer with Locked-image text Tuning", Zhai et al. 2021):
/// learned positions, the blocks of a ViT, and a linear layer from the last token to the width of the images' features.
struct TextConfig {
  std::int64_t vocabulary = 257;  // rows of the table
  std::int64_t length = 16;       // tokens
  std::int64_t embed_dim = 512;
  std::int64_t depth = 12;
  std::int64_t num_heads = 8;
  std::int64_t mlp_dim = 2048;
  ActivationConfig activation{};
  MlpForm mlp = MlpForm::plain;
  double temperature = 10;  // exp(t) at the start
  double bias = -2.71;
  Placement placement = find_placement("pre_pre")->placement;

  bool operator==(const TextConfig&) const = default;
};
template <std::same_as<TextConfig> T>
constexpr auto rows_of(const T*) {
  return Fields{
      field("vocabulary", &T::vocabulary, "words that the tower can tell apart, the end mark included; 257 for bytes",
            kVocabularies),
      field("length", &T::length, "tokens of a text; the last one is always the end mark, and longer texts are cut",
            {.low = 2, .high = 1 << 16}),
      field("embed_dim", &T::embed_dim, "width of a token", limits::sizes(limits::kWidth)),
      field("depth", &T::depth, "number of blocks", limits::sizes(limits::kDepth)),
      field("num_heads", &T::num_heads, "attention heads", limits::sizes(limits::kWidth)),
      field("mlp_dim", &T::mlp_dim, "width of the hidden layer", limits::sizes(limits::kMlp)),
      field("activation", &T::activation, kActivationDoc),
      field("mlp", &T::mlp, kMlpDoc),
      field("temperature", &T::temperature, "initial factor of the cosines, which is learned", kPositive),
      field("bias", &T::bias, "initial value of the bias, which is learned; only the sigmoid loss has one"),
      field("placement", &T::placement,
            "the name of a placement, or its sites, of the text tower; stem.patch_in does not exist")};
}
inline TextConfig defaults_beside(const TextConfig& text) { return {.activation = default_activation(text.mlp)}; }

}  // namespace normlab
