// Initial values. Each parameter is drawn from a stream with its own name, so that two networks with a common parameter
// initialise it alike. How it is drawn is an InitRule, which can be printed.
#pragma once

#include "core/random.h"
#include "nn/model/model_config.h"
#include "nn/model/parameters.h"

namespace normlab {

enum class Distribution : std::uint8_t { constant, uniform, normal, truncated_normal };

/// How the values of one parameter are drawn: gain times a draw from the distribution.
struct InitRule {
  Distribution distribution = Distribution::constant;
  double scale = 0.0;  // the constant; the bound a of uniform in [-a, a]; the deviation of a normal before its cut
  double cut = 0.0;    // truncated_normal: redrawn beyond this many deviations
  double gain = 1.0;   // InitGain, on v, proj, fc1, fc2 and fc3
  std::string_view source{};  // the rule behind the numbers, "" if they need none
  bool operator==(const InitRule&) const = default;
};

/// The rule of parameter number `parameter`; in a ViT it follows `config.init`. Fan-in and fan-out are the columns and
/// rows of a weight.
///   big_vision  "Better plain ViT baselines" and its code: Xavier uniform for each of q, k, v, proj and the MLP's;
///               LeCun's truncated normal (cut at two deviations, divided by 0.87962566 to compensate) for patches and
///               `rep`; MLP biases normal 1e-6; positions normal 1/sqrt(D); class token and head zero
///   timm        every linear layer truncated normal 0.02 (cut at +-2, as in PyTorch), biases zero; patches like
///               PyTorch's convolution; positions normal 0.02, class token normal 1e-6
///   timm_jax    timm's weight_init "jax": like big_vision, but Xavier over the fused q, k and v, which has half the
///               variance of each separately; positions and class token as in timm
///   deit        like timm, but the class token is truncated normal 0.02
///   torch       PyTorch's modules unchanged: q, k, v Xavier over the fused projection; other linear layers and the
///               patches uniform 1/sqrt(fan_in) with their biases; biases of attention zero; positions normal 0.02;
///               class token zero
/// InitConfig's parts replace those of q, k and v, proj, the patches or the head. Head linear also draws its bias. qkv
/// linear with base torch also draws the
/// bias of proj, which only PyTorch's attention sets to zero.
/// With task segment, the head is truncated normal 0.02, cut at two deviations, and its bias zero (Segmenter).
/// Registers are normal 0.02 (DINOv3), with timm and timm_jax normal 1e-6.
/// For every initialiser: gamma and gains 1, alpha and beta from the site, the matrices of a gated_norm truncated normal
/// 0.02, cut at three deviations (marin's grug/moe, which follows the paper), LayerScale by its depth rule, head bias
/// `head_bias_init` if set, and `init_gain` on v, proj, fc1, fc2, fc3 if the placement has one. A Swin uses timm's rules,
/// with relative position biases drawn like the weights.
InitRule init_rule(const ParameterSet& parameters, int parameter, const ModelConfig& config);

/// Sets parts of config.init that repeat the code base or reach no parameter to `base`, so that networks that start
/// alike have equal settings.
void simplify_init(ViTConfig& config);

/// The stream that a parameter's values are drawn from.
inline StreamKey init_stream(std::uint64_t seed, std::string_view name) { return stream_key(seed, "init", name); }

/// Value number `i` of a parameter.
double initial_value(const InitRule& rule, const StreamKey& stream, std::uint64_t i);

void initialise(ParameterSet& parameters, const ModelConfig& config, std::uint64_t seed);

}  // namespace normlab
