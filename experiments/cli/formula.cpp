#include "experiments/cli/formula.h"

#include <fmt/format.h>

#include <map>

#include "experiments/descriptor/fields.h"

namespace normlab {
namespace {

/// "eps=1e-05 momentum=0.2": settings that are not the kind's defaults.
std::string settings_text(const NormSpec& spec) {
  const NormSpec defaults = norm_of(spec.kind);
  std::string out;
  for_each_field<NormSpec>([&](const auto& field) {
    if constexpr (!std::is_enum_v<typename std::remove_cvref_t<decltype(field)>::Member>)
      if (applies(spec, field.key) && spec.*field.member != defaults.*field.member)
        out += fmt::format("{}{}={}", out.empty() ? "" : " ", field.key, spec.*field.member);
  });
  return out;
}

/// The norm of a site around `inner`.
std::string around(const NormSpec& spec, const std::string& inner) {
  if (spec.kind == NormKind::none) return inner;
  const std::string settings = settings_text(spec);
  return fmt::format("{}{}({})", parts_of(spec.kind).sign, settings.empty() ? "" : "[" + settings + "]", inner);
}

/// "gain * x" where there is a gain.
std::string times(bool has_gain, const char* gain, const std::string& x) { return has_gain ? gain + (" * " + x) : x; }

std::string attention_inside(const Placement& p, const AttentionSites& s) {
  const std::string heads = times(p.head_scale == HeadScale::before_proj, "g", "heads");
  const std::string out = times(p.head_scale == HeadScale::after_proj, "g", "proj(" + around(s.inner, heads) + ")");
  return fmt::format("Attn(h) = {}, heads = softmax({} {}^T / sqrt(d)) {}", out, around(s.query, "q"),
                     around(s.key, "k"), around(s.value, "v"));
}

std::string gain_legend(const ViTConfig& model) {
  const Placement& p = model.placement;
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  if (p.head_scale != HeadScale::none) add("g: a learned gain a head");
  if (p.layer_scale.kind != LayerScaleKind::none)
    add(fmt::format("s: a learned {}, first {}",
                    p.layer_scale.kind == LayerScaleKind::channel ? "gain a channel" : "scalar",
                    layer_scale_init(p.layer_scale, model.depth)));
  if (p.residual_scale) add("r: a learned gain a channel");
  return out;
}

std::string layer_scale_text(const LayerScale& scale) {
  const std::string word(word_of(scale.kind));
  return scale.auto_init || scale.kind == LayerScaleKind::none ? word : fmt::format("{}(init={})", word, scale.init);
}

std::string init_gain_text(const InitGain& gain) { return gain.sub_ln ? "sub_ln" : fmt::format("{}", gain.value); }

}  // namespace

BlockFormula block_formula(const ViTConfig& model, std::int64_t block) {
  const Placement& p = model.placement;
  const AttentionSites& a = p.attention_sites(block);
  const MlpSites& m = p.mlp_sites(block);
  const bool scaled = p.layer_scale.kind != LayerScaleKind::none;
  const auto branch = [&](const NormSpec& out, const char* name, const NormSpec& pre) {
    return times(scaled, "s", around(out, name + ("(" + around(pre, "x") + ")")));
  };
  BlockFormula formula;
  formula.attention = "x = " + around(a.post, "x + " + branch(a.out, "Attn", a.pre));
  formula.mlp = "x = " + around(m.post, times(p.residual_scale, "r", "x") + " + " + branch(m.out, "MLP", m.pre));
  const AttentionSites plain{.pre = a.pre, .out = a.out, .post = a.post};
  if (a != plain || p.head_scale != HeadScale::none) formula.inside.push_back(attention_inside(p, a));
  if (m.hidden.kind != NormKind::none || m.inner.kind != NormKind::none)
    formula.inside.push_back("MLP(h) = fc2(" + around(m.inner, "gelu(" + around(m.hidden, "fc1(h)") + ")") + ")");
  if (const std::string legend = gain_legend(model); !legend.empty()) formula.inside.push_back(legend);
  return formula;
}

std::string stem_formula(const ViTConfig& model) {
  const StemSites& s = model.placement.stem;
  const std::string pos = model.pos_embed == PosEmbed::learned ? "pos" : "sincos2d";
  const std::string patches = around(s.patch_out, "Embed(" + around(s.patch_in, "patches") + ")");
  const std::string placed = patches + " + " + pos;
  if (model.pool != Pool::token) return "x = " + around(s.posembed_out, placed);
  if (s.posembed_out.kind == NormKind::none || s.posembed_out_includes_class)
    return "x = " +
           around(s.posembed_out, model.class_position() ? "[cls, " + patches + "] + " + pos : "[cls, " + placed + "]");
  return fmt::format("x = [{}, {}]", model.class_position() ? "cls + pos" : "cls", around(s.posembed_out, placed));
}

std::string end_formula(const ViTConfig& model) {
  const Placement& p = model.placement;
  const char* pool = model.pool == Pool::token ? "class_token(" : "mean_tokens(";
  const std::string pooled = around(p.pooled, pool + around(p.final, "x") + ")");
  return "logits = head(" + (model.rep_size > 0 ? "tanh(rep(" + pooled + "))" : pooled) + ")";
}

std::string runs_name(const std::vector<std::int64_t>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    out += (out.empty() ? "" : ",") + block_range_name(numbers[i], numbers[end - 1]);
    i = end;
  }
  return out;
}

std::vector<std::vector<std::int64_t>> equal_blocks(const ViTConfig& model) {
  std::vector<std::vector<std::int64_t>> groups;
  const Placement& p = model.placement;
  for (std::int64_t i = 0; i < model.depth; ++i) {
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

std::string norm_text(const NormSpec& spec) {
  const std::string settings = settings_text(spec);
  return std::string(to_string(spec.kind)) + (settings.empty() ? "" : "(" + settings + ")");
}

std::vector<std::string> site_changes(const ViTConfig& base, const ViTConfig& model) {
  std::vector<std::string> out;
  const auto add = [&](std::string_view what, const std::string& before, const std::string& after) {
    if (before != after) out.push_back(fmt::format("{}: {} -> {}", what, before, after));
  };
  // Sites of a placement whose blocks all are block i, in order.
  const auto sites_of = [](const ViTConfig& c, std::int64_t i) {
    Placement p = c.placement;
    p.attn = c.placement.attention_sites(i);
    p.mlp = c.placement.mlp_sites(i);
    std::vector<std::pair<std::string, std::string>> sites;
    visit_sites(p, [&](std::string_view site, const NormSpec& spec) { sites.emplace_back(site, norm_text(spec)); });
    return sites;
  };
  std::map<std::pair<std::size_t, std::string>, std::vector<std::int64_t>> changes;  // by site, then as text
  const std::int64_t depth = std::min(base.depth, model.depth);
  for (std::int64_t i = 0; i < depth; ++i) {
    const auto before = sites_of(base, i), after = sites_of(model, i);
    for (std::size_t s = 0; s < before.size(); ++s)
      if (before[s].second != after[s].second)
        changes[{s, fmt::format("{}: {} -> {}", before[s].first, before[s].second, after[s].second)}].push_back(i);
  }
  for (const auto& [change, blocks] : changes) {
    const bool all = std::int64_t(blocks.size()) == depth;
    out.push_back(all ? change.second : fmt::format("{} (blocks {})", change.second, runs_name(blocks)));
  }
  const Placement &b = base.placement, &p = model.placement;
  const auto yes_or_no = [](bool value) { return std::string(value ? "true" : "false"); };
  add("posembed_out_includes_class", yes_or_no(b.stem.posembed_out_includes_class),
      yes_or_no(p.stem.posembed_out_includes_class));
  add("head_scale", std::string(word_of(b.head_scale)), std::string(word_of(p.head_scale)));
  add("residual_scale", yes_or_no(b.residual_scale), yes_or_no(p.residual_scale));
  add("layer_scale", layer_scale_text(b.layer_scale), layer_scale_text(p.layer_scale));
  add("init_gain", init_gain_text(b.init_gain), init_gain_text(p.init_gain));
  return out;
}

}  // namespace normlab
