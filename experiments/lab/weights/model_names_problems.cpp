// What the names of another program do not express: missing sites, different maths.
#include <algorithm>

#include "core/error.h"
#include "experiments/lab/weights/model_name_tables.h"

namespace normlab {
namespace {

using namespace name_tables;

bool has_row(std::span<const NameRow> rows, std::string_view site) {
  const std::string end = "." + std::string(site);
  return std::any_of(rows.begin(), rows.end(),
                     [&](const NameRow& row) { return row.ours == site || row.ours.ends_with(end); });
}

}  // namespace

std::vector<SchemeProblem> scheme_problems(NameScheme scheme, const ModelConfig& config) {
  std::vector<SchemeProblem> problems;
  if (scheme == NameScheme::normlab) return problems;
  using Kind = SchemeProblem::Kind;
  const SchemeTable& table = table_of(scheme);
  const std::span<const NameRow> rows = names_of(table, config).rows;
  const Placement& placement = placement_of(config);
  const auto report = [&](Kind kind, const auto&... parts) { problems.push_back({kind, concat(parts...)}); };
  if (rows.empty()) {
    report(Kind::maths, "kind: is swin, which ", table.program, " does not have");
    return problems;
  }

  visit_sites(placement, [&](std::string_view site, const NormSpec& spec) {
    if (spec.kind == NormKind::none) return;
    if (!has_row(rows, site))
      report(Kind::place, site, ": ", table.program, " has no norm there (it is ", to_string(spec.kind), ")");
    else if (spec.formula != nullptr)
      report(Kind::maths, site, ": is a formula, which ", table.program, " has no module for");
    else if (stored_as_npz(scheme) && spec.kind != NormKind::layer_norm)
      report(Kind::maths, site, ": is ", to_string(spec.kind), ", but layer_norm in ", table.program);
    else if (spec.kind == NormKind::affine)
      report(Kind::maths, site, ": is affine, which ", table.program, " lacks; its module of this name normalizes");
    else if (parts_of(spec.kind).inner > 0)
      report(Kind::maths, site, ": is ", to_string(spec.kind), ", which ", table.program, " has no module for");
    else if (has_shift(spec))
      report(Kind::maths, site, ": is ", to_string(spec.kind), ", whose shift has no name in ", table.program);
    else if (stored_as_npz(scheme) && spec.eps != norm_of(NormKind::layer_norm).eps)
      report(Kind::setting, site, ": eps is ", spec.eps, ", but 1e-06 in ", table.program);
  });
  const auto lacks = [&](bool there, std::string_view row, std::string_view what) {
    if (there && !has_row(rows, row)) report(Kind::place, what, ": ", table.program, " has none");
  };
  lacks(placement.head_scale != HeadScale::none, "head_scale", "head_scale");
  lacks(placement.attn_gate != AttnGate::none, "attn.gate", "attn_gate");
  lacks(placement.attn_scale != AttnScale::fixed, "attn.logit_scale", "attn_scale");
  lacks(placement.residual_scale, "residual_scale", "residual_scale");
  lacks(placement.layer_scale.kind != LayerScaleKind::none, "layer_scale", "layer_scale");
  const ActivationConfig& activation = network(config).activation;
  lacks(network(config).mlp == MlpForm::gated, "mlp.fc3", "mlp.fc3 (mlp is gated)");
  if (activation.formula)
    report(Kind::maths, "activation: is a formula, which ", table.program, " has no module for");
  else if (stored_as_npz(scheme) && activation.kind != ActivationKind::gelu)
    report(Kind::maths, "activation: is ", word_of(activation.kind), ", but gelu in ", table.program);
  if (placement.layer_scale.kind == LayerScaleKind::scalar && has_row(rows, "layer_scale"))
    report(Kind::maths, "layer_scale: is one scalar per branch, but one gain per channel in ", table.program);
  if (has_row(rows, "attn.gate") && placement.attn_gate == AttnGate::head)
    report(Kind::maths, "attn_gate: is of each head, but of each channel in ", table.program);
  if (has_row(rows, "attn.gate") && placement.attn_gate != AttnGate::none &&
      placement.attn.inner.kind != NormKind::none)
    report(Kind::maths, "attn_gate: precedes the norm at attn.inner, but follows it in ", table.program);
  if (excludes_self(placement))
    report(Kind::maths, "attn.exclude_self: is set, but heads keep all parts in ", table.program);
  if (placement.depth_scale != DepthScale::none)
    report(Kind::maths, "depth_scale: is set, but ", table.program, " does not scale norms by depth");
  if (placement.has_two_streams())
    report(Kind::maths, "stream_norm: is set, but ", table.program, " has one residual stream");
  if (placement.residual_factor != ResidualFactor{})
    report(Kind::maths, "residual_factor: is set, but ", table.program, " has no factor on the shortcut");
  if (!placement.qk_per_head && has_row(rows, "attn.query"))
    report(Kind::maths, "qk_per_head: is false, but these norms see one head in ", table.program);
  if (!placement.blocks.empty())
    report(Kind::maths, "blocks: the norms differ between blocks, but are the same in all blocks of ", table.program);
  if (const auto* swin = std::get_if<SwinConfig>(&config)) {
    if (swin->reduction_bias)
      report(Kind::maths, "reduction_bias: is true, but a reduction has no bias in ", table.program);
    if (swin->window_padding == WindowPadding::before_shift && pads_shifted(*swin))
      report(Kind::maths, "window_padding: is before_shift, but ", table.program,
             " pads after the shift, so that opposite edges see each other: after_shift");
    if (swin->one_side_unshifted)
      report(Kind::maths, "window: grids with one side of at most a window are not shifted, but they are in ",
             table.program);
    for (const SwinStage& s : swin_stages(*swin)) {
      const std::int64_t down = std::min(swin->window, s.height), across = std::min(swin->window, s.width);
      if (down != across)
        report(Kind::maths, "window: is ", s.window, "x", s.window, " on a grid of ", s.height, "x", s.width, ", but ",
               down, "x", across, " in ", table.program);
    }
  }
  const auto* vit = std::get_if<ViTConfig>(&config);
  if (vit == nullptr) return problems;

  lacks(vit->rep_size > 0, "rep", "rep_size");
  lacks(vit->distill_token, "dist_token", "distill_token");
  lacks(vit->registers > 0, "reg_token", "registers");
  if (vit->rotary.given() && stored_as_npz(scheme))
    report(Kind::maths, "rotary: is ", word_of(vit->rotary.dialect), ", but ", table.program, " turns no tokens");
  if (vit->rotary.given() && !stored_as_npz(scheme)) {
    if (vit->rotary.register_base > 0)
      report(Kind::maths, "rotary.register_base: is set, but ", table.program, " does not turn registers");
    if (activation != default_activation(vit->mlp) || (has_gelu(*vit) && vit->gelu != GeluForm::erf))
      report(Kind::maths, "activation: networks of ", table.program,
             " with rotary positions have gelu (erf), or silu in ", "a gated MLP");
  }
  if (vit->pos_embed == PosEmbed::none && stored_as_npz(scheme))
    report(Kind::maths, "pos_embed: is none, but ", table.program, " adds positions");
  const bool bypassed = placement.stem.posembed_out.kind != NormKind::none && vit->pool == Pool::token &&
                        !placement.stem.posembed_out_includes_class;
  if (bypassed && has_row(rows, "stem.posembed_out"))
    report(Kind::maths, "stem.posembed_out: does not normalize the class token, but does so in ", table.program);
  if (!stored_as_npz(scheme)) return problems;
  if (!vit->qkv_bias) report(Kind::maths, "qkv_bias: is false, but always true in ", table.program);
  if (activation.kind == ActivationKind::gelu && vit->gelu != GeluForm::tanh)
    report(Kind::setting, "gelu: is erf, but tanh in ", table.program, "; set \"gelu\": \"tanh\" if that was intended");
  if (scheme == NameScheme::augreg && vit->pos_embed != PosEmbed::learned)
    report(Kind::maths, "pos_embed: is sincos2d, but learned in AugReg");
  if (scheme == NameScheme::augreg && vit->pool == Pool::token && !vit->class_position())
    report(Kind::maths, "pos_embed_class: is false, but the class token has a position in AugReg");
  return problems;
}

/// What timm must be told of positions and of tokens before the patches.
template <class Say>
static void say_of_tokens(const ViTConfig& c, const Say& say) {
  const bool added = c.pos_embed != PosEmbed::none, rotary = c.rotary.given();
  if (rotary) {
    const bool dinov3 = c.rotary.dialect == RotaryDialect::dinov3;
    say("positions are rotary: timm needs its class Eva with use_rot_pos_emb=True, attn_type=\"rope\", rope_temperature=",
        c.rotary.base,
        dinov3                 ? ", rope_type=\"dinov3\", rope_rotate_half=True"
        : c.rotary.grid[0] > 0 ? concat(", ref_feat_shape=(", c.rotary.grid[0], ", ", c.rotary.grid[1], ")")
                               : "");
  }
  if (!added) say("pos_embed is none: timm needs ", rotary ? "use_abs_pos_emb=False" : "pos_embed=\"none\"");
  if (c.registers > 0)
    say("registers is ", c.registers, ": timm needs ", rotary ? "num_reg_tokens=" : "reg_tokens=", c.registers);
  if (!added || c.prefix() == 0 || c.class_position()) return;
  say(c.pool == Pool::token ? "the class token has no position" : "registers have no position",
      ": timm needs no_embed_class=True");
}

std::vector<std::string> scheme_advice(NameScheme scheme, const ModelConfig& config) {
  std::vector<std::string> advice;
  const auto say = [&](const auto&... parts) { advice.push_back(concat(parts...)); };
  const auto* vit = std::get_if<ViTConfig>(&config);
  if (scheme == NameScheme::timm) {
    const double timms_eps = vit != nullptr ? 1e-6 : 1e-5;
    visit_sites(placement_of(config), [&](std::string_view site, const NormSpec& spec) {
      if (has_eps(spec.kind) && parts_of(spec.kind).over != Statistics::batch && spec.eps != timms_eps)
        say(site, " has eps ", spec.eps, ": give timm a norm_layer with this eps");
      if (spec.kind != NormKind::none && spec.kind != NormKind::layer_norm)
        say(site, " is ", to_string(spec.kind), ": timm's network needs such a module there");
    });
    const NetworkConfig& c = network(config);
    if (c.placement.attn_gate != AttnGate::none)
      say("attn_gate is channel: timm needs an attn_layer derived from Attention of timm.layers with gated=True");
    if (c.mlp == MlpForm::gated) say("mlp is gated: timm needs mlp_layer=SwiGLU of timm.layers");
    if (c.activation.kind == ActivationKind::gelu) {
      if (c.gelu == GeluForm::tanh) say("gelu is tanh: timm needs act_layer=\"gelu_tanh\"");
    } else {
      const bool squared = c.activation.kind == ActivationKind::relu_squared;
      say("activation is ", word_of(c.activation.kind), ": timm needs ",
          squared ? "an act_layer that computes relu(x)^2" : concat("act_layer=\"", word_of(c.activation.kind), '"'));
    }
    if (vit != nullptr) say_of_tokens(*vit, say);
    if (placement_of(config).stem.posembed_out.kind != NormKind::none)
      say("there is a norm after the positions: timm's pre_norm=True has no patch_embed.proj.bias, but this model has "
          "one");
  }
  if (scheme == NameScheme::big_vision && vit != nullptr && vit->class_position())
    say("pos_embedding has a row for the class token, as in older files: Big Vision adds it to cls when it loads them");
  return advice;
}

}  // namespace normlab
