#include "nn/model/sites.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>

#include "core/words.h"

using namespace normlab;

namespace {

/// Every site that is not none, and every gain, as text: "attn.pre=layer_norm final=layer_norm".
std::string written_out(const Placement& placement) {
  std::string out;
  const auto add = [&](std::string_view what, std::string_view value) {
    if (!out.empty()) out += ' ';
    out.append(what).append(1, '=').append(value);
  };
  visit_sites(placement, [&](std::string_view site, const NormSpec& spec) {
    CHECK(spec == norm_of(spec.kind));  // no row of the table changes a setting
    if (spec.kind != NormKind::none) add(site, to_string(spec.kind));
  });
  if (placement.head_scale == HeadScale::before_proj) add("head_scale", "before_proj");
  if (placement.head_scale == HeadScale::after_proj) add("head_scale", "after_proj");
  if (placement.attn_gate != AttnGate::none) add("attn_gate", word_of(placement.attn_gate));
  if (placement.attn_scale != AttnScale::fixed) add("attn_scale", word_of(placement.attn_scale));
  if (placement.attn.exclude_self) add("attn.exclude_self", "true");
  if (placement.residual_scale) add("residual_scale", "true");
  if (placement.layer_scale == LayerScale{.kind = LayerScaleKind::channel}) add("layer_scale", "channel");
  if (placement.init_gain.rule != InitGainRule::number) add("init_gain", word_of(placement.init_gain.rule));
  if (!placement.qk_per_head) add("qk_per_head", "false");
  if (placement.value_per_head) add("value_per_head", "true");
  if (placement.depth_scale == DepthScale::rsqrt) add("depth_scale", "rsqrt");
  if (placement.residual_factor.rule != ResidualRule::number)
    add("residual_factor", word_of(placement.residual_factor.rule));
  if (placement.layer_scale.kind != LayerScaleKind::none && !placement.layer_scale.auto_init)
    add("layer_scale", concat("channel(", placement.layer_scale.init, ")"));
  if (placement.has_two_streams()) add("stream_norm", to_string(placement.stream_norm.kind));
  for (const BlockRange& range : placement.blocks) {
    const Placement alone{.attn = range.attn, .mlp = range.mlp};
    add(concat("blocks.", block_range_name(placement, range)), concat("(", written_out(alone), ")"));
  }
  return out;
}

// LN: layer_norm, BN: batch_norm; the sites in the order data meets them.
const std::map<std::string, std::string> kExpected = {
    {"pre_pre", "attn.pre=LN mlp.pre=LN final=LN"},
    {"pre_post", "attn.pre=LN mlp.post=LN final=LN"},
    {"pre_prepost", "attn.pre=LN mlp.pre=LN mlp.post=LN final=LN"},
    {"post_pre", "attn.post=LN mlp.pre=LN final=LN"},
    {"post_post", "attn.post=LN mlp.post=LN final=LN"},
    {"post_prepost", "attn.post=LN mlp.pre=LN mlp.post=LN final=LN"},
    {"prepost_pre", "attn.pre=LN attn.post=LN mlp.pre=LN final=LN"},
    {"prepost_post", "attn.pre=LN attn.post=LN mlp.post=LN final=LN"},
    {"prepost_prepost", "attn.pre=LN attn.post=LN mlp.pre=LN mlp.post=LN final=LN"},
    {"pre_respost", "attn.pre=LN mlp.out=LN final=LN"},
    {"pre_preres", "attn.pre=LN mlp.pre=LN mlp.out=LN final=LN"},
    {"respost_pre", "attn.out=LN mlp.pre=LN final=LN"},
    {"respost_respost", "attn.out=LN mlp.out=LN final=LN"},
    {"respost_preres", "attn.out=LN mlp.pre=LN mlp.out=LN final=LN"},
    {"preres_pre", "attn.pre=LN attn.out=LN mlp.pre=LN final=LN"},
    {"preres_respost", "attn.pre=LN attn.out=LN mlp.out=LN final=LN"},
    {"preres_preres", "attn.pre=LN attn.out=LN mlp.pre=LN mlp.out=LN final=LN"},
    {"post_post_no_final", "attn.post=LN mlp.post=LN"},
    {"normformer", "attn.pre=LN attn.out=LN mlp.pre=LN mlp.inner=LN final=LN"},
    {"normformer_full",
     "attn.pre=LN attn.out=LN mlp.pre=LN mlp.inner=LN final=LN head_scale=before_proj residual_scale=true"},
    {"normformer_head_scale_after_proj",
     "attn.pre=LN attn.out=LN mlp.pre=LN mlp.inner=LN final=LN head_scale=after_proj"},
    {"sub_ln", "attn.pre=LN attn.inner=LN mlp.pre=LN mlp.inner=LN final=LN init_gain=sub_ln"},
    {"sub_ln_preact", "attn.pre=LN attn.inner=LN mlp.pre=LN mlp.hidden=LN final=LN init_gain=sub_ln"},
    {"dpn", "stem.patch_in=LN stem.patch_out=LN attn.pre=LN mlp.pre=LN final=LN"},
    {"stem_pre", "stem.patch_in=LN attn.pre=LN mlp.pre=LN final=LN"},
    {"stem_post", "stem.patch_out=LN attn.pre=LN mlp.pre=LN final=LN"},
    {"stem_posembed", "stem.posembed_out=LN attn.pre=LN mlp.pre=LN final=LN"},
    {"dpn_only_learnable", "stem.patch_in=affine stem.patch_out=affine attn.pre=LN mlp.pre=LN final=LN"},
    {"dpn_rms_norm", "stem.patch_in=rms_norm stem.patch_out=rms_norm attn.pre=LN mlp.pre=LN final=LN"},
    {"dpn_no_learnable",
     "stem.patch_in=layer_norm_fixed stem.patch_out=layer_norm_fixed attn.pre=LN mlp.pre=LN final=LN"},
    {"bn", "attn.pre=BN mlp.pre=BN final=BN"},
    {"bn_ffnbn", "attn.pre=BN mlp.pre=BN mlp.hidden=BN final=BN"},
    {"bn_ffnbn_postact", "attn.pre=BN mlp.pre=BN mlp.inner=BN final=BN"},
    {"bn_ffnbn_respost", "attn.out=BN mlp.hidden=BN mlp.out=BN final=BN"},
    {"bn_ffnbn_preres", "attn.pre=BN attn.out=BN mlp.pre=BN mlp.hidden=BN mlp.out=BN final=BN"},
    {"bn_extra_attn", "attn.pre=BN attn.value=BN attn.out=BN mlp.pre=BN mlp.hidden=BN final=BN"},
    {"bn_extra", "attn.pre=BN attn.value=BN attn.out=BN mlp.pre=BN mlp.hidden=BN mlp.out=BN final=BN"},
    {"bn_plain_extra_attn", "attn.pre=BN attn.value=BN attn.out=BN mlp.pre=BN final=BN"},
    {"bn_plain_extra", "attn.pre=BN attn.value=BN attn.out=BN mlp.pre=BN mlp.out=BN final=BN"},
    {"ln_extra_bn_attn", "attn.pre=LN attn.value=BN attn.out=BN mlp.pre=LN final=LN"},
    {"ln_extra_bn", "attn.pre=LN attn.value=BN attn.out=BN mlp.pre=LN mlp.hidden=BN mlp.out=BN final=LN"},
    {"dyt", "attn.pre=dyt mlp.pre=dyt final=dyt"},
    {"rms_norm", "attn.pre=rms_norm mlp.pre=rms_norm final=rms_norm"},
    {"layer_scale", "attn.pre=LN mlp.pre=LN final=LN layer_scale=channel"},
    {"group_norm", "attn.pre=group_norm mlp.pre=group_norm final=group_norm"},
    {"instance_norm", "attn.pre=instance_norm mlp.pre=instance_norm final=LN"},
    {"peri_ln", "stem.posembed_out=LN attn.pre=LN attn.out=LN mlp.pre=LN mlp.out=LN final=LN"},
    {"olmo2",
     "attn.query=rms_norm attn.key=rms_norm attn.out=rms_norm mlp.out=rms_norm final=rms_norm qk_per_head=false"},
    {"mix_ln", "attn.pre=LN mlp.pre=LN final=LN blocks.0-25%=(attn.post=LN mlp.post=LN)"},
    {"hybridnorm",
     "attn.query=rms_norm attn.key=rms_norm attn.value=rms_norm attn.post=rms_norm final=rms_norm value_per_head=true"},
    {"hybridnorm_star",
     "attn.query=rms_norm attn.key=rms_norm attn.value=rms_norm attn.post=rms_norm final=rms_norm value_per_head=true "
     "blocks.0=(attn.pre=rms_norm attn.query=rms_norm attn.key=rms_norm attn.value=rms_norm mlp.pre=rms_norm)"},
    {"deepnorm", "attn.post=LN mlp.post=LN init_gain=deepnorm residual_factor=deepnorm"},
    {"keel", "attn.pre=LN attn.post=LN mlp.pre=LN mlp.post=LN final=LN residual_factor=keel"},
    {"gated_attention", "attn.pre=LN mlp.pre=LN final=LN attn_gate=channel"},
    {"siamese_norm", "attn.pre=LN attn.post=LN mlp.pre=LN mlp.post=LN final=LN stream_norm=LN"},
    {"lns", "attn.pre=LN mlp.pre=LN final=LN depth_scale=rsqrt"},
    {"derf", "attn.pre=derf mlp.pre=derf final=derf"},
    {"dyisru", "attn.pre=dyisru mlp.pre=dyisru final=dyisru"},
    {"seednorm", "attn.pre=seednorm mlp.pre=seednorm final=seednorm"},
    {"bhyt", "attn.pre=bhyt mlp.pre=bhyt final=bhyt"},
    {"vit5",
     "attn.pre=rms_norm attn.query=rms_norm attn.key=rms_norm mlp.pre=rms_norm final=rms_norm "
     "layer_scale=channel(0.0001)"},
    {"vit_lite", "attn.pre=LN attn.post=LN final=LN"},
    {"none", ""},
};

std::string spelt_out(std::string text) {
  for (const auto& [shorthand, word] : {std::pair{"=LN", "=layer_norm"}, std::pair{"=BN", "=batch_norm"}})
    for (std::size_t at = 0; (at = text.find(shorthand, at)) != std::string::npos; ++at) text.replace(at, 3, word);
  return text;
}

}  // namespace

TEST_CASE("placement: every row has the sites of the papers") {
  std::set<std::string> seen;
  for (const NamedPlacement& row : named_placements()) {
    const std::string name(row.name);
    CAPTURE(name);
    CHECK(seen.insert(name).second);
    CHECK_FALSE(row.source.empty());
    REQUIRE(kExpected.count(name) == 1);
    CHECK(written_out(row.placement) == spelt_out(kExpected.at(name)));
  }
  CHECK(seen.size() == kExpected.size());
}

TEST_CASE("placement: rows are found by name") {
  REQUIRE(find_placement("dpn") != nullptr);
  CHECK(find_placement("dpn")->name == "dpn");
  CHECK(find_placement("dpn ") == nullptr);
  CHECK(find_placement("") == nullptr);
}

TEST_CASE("placement: sites are visited in the order data meets them") {
  std::string order;
  const Placement placement;
  visit_sites(placement, [&](std::string_view site, const NormSpec&) { order.append(site).append(1, ' '); });
  CHECK(order ==
        "stem.patch_in stem.patch_out stem.posembed_out attn.pre attn.query attn.key attn.value attn.inner attn.out "
        "attn.post mlp.pre mlp.hidden mlp.inner mlp.out mlp.post merge final pooled ");
}

TEST_CASE("placement: LayerScale starts by the depth") {
  const LayerScale scale{.kind = LayerScaleKind::channel};
  CHECK(layer_scale_init(scale, 1) == 0.1);
  CHECK(layer_scale_init(scale, 18) == 0.1);
  CHECK(layer_scale_init(scale, 19) == 1e-5);
  CHECK(layer_scale_init(scale, 24) == 1e-5);
  CHECK(layer_scale_init(scale, 25) == 1e-6);
}

TEST_CASE("placement: a start value of LayerScale is used") {
  CHECK(layer_scale_init({LayerScaleKind::scalar, false, 0.0}, 12) == 0.0);
}

TEST_CASE("placement: the gain of Sub-LN follows the depth") {
  CHECK(init_gain({.rule = InitGainRule::sub_ln}, 12) == doctest::Approx(std::sqrt(std::log(24.0))));
}

TEST_CASE("placement: an initial gain is used") { CHECK(init_gain({.value = 0.5}, 12) == 0.5); }

TEST_CASE("placement: batch norm is seen at any site") {
  CHECK(uses_batch_norm(find_placement("ln_extra_bn_attn")->placement));
  CHECK_FALSE(uses_batch_norm(find_placement("prepost_prepost")->placement));
  Placement placement;
  CHECK_FALSE(uses_batch_norm(placement));
  placement.pooled = norm_of(NormKind::batch_norm);
  CHECK(uses_batch_norm(placement));
}

TEST_CASE("placement: epsilon follows the kind") {
  CHECK(norm_of(NormKind::layer_norm).eps == 1e-6);
  CHECK(norm_of(NormKind::rms_norm).eps == 1e-6);
  CHECK(norm_of(NormKind::batch_norm).eps == 1e-5);
}

TEST_CASE("placement: each kind has the row with its name") {
  REQUIRE(kNormKinds.size() == kWords<NormKind>.size() + 1);  // a formula's text takes the place of a word
  for (std::size_t k = 0; k < kWords<NormKind>.size(); ++k) CHECK(kNormKinds[k].word == kWords<NormKind>[k]);
}

TEST_CASE("placement: what a kind fixes is not read from a norm of that kind") {
  NormSpec spec{.kind = NormKind::derf, .beta_init = 3, .phi = PointwisePhi::atan, .shift = false};
  CHECK(applies(spec, PointwisePhi::erf));
  CHECK(has_shift(spec));
  CHECK(setting(spec, &NormSpec::beta_init) == 3);
  spec.kind = NormKind::dyt;
  CHECK(applies(spec, PointwisePhi::tanh));
  CHECK_FALSE(has_shift(spec));
  spec.kind = NormKind::pointwise;
  CHECK(applies(spec, PointwisePhi::atan));
  CHECK_FALSE(has_shift(spec));
  spec.kind = NormKind::layer_norm;
  CHECK_FALSE(applies(spec, PointwisePhi::tanh));
  CHECK_FALSE(has_shift(spec));
  CHECK(setting(spec, &NormSpec::beta_init) == 0);
}

TEST_CASE("placement: norms over a batch or an image make a token depend on others") {
  for (std::size_t k = 0; k < kWords<NormKind>.size(); ++k) {
    const std::string_view word = kWords<NormKind>[k];
    CAPTURE(word);
    const bool joins = word == "batch_norm" || word == "prep_bn" || word == "group_norm" || word == "instance_norm";
    CHECK(is_of_one_token(norm_of(NormKind(k))) == !joins);
  }
}

TEST_CASE("placement: a mean over tokens leaves nothing of a norm over each channel of an image") {
  NormSpec groups = norm_of(NormKind::group_norm);
  CHECK_FALSE(mean_is_bias(groups, 12));
  groups.groups = 12;
  CHECK(mean_is_bias(groups, 12));
  CHECK(mean_is_bias(norm_of(NormKind::instance_norm), 12));
  CHECK_FALSE(mean_is_bias({.kind = NormKind::layer_norm, .groups = 12}, 12));
}
