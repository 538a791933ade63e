// Initial values. Each parameter is drawn from a stream of its own name, so two networks that share a parameter start
// it alike, whatever else they have.
#pragma once

#include "nn/parameters.h"
#include "nn/vit_config.h"

namespace normlab {

/// Fills every parameter of a ViT by `config.init`:
///   big_vision  "Better plain ViT baselines" and its code: Xavier-uniform q, k, v, proj, fc1, fc2 each on its own,
///   LeCun truncated normal
///               patches (divided by 0.87962566, which makes up for the cut at two deviations) and `rep`, MLP biases
///               normal 1e-6, positions normal 1/sqrt(D), zero class token and head
///   timm        every linear truncated normal 0.02 (cut at +-2, PyTorch's way), biases zero, positions the same, class
///   token normal 1e-6, patches as
///               PyTorch's convolution
///   torch       PyTorch's modules as they come: q, k, v uniform sqrt(3 / (2 D)) from the fused projection, other
///   linears and the patches uniform
///               1/sqrt(fan_in) with their biases, attention biases zero, positions normal 0.02, zero class token
/// then gamma 1, beta and alpha as the site says, LayerScale by its depth rule, other gains 1, head bias
/// `head_bias_init`, and `init_gain` on v, proj, fc1, fc2 where the placement has one.
void initialise(ParameterSet& parameters, const ViTConfig& config, std::uint64_t seed);

}  // namespace normlab
