#include "experiments/lab/weights/model_names.h"

#include <doctest/doctest.h>

#include "nn/model/vit.h"

using namespace normlab;

namespace {

std::string said(NameScheme scheme, const ModelConfig& config) {
  std::string text;
  for (const SchemeProblem& problem : scheme_problems(scheme, config)) text += problem.what + "\n";
  return text;
}

ViTConfig flax_like() {
  ViTConfig config;
  config.gelu = GeluForm::tanh;
  config.placement = find_placement("pre_pre")->placement;
  return config;
}

}  // namespace

TEST_CASE("model_names: timm and Big Vision have names for pre_pre") {
  const ViTConfig config = flax_like();
  CHECK(said(NameScheme::timm, config) == "");
  CHECK(said(NameScheme::big_vision, config) == "");
}

TEST_CASE("model_names: placements that other programs lack are refused there alone") {
  ViTConfig config = flax_like();
  for (const char* row : {"post_post", "pre_respost", "bn_extra"}) {
    CAPTURE(row);
    config.placement = find_placement(row)->placement;
    CHECK(said(NameScheme::normlab, config) == "");
    CHECK(said(NameScheme::timm, config) != "");
    CHECK(said(NameScheme::big_vision, config) != "");
  }
}

TEST_CASE("model_names: a part that a scheme has no place for is named by its site") {
  ViTConfig config = flax_like();
  config.placement = find_placement("bn_extra")->placement;
  CHECK(said(NameScheme::timm, config).find("attn.value: timm has no norm there (it is batch_norm)") == 0);
  config = flax_like();
  config.placement.head_scale = HeadScale::before_proj;
  config.placement.layer_scale.kind = LayerScaleKind::scalar;
  config.rep_size = 8;
  CHECK(said(NameScheme::timm, config) ==
        "head_scale: timm has none\nlayer_scale: is one scalar per branch, but one gain per channel in timm\n"
        "rep_size: timm has none\n");
  config = flax_like();
  config.placement.final.kind = NormKind::affine;
  CHECK(said(NameScheme::timm, config).find("final: is affine") == 0);
}

TEST_CASE("model_names: a Swin has names in timm alone") {
  SwinConfig swin;
  swin.window = 4;  // divides the grid of 8 x 8
  swin.placement = swin_placement(find_placement("pre_pre")->placement);
  CHECK(said(NameScheme::timm, swin) == "");
  CHECK(scheme_advice(NameScheme::timm, swin).empty());  // epsilon 1e-5 is timm's for a Swin
  CHECK(said(NameScheme::augreg, swin) == "kind: is swin, which AugReg does not have\n");
}

TEST_CASE("model_names: timm's Swin has no norm in its MLP and no layer scale") {
  SwinConfig swin;
  swin.window = 4;
  swin.placement = swin_placement(find_placement("pre_pre")->placement);
  swin.placement.layer_scale.kind = LayerScaleKind::channel;
  swin.placement.mlp.hidden = norm_of(NormKind::batch_norm);
  CHECK(said(NameScheme::timm, swin) ==
        "mlp.hidden: timm has no norm there (it is batch_norm)\nlayer_scale: timm has none\n");
}

TEST_CASE("model_names: timm pads Swin's grids after the shift and has windows of two sides") {
  SwinConfig swin;
  swin.placement = swin_placement(find_placement("pre_pre")->placement);
  swin.depths = {2};
  swin.num_heads = {3};  // 8 x 8 tokens in windows of 7
  CHECK(said(NameScheme::timm, swin) ==
        "window_padding: is before_shift, but timm pads after the shift, so that opposite edges see each other: "
        "after_shift\n");
  CHECK(said(NameScheme::normlab, swin) == "");
  swin.window_padding = WindowPadding::after_shift;
  CHECK(said(NameScheme::timm, swin) == "");
  swin.image_size = {56, 56};
  swin.window_padding = WindowPadding::before_shift;
  CHECK(said(NameScheme::timm, swin) == "");
  swin.image_size = {20, 56};  // 5 x 14
  swin.window_padding = WindowPadding::after_shift;
  CHECK(said(NameScheme::timm, swin) == "window: is 5x5 on a grid of 5x14, but 5x7 in timm\n");
}

TEST_CASE("model_names: Flax's fixed choices are required") {
  ViTConfig config = flax_like();
  config.gelu = GeluForm::erf;
  CHECK(said(NameScheme::big_vision, config).find("gelu: is erf, but tanh in Big Vision") == 0);
  config = flax_like();
  config.placement.attn.pre.eps = 1e-5;
  CHECK(said(NameScheme::augreg, config) == "attn.pre: eps is 1e-05, but 1e-06 in AugReg\n");
  config = flax_like();
  config.placement.mlp.pre = norm_of(NormKind::rms_norm);
  CHECK(said(NameScheme::big_vision, config) == "mlp.pre: is rms_norm, but layer_norm in Big Vision\n");
  config = flax_like();
  config.qkv_bias = false;
  CHECK(said(NameScheme::big_vision, config).find("qkv_bias") == 0);
  config = flax_like();
  config.pool = Pool::token;
  CHECK(said(NameScheme::big_vision, config) == "");
  CHECK(said(NameScheme::augreg, config).find("pos_embed_class") == 0);
}

TEST_CASE("model_names: a tensor is linked with its name and shape in timm") {
  ViTConfig config = flax_like();
  config.depth = 11;
  ParameterSet set;
  const ViT vit(set, config);
  const std::vector<TensorLink> links = link_tensors(NameScheme::timm, config, set);
  const auto find = [&](const std::string& ours) {
    for (const TensorLink& link : links)
      if (link.ours == ours) return link;
    return TensorLink{};
  };
  CHECK(find("blocks.10.attn.k.weight").theirs == "blocks.10.attn.qkv.weight");
  CHECK(find("blocks.10.attn.k.weight").their_shape == std::vector<std::uint64_t>{3 * 192, 192});
  CHECK(find("blocks.1.mlp.pre.gamma").theirs == "blocks.1.norm2.weight");
  CHECK(find("final.beta").theirs == "norm.bias");
  CHECK(find("patch_embed.weight").their_shape == std::vector<std::uint64_t>{192, 3, 4, 4});
  CHECK(find("head.bias").theirs == "head.bias");
}

TEST_CASE("model_names: values are reordered by the layout and back") {
  TensorLink link;
  link.rows = 2;
  link.columns = 6;
  const std::vector<float> ours{0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15};
  const auto moved = [&] {
    std::vector<float> theirs(std::size_t(link.size() * link.parts), -1), back(ours.size());
    link.to_theirs(ours.data(), theirs.data());
    link.to_ours(theirs.data(), back.data());
    CHECK(back == ours);
    return theirs;
  };
  CHECK(moved() == ours);
  link.order = ValueOrder::transposed;
  CHECK(moved() == std::vector<float>{0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15});
  link.order = ValueOrder::convolution;  // two pixels of three channels
  link.channels = 3;
  CHECK(moved() == std::vector<float>{0, 3, 1, 4, 2, 5, 10, 13, 11, 14, 12, 15});
  link.order = ValueOrder::same;
  link.part = 1;
  link.parts = 2;
  CHECK(std::vector<float>(ours) == [&] {
    const std::vector<float> theirs = moved();
    return std::vector<float>(theirs.begin() + 12, theirs.end());
  }());
}
