// Initial values. Each parameter is drawn from a stream of its own name, so two networks that share a parameter start
// it alike, whatever else they have. How it is drawn is an InitRule, which can be printed.
#pragma once

#include "core/random.h"
#include "nn/model_config.h"
#include "nn/parameters.h"

namespace normlab {

enum class Distribution : std::uint8_t { constant, uniform, normal, truncated_normal };

/// How every value of one parameter is drawn: gain times a draw from the distribution.
struct InitRule {
  Distribution distribution = Distribution::constant;
  double scale = 0.0;  // the constant; the bound a of uniform in [-a, a]; the deviation of a normal before its cut
  double cut = 0.0;    // truncated_normal: redrawn beyond so many deviations
  double gain = 1.0;   // InitGain, on v, proj, fc1 and fc2
  std::string_view source{};  // the rule that the numbers come from, "" where they speak for themselves
  bool operator==(const InitRule&) const = default;
};

/// The rule of parameter number `parameter`, in a ViT by `config.init`. Fan-in and fan-out are the columns and rows of
/// a weight.
///   big_vision  "Better plain ViT baselines" and its code: Xavier-uniform q, k, v, proj, fc1, fc2, each on its own;
///               LeCun's truncated normal (cut at two deviations, divided by 0.87962566 to make up for it) patches and
///               `rep`; MLP biases normal 1e-6; positions normal 1/sqrt(D); zero class token and head
///   timm        every linear truncated normal 0.02 (cut at +-2, PyTorch's way), biases zero; patches as PyTorch's
///               convolution; positions normal 0.02, class token normal 1e-6
///   timm_jax    timm's weight_init "jax": as big_vision, but Xavier over the fused q, k and v, half the variance of
///               each on its own; positions and class token as in timm
///   deit        as timm, with the class token drawn like the positions
///   torch       PyTorch's modules as they come: q, k, v Xavier over the fused projection; other linears and the
///               patches uniform 1/sqrt(fan_in) with their biases; attention's biases zero; positions normal 0.02, zero
///               class token
/// Whatever the initialiser: gamma and gains 1, alpha and beta as the site says, LayerScale by its depth rule, head
/// bias `head_bias_init` where it is set, and `init_gain` on v, proj, fc1, fc2 where the placement has one.
/// A Swin has timm's rules, its relative position biases drawn as the weights are.
InitRule init_rule(const ParameterSet& parameters, int parameter, const ModelConfig& config);

/// The stream that a parameter's values are drawn from.
inline StreamKey init_stream(std::uint64_t seed, std::string_view name) { return stream_key(seed, "init", name); }

/// Value number `i` of a parameter.
double initial_value(const InitRule& rule, const StreamKey& stream, std::uint64_t i);

/// Fills every parameter by its rule.
void initialise(ParameterSet& parameters, const ModelConfig& config, std::uint64_t seed);

}  // namespace normlab
