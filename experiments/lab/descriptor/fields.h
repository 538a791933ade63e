// Field tables of a placement's parts.
#pragma once

#include <algorithm>
#include <array>
#include <tuple>
#include <variant>

#include "experiments/lab/descriptor/config.h"
#include "nn/model/sites.h"

namespace normlab {

/// A norm setting applies if its kind's row lists it.
template <auto kMember>
constexpr auto norm_field(std::string_view key, std::string_view doc, Range range = {}) {
  return field(key, kMember, doc, range)
      .when({[](const NormSpec& c) { return parts_of(c.kind).has(kMember); }, "a norm of kind {kind} has no {}"});
}
template <std::same_as<NormSpec> T>
constexpr auto rows_of(const T*) {
  return Fields{
      field("kind", &T::kind, "kind of norm"),
      norm_field<&T::eps>(
          "eps",
          "added under the square root; 1e-6, in a Swin and for batch_norm, prep_bn, group_norm and instance_norm 1e-5; "
          "whiten: to the variances, 1e-5",
          kPositive),
      norm_field<&T::momentum>("momentum", "batch_norm, prep_bn: weight of the new value in the running statistics",
                               kShare),
      norm_field<&T::statistics_batch>(
          "statistics_batch",
          "batch_norm, prep_bn: images that each statistic covers; 0: the batch, with train.accumulate each part of it",
          kFromZero),
      norm_field<&T::running>(
          "running",
          "batch_norm, prep_bn: what moves the running statistics; all_groups: once a step, the mean of the statistics "
          "of all groups, weighted by their images; first_group: the first group of each part; first_group_of_step: once a step, the first group of the first "
          "part, as rank 0 of a distributed training"),
      norm_field<&T::alpha_init>(
          "alpha_init",
          "initial value of alpha; 0.5 for dyt, derf and pointwise, 1 for seednorm, 2 for bhyt; for dyisru, where 0 is "
          "the site's width, it must not be negative"),
      norm_field<&T::beta_init>("beta_init", "initial value of beta"),
      norm_field<&T::groups>("groups", "group_norm: groups of adjacent channels; must divide the site's width",
                             kFromOne),
      norm_field<&T::phi>("phi", "pointwise: the bounded function"),
      norm_field<&T::shift>("shift", "pointwise: a learnable shift of the function's argument"),
      norm_field<&T::kappa>("kappa", "bhyt: what the argument of the tanh is divided by", kPositive),
      norm_field<&T::gamma_init>("gamma_init", "l2, gated_norm: initial value of gamma"),
      norm_field<&T::rank>("rank", "gated_norm: width between the two matrices of the gate",
                           limits::sizes(limits::kWidth)),
      norm_field<&T::decay_share>(
          "decay_share", "prep_bn: share of the training over which the weight of the layer norm falls from 1 to 0",
          kOpenShare),
      norm_field<&T::sample>(
          "sample", "whiten: training images, evenly spaced in the slice, whose patches give mean and covariance",
          kFromOne)};
}
inline NormSpec defaults_beside(const NormSpec& spec) { return norm_of(spec.kind); }

/// "big_vision + qkv=xavier_fused".
inline std::string init_text(const InitConfig& init) {
  std::string out(word_of(init.base));
  for_each_field<InitConfig>([&](const auto& row) {
    auto part = init.*row.member;
    if (row.key == "base" || part == InitConfig{}.*row.member) return;
    out += concat(" + ", row.key, "=");
    if constexpr (std::is_enum_v<decltype(part)>)
      out += word_of(part);
    else
      out += value_text(part);
  });
  return out;
}
/// "0.1", or "hidden 0.1, mlp 0.1".
inline std::string dropout_text(const DropoutRates& rates) {
  if (rates.equal()) return value_text(rates.stem);
  std::string out;
  for_each_field<DropoutRates>([&](const auto& row) {
    if (const double rate = rates.*row.member; rate > 0)
      out += concat(out.empty() ? "" : ", ", row.key, " ", value_text(rate));
  });
  return out;
}

/// Fields for the rows of kSites whose norms are members of T.
template <class T>
constexpr auto site_fields() {
  constexpr auto holds = [](const SiteRow& row) { return std::holds_alternative<NormSpec T::*>(row.member); };
  std::array<Field<T, NormSpec>, std::size_t(std::count_if(kSites.begin(), kSites.end(), holds))> out{};
  auto next = out.begin();
  for (const SiteRow& row : kSites)
    if (holds(row))
      *next++ = field(row.path.substr(row.path.rfind('.') + 1), std::get<NormSpec T::*>(row.member), row.doc);
  return std::apply([](const auto&... each) { return Fields{each...}; }, out);
}
template <std::same_as<StemSites> T>
constexpr auto rows_of(const T*) {
  return site_fields<T>() + Fields{field("posembed_out_includes_class", &T::posembed_out_includes_class,
                                         "posembed_out normalizes the class token, too")
                                       .when({[](const T& c) { return c.posembed_out.kind != NormKind::none; },
                                              "there is no norm at posembed_out"})};
}
template <std::same_as<AttentionSites> T>
constexpr auto rows_of(const T*) {
  return site_fields<T>() +
         Fields{field("exclude_self", &T::exclude_self, "each head loses its part along the token's own value")};
}
template <std::same_as<MlpSites> T>
constexpr auto rows_of(const T*) {
  return site_fields<T>();
}

// The key in "blocks" gives the range.
template <std::same_as<BlockRange> T>
constexpr auto rows_of(const T*) {
  return Fields{field("attn", &T::attn, "sites of the attention branch, as changes to those of all blocks"),
                field("mlp", &T::mlp, "sites of the MLP branch, as changes to those of all blocks")};
}

// The reader handles `init`, a number or "auto", separately.
template <std::same_as<LayerScale> T>
constexpr auto rows_of(const T*) {
  return Fields{field("kind", &T::kind, "one gain per channel, or one scalar per branch")};
}

// The reader handles "blocks" separately, since it depends on the other sites.
template <std::same_as<Placement> T>
constexpr auto rows_of(const T*) {
  return Fields{field("stem", &T::stem, "sites of the stem"), field("attn", &T::attn, "sites of the attention branch"),
                field("mlp", &T::mlp, "sites of the MLP branch")} +
         site_fields<T>() +
         Fields{
             field("head_scale", &T::head_scale, "a learned gain per head"),
             field(
                 "attn_gate", &T::attn_gate,
                 "the joined heads are multiplied by sigmoid(gate(h)), where h is the input of q, k and v: one gate per "
                 "head, or per channel"),
             field(
                 "attn_scale", &T::attn_scale,
                 "what q k^T is multiplied by: 1 / sqrt(d), or a learned number per head, 10 at the start and at most 100"),
             field("residual_scale", &T::residual_scale, "a learned gain per channel on the shortcut of the MLP"),
             field("layer_scale", &T::layer_scale, "a learned gain on both branches"),
             field(
                 "init_gain", &T::init_gain,
                 "multiplies the random initial values of v, out, fc1, fc2 and fc3; sub_ln: sqrt(log(2 depth)); deepnorm: (8 "
                 "depth)^(-1/4)"),
             field("qk_per_head", &T::qk_per_head,
                   "the norms at query and key see one head at a time and share their parameters"),
             field("value_per_head", &T::value_per_head,
                   "the norm at value sees one head at a time and shares its parameters"),
             field("depth_scale", &T::depth_scale,
                   "rsqrt: both pre norms of block l, counted from 1, are divided by sqrt(l)"),
             field("residual_factor", &T::residual_factor,
                   "multiplies the shortcut of both branches; deepnorm: (2 depth)^(1/4); keel: 2 depth"),
             field("stream_norm", &T::stream_norm,
                   "a norm, as in siamese_norm: there are two residual streams, with this norm on their sum "
                   "before each branch and on each at the end")};
}

}  // namespace normlab
