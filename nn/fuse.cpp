#include "nn/fuse.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "nn/model.h"

namespace normlab {
namespace {

enum class Merge : std::uint8_t { next, previous, no };

/// How a site's norm is merged. Linears are named as seen from the site's block, stage or network.
struct Rule {
  std::string_view site;
  Merge merge;
  std::vector<std::string_view> linears;
  std::string_view reason = {};  // where it cannot be
};
constexpr std::string_view kSum = "it follows a sum with the shortcut, which no linear gives";
constexpr std::string_view kEnd = "";  // stands for FusionPlan::ends

const Rule& rule_of(std::string_view site) {
  static const std::vector<Rule> rules{
      {"stem.patch_in", Merge::next, {"patch_embed"}},
      {"stem.patch_out", Merge::previous, {"patch_embed"}},
      {"stem.posembed_out", Merge::no, {}, "the positions are added in front of it, and what follows is a shortcut"},
      {"attn.pre", Merge::next, {"attn.q", "attn.k", "attn.v"}},
      {"attn.query", Merge::previous, {"attn.q"}},
      {"attn.key", Merge::previous, {"attn.k"}},
      {"attn.value", Merge::previous, {"attn.v"}},
      {"attn.inner", Merge::next, {"attn.proj"}},
      {"attn.out", Merge::previous, {"attn.proj"}},
      {"attn.post", Merge::no, {}, kSum},
      {"mlp.pre", Merge::next, {"mlp.fc1"}},
      {"mlp.hidden", Merge::previous, {"mlp.fc1"}},
      {"mlp.inner", Merge::next, {"mlp.fc2"}},
      {"mlp.out", Merge::previous, {"mlp.fc2"}},
      {"mlp.post", Merge::no, {}, kSum},
      {"merge", Merge::next, {"reduction"}},
      {"final", Merge::next, {kEnd}},
      {"pooled", Merge::next, {kEnd}},
  };
  const auto found = std::find_if(rules.begin(), rules.end(), [&](const Rule& rule) { return rule.site == site; });
  if (found == rules.end()) throw InputError(concat("fusion: there is no rule for the site ", site));
  return *found;
}

class Fuser {
 public:
  Fuser(const FusionPlan& plan, Placement& placement, HostTensors& tensors)
      : plan_(plan), placement_(placement), tensors_(tensors) {}

  std::vector<SiteFate> run() {
    const auto depth = static_cast<std::int64_t>(plan_.blocks.size());
    std::vector<BlockRange> blocks;
    for (std::int64_t i = 0; i < depth; ++i)
      blocks.push_back({i, i, placement_.attention_sites(i), placement_.mlp_sites(i)});
    std::vector<std::pair<std::string, std::vector<Place>>> sites;
    visit_sites(placement_, [&](std::string_view path, NormSpec& spec) {
      sites.emplace_back(path, std::vector<Place>{});
      std::vector<Place>& places = sites.back().second;
      if (path.starts_with("attn.") || path.starts_with("mlp.")) {
        for (BlockRange& block : blocks)
          visit_block_sites(block, [&](std::string_view at, NormSpec& own) {
            if (at == path) places.push_back({plan_.blocks[static_cast<std::size_t>(block.first)] + ".", &own});
          });
      } else if (path == "merge") {
        for (const std::string& stage : plan_.merges) places.push_back({stage + ".", &spec});
      } else {
        places.push_back({"", &spec});
      }
    });
    std::vector<SiteFate> fates;
    // Backwards, since `final` goes through `pooled`. Norms on the two sides of one linear do not mind the order.
    for (auto site = sites.rbegin(); site != sites.rend(); ++site) fuse_alike(site->first, site->second, fates);
    std::reverse(fates.begin(), fates.end());
    placement_.blocks = std::move(blocks);
    simplify_blocks(placement_, depth);
    complete_qkv_biases();
    require_finite();
    return fates;
  }

 private:
  /// One norm of a site: what stands before the site's path in the names of its parameters, and its settings.
  struct Place {
    std::string prefix;
    NormSpec* spec;
  };

  /// Takes the places of a site together that have the same norm.
  void fuse_alike(const std::string& path, const std::vector<Place>& places, std::vector<SiteFate>& fates) {
    std::vector<NormSpec> seen;
    for (const Place& place : places)
      if (place.spec->kind != NormKind::none && std::find(seen.begin(), seen.end(), *place.spec) == seen.end())
        seen.push_back(*place.spec);
    for (const NormSpec& spec : seen) {
      std::vector<Place> alike;
      std::vector<std::int64_t> numbers;
      for (std::size_t i = 0; i < places.size(); ++i)
        if (*places[i].spec == spec) {
          alike.push_back(places[i]);
          numbers.push_back(static_cast<std::int64_t>(i));
        }
      fates.push_back(fuse(path, spec, alike));
      if (alike.size() < places.size()) fates.back().site += concat(" (blocks ", runs_name(numbers), ")");
    }
  }

  std::string obstacle(const Rule& rule, const NormSpec& spec) const {
    if (spec.kind != NormKind::batch_norm) return "it is no batch norm";
    if (rule.site == "final" && placement_.pooled.kind != NormKind::none)
      return concat("the ", to_string(placement_.pooled.kind), " at pooled lies between it and ", plan_.ends.front());
    if (rule.site == "attn.pre" && plan_.pads) return "windows are padded with zeros between it and q, k, v";
    return std::string(rule.reason);
  }

  SiteFate fuse(const std::string& path, const NormSpec& spec, const std::vector<Place>& places) {
    const Rule& rule = rule_of(path);
    SiteFate fate{path, spec.kind, false, obstacle(rule, spec)};
    if (!fate.what.empty()) return fate;
    std::vector<std::string> linears(rule.linears.begin(), rule.linears.end());
    if (rule.linears.front() == kEnd) linears = plan_.ends;
    bool gains_bias = false;
    const bool takes_head_scale = path == "attn.out" && placement_.head_scale == HeadScale::after_proj;
    if (takes_head_scale) {
      for (const std::string& block : plan_.blocks) absorb_head_scale(block + ".");
      placement_.head_scale = HeadScale::none;
    }
    for (const Place& place : places) {
      const FrozenNorm norm = take_norm(place.prefix + path, spec.eps);
      for (const std::string& linear : linears)
        gains_bias = merge(rule.merge, norm, place.prefix + linear, place.prefix + path) || gains_bias;
    }
    for (const Place& place : places) *place.spec = NormSpec{};
    fate.merged = true;
    for (const std::string& linear : linears) fate.what += concat(fate.what.empty() ? "" : ", ", linear);
    if (takes_head_scale) fate.what += " together with attn.head_scale";
    if (gains_bias) fate.what += ", which had no bias and has one now";
    return fate;
  }

  HostValues& tensor(const std::string& name, const std::string& needed_by) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end())
      throw InputError(concat("fusion: there is no tensor ", name, ", needed by ", needed_by));
    return found->second;
  }

  /// The weight [out, in] of a linear.
  HostValues& matrix(const std::string& linear, const std::string& needed_by) {
    HostValues& weight = tensor(linear + ".weight", needed_by);
    if (weight.shape.rank() != 2 || weight.shape.size() != static_cast<std::int64_t>(weight.values.size()))
      throw InputError(concat("fusion: ", linear, ".weight is ", weight.shape.str(), " with ", weight.values.size(),
                              " values, expected [out, in]"));
    return weight;
  }

  FrozenNorm take_norm(const std::string& site, double eps) {
    const auto values = [&](const char* name) -> const std::vector<double>& {
      return tensor(concat(site, ".", name), site).values;
    };
    FrozenNorm norm;
    try {
      norm = frozen_norm(values("gamma"), values("beta"), values("running_mean"), values("running_var"), eps);
    } catch (const InputError& error) {
      throw InputError(concat(site, ": ", error.what()));
    }
    for (const char* name : {"gamma", "beta", "running_mean", "running_var"}) tensors_.erase(concat(site, ".", name));
    return norm;
  }

  /// True where the linear had no bias.
  bool merge(Merge direction, const FrozenNorm& norm, const std::string& linear, const std::string& site) {
    HostValues& weight = matrix(linear, site);
    const auto [bias, added] = tensors_.try_emplace(linear + ".bias");
    if (added) bias->second = zeros(weight.shape[0]);
    try {
      (direction == Merge::next ? merge_into_next : merge_into_previous)(norm, weight.values, bias->second.values);
    } catch (const InputError& error) {
      throw InputError(concat(site, " into ", linear, ": ", error.what()));
    }
    changed_.insert({linear + ".weight", linear + ".bias"});
    return added;
  }

  /// The gain of a head on the output of proj: a norm without offset, and gone with it.
  void absorb_head_scale(const std::string& prefix) {
    const std::string name = prefix + "attn.head_scale", linear = prefix + "attn.proj";
    const std::vector<double> gains = std::move(tensor(name, prefix + "attn.out").values);
    tensors_.erase(name);
    const std::int64_t width = matrix(linear, name).shape[0];
    const std::int64_t heads = static_cast<std::int64_t>(gains.size());
    if (heads == 0 || width % heads != 0)
      throw InputError(concat(name, ": ", heads, " gains do not divide ", width, " channels"));
    FrozenNorm norm;
    for (std::int64_t c = 0; c < width; ++c) norm.scale.push_back(gains[static_cast<std::size_t>(c * heads / width)]);
    norm.offset.assign(norm.scale.size(), 0.0);
    merge(Merge::previous, norm, linear, name);
  }

  static HostValues zeros(std::int64_t n) { return {Shape{n}, std::vector<double>(static_cast<std::size_t>(n), 0.0)}; }

  void complete_qkv_biases() {
    constexpr std::string_view kThree[] = {".attn.q", ".attn.k", ".attn.v"};
    const auto bias_of = [](const std::string& block, std::string_view linear) {
      return concat(block, linear, ".bias");
    };
    const bool any = std::any_of(plan_.blocks.begin(), plan_.blocks.end(), [&](const std::string& block) {
      return std::any_of(std::begin(kThree), std::end(kThree),
                         [&](std::string_view linear) { return tensors_.count(bias_of(block, linear)) > 0; });
    });
    if (!any) return;
    for (const std::string& block : plan_.blocks)
      for (const std::string_view linear : kThree)
        tensors_.try_emplace(bias_of(block, linear), zeros(matrix(concat(block, linear), block).shape[0]));
  }

  void require_finite() const {
    for (const std::string& name : changed_) {
      const std::vector<double>& values = tensors_.at(name).values;
      for (std::size_t i = 0; i < values.size(); ++i)
        if (!(std::abs(values[i]) <= double(std::numeric_limits<float>::max())))
          throw InputError(concat("fusion: ", name, " would be ", values[i], " at ", i, ", which float cannot hold"));
    }
  }

  const FusionPlan& plan_;
  Placement& placement_;
  HostTensors& tensors_;
  std::set<std::string> changed_;
};

}  // namespace

FrozenNorm frozen_norm(std::span<const double> gamma, std::span<const double> beta, std::span<const double> mean,
                       std::span<const double> var, double eps) {
  const std::size_t width = gamma.size();
  if (beta.size() != width || mean.size() != width || var.size() != width)
    throw InputError(concat("gamma, beta, mean and variance of a batch norm have ", width, ", ", beta.size(), ", ",
                            mean.size(), " and ", var.size(), " values"));
  FrozenNorm norm;
  norm.scale.resize(width);
  norm.offset.resize(width);
  for (std::size_t c = 0; c < width; ++c) {
    if (!(var[c] + eps > 0.0))
      throw InputError(
          concat("the running variance of channel ", c, " is ", var[c], ", below zero with epsilon ", eps));
    norm.scale[c] = gamma[c] / std::sqrt(var[c] + eps);
    norm.offset[c] = beta[c] - norm.scale[c] * mean[c];
  }
  return norm;
}

void merge_into_next(const FrozenNorm& norm, std::span<double> weight, std::span<double> bias) {
  const std::size_t in = norm.scale.size(), out = bias.size();
  if (weight.size() != in * out)
    throw InputError(concat("a norm of ", in, " channels does not fit a weight of ", weight.size(), " values with ",
                            out, " outputs"));
  for (std::size_t o = 0; o < out; ++o) {
    double* row = weight.data() + o * in;
    for (std::size_t i = 0; i < in; ++i) {
      bias[o] += row[i] * norm.offset[i];
      row[i] *= norm.scale[i];
    }
  }
}

void merge_into_previous(const FrozenNorm& norm, std::span<double> weight, std::span<double> bias) {
  const std::size_t width = norm.scale.size(), out = bias.size();
  if (width == 0 || out % width != 0 || weight.size() % out != 0)
    throw InputError(concat("a norm of ", width, " channels does not fit a weight of ", weight.size(), " values with ",
                            out, " outputs"));
  const std::size_t in = weight.size() / out;
  for (std::size_t o = 0; o < out; ++o) {
    const double scale = norm.scale[o % width];
    for (std::size_t i = 0; i < in; ++i) weight[o * in + i] *= scale;
    bias[o] = scale * bias[o] + norm.offset[o % width];
  }
}

std::vector<SiteFate> fuse_sites(const FusionPlan& plan, Placement& placement, HostTensors& tensors) {
  return Fuser(plan, placement, tensors).run();
}

namespace {

FusionPlan plan_of(const ViTConfig& config) {
  FusionPlan plan{{}, {}, {config.rep_size > 0 ? "rep" : "head"}};
  if (config.distill_token) plan.ends.emplace_back("head_dist");
  for (std::int64_t i = 0; i < config.depth; ++i) plan.blocks.push_back(concat("blocks.", i));
  return plan;
}

FusionPlan plan_of(const SwinConfig& config) {
  FusionPlan plan{{}, {}, {"head"}};
  std::int64_t stage = 0;
  for (const SwinStage& s : swin_stages(config)) {
    for (std::int64_t i = 0; i < s.depth; ++i) plan.blocks.push_back(concat("stages.", stage, ".blocks.", i));
    if (stage > 0) plan.merges.push_back(concat("stages.", stage));
    plan.pads = plan.pads || s.padded_tokens() > s.tokens();
    ++stage;
  }
  return plan;
}

void require_all(const ModelConfig& config, const HostTensors& values) {
  ParameterSet declared;
  make_model(declared, config);
  require_match(declared, values);
}

}  // namespace

FusedModel fuse_batch_norms(const ModelConfig& config, HostTensors tensors) {
  require_all(config, tensors);
  FusedModel fused{config, std::move(tensors), {}};
  std::visit(
      [&](auto& c) {
        const FusionPlan plan = plan_of(c);
        fused.sites = fuse_sites(plan, c.placement, fused.tensors);
        c.qkv_bias = fused.tensors.count(plan.blocks.front() + ".attn.q.bias") > 0;
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(c)>, SwinConfig>)
          c.reduction_bias = !plan.merges.empty() && fused.tensors.count(plan.merges.front() + ".reduction.bias") > 0;
      },
      fused.config);
  require_all(fused.config, fused.tensors);
  return fused;
}

std::string fusion_report(std::span<const SiteFate> sites, std::int64_t values_before, std::int64_t values_after) {
  const auto padded = [](std::string_view text, std::size_t width) {
    return std::string(text) + std::string(width > text.size() ? width - text.size() : 0, ' ');
  };
  std::string report;
  for (const SiteFate& fate : sites)
    report += concat(padded(fate.site, 19), padded(to_string(fate.kind), 18),
                     fate.merged ? "merged into " : "left: ", fate.what, "\n");
  if (sites.empty()) report += "no site has a norm\n";
  return report + concat("parameters and running statistics: ", values_before, " before, ", values_after, " after\n");
}

}  // namespace normlab
