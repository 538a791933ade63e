#include "experiments/lab/descriptor/formula.h"

#include <fmt/core.h>

#include <map>

#include "experiments/lab/descriptor/forms.h"

namespace normlab {
namespace {

/// "eps=1e-05 momentum=0.2": settings that differ from the kind's defaults.
std::string settings_text(const NormSpec& spec, ModelKind model) {
  const NormSpec defaults = model == ModelKind::swin ? swin_norm(spec.kind) : norm_of(spec.kind);
  std::string out;
  for_each_field<NormSpec>([&](const auto& field) {
    if (field.key != "kind" && field.unmet(spec) == nullptr && spec.*field.member != defaults.*field.member)
      out += fmt::format("{}{}={}", out.empty() ? "" : " ", field.key, setting_text(spec.*field.member));
  });
  return out;
}

/// around(spec, "x"): a site's norm applied to its input, for a model of this kind.
struct Around {
  ModelKind model;
  std::string operator()(const NormSpec& spec, const std::string& inner) const {
    return normed_text(spec, model, inner);
  }
};

/// "gain * x", or x without a gain.
std::string times(bool has_gain, const char* gain, const std::string& x) { return has_gain ? gain + (" * " + x) : x; }

/// "; R turns by the row and column of a patch (eva02, base=10000 grid=[14, 14])", or nothing.
std::string rotary_legend(const ModelConfig& model) {
  const auto* vit = std::get_if<ViTConfig>(&model);
  if (vit == nullptr || !vit->rotary.given()) return "";
  std::string out =
      fmt::format("; R turns pairs of channels by the row and column of a patch ({}", word_of(vit->rotary.dialect));
  for_each_field<RotaryConfig>([&](const auto& row) {
    if (row.key != "dialect" && vit->rotary.*row.member != RotaryConfig{}.*row.member)
      out += fmt::format(", {} {}", row.key, setting_text(vit->rotary.*row.member));
  });
  return out + ")";
}

std::string attention_inside(Around around, const Placement& p, const AttentionSites& s, const std::string& rotary) {
  const std::string added = around.model == ModelKind::swin ? " + bias" : "";
  const std::string gated = p.attn_gate == AttnGate::none ? "heads" : "heads * sigmoid(gate(h))";
  const std::string heads = times(p.head_scale == HeadScale::before_proj, "g", gated);
  const std::string out = times(p.head_scale == HeadScale::after_proj, "g", "proj(" + around(s.inner, heads) + ")");
  const auto words = [](const NormSpec& spec, bool given, const char* text) {
    return given && spec.kind != NormKind::none ? text : "";
  };
  const bool learned = p.attn_scale == AttnScale::learned;
  const std::string v = around(s.value, "v");
  const std::string rest = s.exclude_self ? fmt::format("y - (y . {0}) {0} / |{0}|^2, y = ", v) : "";
  const auto turned = [&](const std::string& x) { return rotary.empty() ? x : "R(" + x + ")"; };
  return fmt::format(
      "Attn(h) = {}, heads = {}softmax({}{} {}^T{}{}) {}{}{}{}", out, rest, learned ? "t " : "",
      turned(around(s.query, "q")), turned(around(s.key, "k")), learned ? "" : " / sqrt(d)", added, v,
      words(s.query.kind == NormKind::none ? s.key : s.query, !p.qk_per_head, "; the norms of q and k see all heads"),
      words(s.value, p.value_per_head, "; the norm of v sees one head"), rotary);
}

std::string mlp_inside(Around around, const NetworkConfig& c, const MlpSites& s) {
  const std::string x = around(s.hidden, "fc1(h)"), gate = c.mlp == MlpForm::gated ? "fc3(h)" : "";
  if (const NormFormula* const f = c.activation.formula)
    return fmt::format("MLP(h) = fc2({}), f({}) = {}",
                       around(s.inner, fmt::format("f({}{}{})", x, gate.empty() ? "" : ", ", gate)),
                       gate.empty() ? "x" : "x, g", f->text);
  const bool squared = c.activation.kind == ActivationKind::relu_squared;
  const std::string f = fmt::format("{}({}){}", squared ? "relu" : word_of(c.activation.kind), x, squared ? "^2" : "");
  return "MLP(h) = fc2(" + around(s.inner, gate.empty() ? f : f + " * " + gate) + ")";
}

std::string gain_legend(const ModelConfig& model) {
  const Placement& p = placement_of(model);
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  if (p.head_scale != HeadScale::none) add("g: a learned gain per head");
  if (p.attn_gate != AttnGate::none) add(fmt::format("gate: of each {}", word_of(p.attn_gate)));
  if (p.attn_scale == AttnScale::learned) add("t: exp(min(s, log 100)), a learned s per head, initially log 10");
  if (p.layer_scale.kind != LayerScaleKind::none)
    add(fmt::format("s: a learned {}, initially {}",
                    p.layer_scale.kind == LayerScaleKind::channel ? "gain per channel" : "scalar",
                    layer_scale_init(p.layer_scale, block_count(model))));
  if (p.residual_scale) add("r: a learned gain per channel");
  if (p.depth_scale == DepthScale::rsqrt) add("d: 1 / sqrt(number of the block, from 1)");
  if (p.has_two_streams()) add("l: number of the block, from 1");
  if (p.residual_factor != ResidualFactor{})
    add(fmt::format("a: {:.4g}", residual_factor(p.residual_factor, block_count(model))));
  return out;
}

std::string layer_scale_text(const LayerScale& scale) {
  const std::string word(word_of(scale.kind));
  return scale.auto_init || scale.kind == LayerScaleKind::none ? word : fmt::format("{}(init={})", word, scale.init);
}

}  // namespace

BlockFormula block_formula(const ModelConfig& model, std::int64_t block) {
  const Placement& p = placement_of(model);
  const Around around{kind_of(model)};
  const AttentionSites& a = p.attention_sites(block);
  const MlpSites& m = p.mlp_sites(block);
  const bool scaled = p.layer_scale.kind != LayerScaleKind::none;
  const bool by_depth = p.depth_scale == DepthScale::rsqrt;
  const auto branch = [&](const NormSpec& out, const char* name, const NormSpec& pre) {
    const std::string input = times(by_depth && pre.kind != NormKind::none, "d", around(pre, "x"));
    return times(scaled, "s", around(out, name + ("(" + input + ")")));
  };
  const std::string x = times(p.residual_factor != ResidualFactor{}, "a", "x");
  BlockFormula formula;
  if (p.has_two_streams()) {  // post is applied before the branch, not after the sum
    const auto streams = [&](const NormSpec& post, const NormSpec& out, const char* name, const NormSpec& pre) {
      const std::string of_y = times(by_depth && pre.kind != NormKind::none, "d", around(pre, "y"));
      return fmt::format(
          "x = {}, z = {}, x = x + z / sqrt(2 l), y = y + z", around(post, "x"),
          times(scaled, "s", around(out, fmt::format("{}({})", name, around(p.stream_norm, "x + " + of_y)))));
    };
    formula.attention = streams(a.post, a.out, "Attn", a.pre);
    formula.mlp = streams(m.post, m.out, "MLP", m.pre);
  } else {
    formula.attention = "x = " + around(a.post, x + " + " + branch(a.out, "Attn", a.pre));
    formula.mlp = "x = " + around(m.post, times(p.residual_scale, "r", x) + " + " + branch(m.out, "MLP", m.pre));
  }
  const AttentionSites plain{.pre = a.pre, .out = a.out, .post = a.post};
  const bool more =
      p.head_scale != HeadScale::none || p.attn_gate != AttnGate::none || p.attn_scale != AttnScale::fixed;
  if (const std::string rotary = rotary_legend(model); a != plain || more || !rotary.empty())
    formula.inside.push_back(attention_inside(around, p, a, rotary));
  if (m.hidden.kind != NormKind::none || m.inner.kind != NormKind::none ||
      function_of(network(model).activation, network(model).mlp, {}))
    formula.inside.push_back(mlp_inside(around, network(model), m));
  if (const std::string legend = gain_legend(model); !legend.empty()) formula.inside.push_back(legend);
  return formula;
}

std::string stem_formula(const ModelConfig& config) {
  const StemSites& s = placement_of(config).stem;
  const Around around{kind_of(config)};
  const std::string patches = around(s.patch_out, "Embed(" + around(s.patch_in, "patches") + ")");
  if (around.model == ModelKind::swin) return "x = " + patches;
  const ViTConfig& model = std::get<ViTConfig>(config);
  const std::string pos = model.pos_embed == PosEmbed::none      ? ""
                          : model.pos_embed == PosEmbed::learned ? " + pos"
                                                                 : " + sincos2d";
  const std::string x_is = placement_of(config).has_two_streams() ? "x = y = " : "x = ";
  const std::string placed = patches + pos, registers = model.registers > 0 ? "reg, " : "";
  if (model.prefix() == 0) return x_is + around(s.posembed_out, placed);
  const std::string of_class = model.class_position() ? pos + ", " : ", ";
  const std::string before =
      (model.class_tokens() > 0 ? "cls" + of_class : "") + (model.distill_token ? "dist" + of_class : "") + registers;
  if (s.posembed_out.kind != NormKind::none && !s.posembed_out_includes_class)
    return x_is + fmt::format("[{}{}]", before, around(s.posembed_out, placed));
  if (model.class_position() && model.registers == 0)
    return x_is +
           around(s.posembed_out, fmt::format("[{}, {}]{}", model.distill_token ? "cls, dist" : "cls", patches, pos));
  return x_is + around(s.posembed_out, fmt::format("[{}{}]", before, placed));
}

std::string end_formula(const ModelConfig& config) {
  const Placement& p = placement_of(config);
  const Around around{kind_of(config)};
  const auto* vit = std::get_if<ViTConfig>(&config);
  const bool token = vit != nullptr && vit->pool == Pool::token;
  const std::string streams = around(p.stream_norm, "x") + " + " + around(p.stream_norm, "y");
  const std::string x = around(p.final, p.has_two_streams() ? streams : "x");
  if (task_of(config) == Task::segment)
    return fmt::format("logits = resize(head({}))", vit->prefix() > 0 ? "patch_tokens(" + x + ")" : x);
  if (vit != nullptr && vit->distill_token)
    return fmt::format("logits = (head(class_token({})) + head_dist(dist_token({}))) / 2", x, x);
  const std::string pooled = around(p.pooled, (token                                  ? "class_token("
                                               : vit != nullptr && vit->registers > 0 ? "mean_patches("
                                                                                      : "mean_tokens(") +
                                                  x + ")");
  const std::string features = vit != nullptr && vit->rep_size > 0 ? "tanh(rep(" + pooled + "))" : pooled;
  return has_text(config) ? "image = " + features : "logits = head(" + features + ")";
}

std::vector<std::vector<std::int64_t>> equal_blocks(const ModelConfig& model) {
  std::vector<std::vector<std::int64_t>> groups;
  const Placement& p = placement_of(model);
  for (std::int64_t i = 0; i < block_count(model); ++i) {
    const auto same = [&](const std::vector<std::int64_t>& group) {
      return p.attention_sites(group.front()) == p.attention_sites(i) && p.mlp_sites(group.front()) == p.mlp_sites(i);
    };
    const auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end())
      groups.push_back({i});
    else
      found->push_back(i);
  }
  return groups;
}

std::string normed_text(const NormSpec& spec, ModelKind model, const std::string& inner) {
  if (spec.kind == NormKind::none) return inner;
  if (spec.formula) return fmt::format("[{}]({})", norm_text(spec, model), inner);
  const std::string settings = settings_text(spec, model);
  return fmt::format("{}{}({})", parts_of(spec.kind).sign, settings.empty() ? "" : "[" + settings + "]", inner);
}

std::string norm_text(const NormSpec& spec, ModelKind model) {
  if (spec.formula) {
    const JsonNode written = Form<NormSpec>::write(spec, {/*everything=*/false, model});
    std::string out = spec.formula->text;
    for (const JsonMember& member : written.members)
      if (member.key != "formula") out += concat("; ", member.key, "=", value_text(member.value));
    return out;
  }
  const std::string settings = settings_text(spec, model);
  return std::string(to_string(spec.kind)) + (settings.empty() ? "" : "(" + settings + ")");
}

std::vector<std::string> site_changes(const ModelConfig& base, const ModelConfig& model) {
  std::vector<std::string> out;
  const auto add = [&](std::string_view what, const std::string& before, const std::string& after) {
    if (before != after) out.push_back(fmt::format("{}: {} -> {}", what, before, after));
  };
  const Placement &b = placement_of(base), &p = placement_of(model);
  const std::int64_t depth = std::min(block_count(base), block_count(model));
  const auto add_by_block = [&](std::string_view path, const auto& text_of) {
    std::map<std::string, std::vector<std::int64_t>> changes;  // change -> blocks that share it
    for (std::int64_t i = 0; i < depth; ++i) {
      const std::string before = text_of(base, i), after = text_of(model, i);
      if (before != after) changes[fmt::format("{}: {} -> {}", path, before, after)].push_back(i);
    }
    for (const auto& [change, blocks] : changes) {
      const bool all = std::int64_t(blocks.size()) == depth;
      out.push_back(all ? change : fmt::format("{} (blocks {})", change, runs_name(blocks)));
    }
  };
  for (const SiteRow& site : kSites)
    add_by_block(site.path, [&](const ModelConfig& of, std::int64_t i) {
      return norm_text(norm_at(placement_of(of), site, i), kind_of(of));
    });
  add_by_block("attn.exclude_self", [](const ModelConfig& of, std::int64_t i) {
    return setting_text(placement_of(of).attention_sites(i).exclude_self);
  });
  const auto add_setting = [&](std::string_view key, const auto& before, const auto& after) {
    add(key, setting_text(before), setting_text(after));
  };
  add_setting("posembed_out_includes_class", b.stem.posembed_out_includes_class, p.stem.posembed_out_includes_class);
  add_setting("head_scale", b.head_scale, p.head_scale);
  add_setting("attn_gate", b.attn_gate, p.attn_gate);
  add_setting("attn_scale", b.attn_scale, p.attn_scale);
  add_setting("residual_scale", b.residual_scale, p.residual_scale);
  add("layer_scale", layer_scale_text(b.layer_scale), layer_scale_text(p.layer_scale));
  add_setting("init_gain", b.init_gain, p.init_gain);
  add_setting("qk_per_head", b.qk_per_head, p.qk_per_head);
  add_setting("value_per_head", b.value_per_head, p.value_per_head);
  add("stream_norm", norm_text(b.stream_norm, kind_of(base)), norm_text(p.stream_norm, kind_of(model)));
  add_setting("depth_scale", b.depth_scale, p.depth_scale);
  add_setting("residual_factor", b.residual_factor, p.residual_factor);
  const auto activation = [](const NetworkConfig& c) {
    return c.activation.formula ? c.activation.formula->text : std::string(word_of(c.activation.kind));
  };
  add("activation", activation(network(base)), activation(network(model)));
  add_setting("mlp", network(base).mlp, network(model).mlp);
  const auto *from = std::get_if<ViTConfig>(&base), *to = std::get_if<ViTConfig>(&model);
  if (from == nullptr || to == nullptr) return out;
  add_setting("pos_embed", from->pos_embed, to->pos_embed);
  add_setting("rotary", from->rotary, to->rotary);
  add_setting("registers", from->registers, to->registers);
  return out;
}

}  // namespace normlab
