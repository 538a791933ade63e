#include "nn/model/fuse.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "nn/model/model.h"

namespace normlab {
namespace {

class Fuser {
 public:
  /// `before` and `tensors` are the network's, which match, and `placement` has the norms of its blocks. `pads`: zeros are inserted
  /// between attn.pre and q, k, v, which a merged offset would miss.
  Fuser(const ParameterSet& before, bool pads, Placement& placement, HostTensors& tensors)
      : pads_(pads), placement_(placement), tensors_(tensors) {
    for (const ParameterInfo& info : before.parameters())
      if (info.decays && is_linear(info.role)) linears_.push_back(&info);
    for (const ParameterInfo* linear : linears_)
      if (row_of(linear->role).rows == Rows::one && (ends_.empty() || linear->role == Role::head_dist))
        ends_.push_back(row_of(linear->role).path);
  }

  std::vector<FusedSite> run() {
    const auto depth = static_cast<std::int64_t>(places_of(Role::q).size());
    std::vector<BlockRange> blocks;
    for (std::int64_t i = 0; i < depth; ++i)
      blocks.push_back({i, i, placement_.attention_sites(i), placement_.mlp_sites(i)});
    std::vector<FusedSite> results;
    // In reverse order, since `final` is merged through `pooled`. The order of norms on either side of one linear layer
    // does not matter.
    for (auto site = kSites.rbegin(); site != kSites.rend(); ++site) {
      std::vector<SiteNorm> norms;
      for (const Place& place : places_of(site->linear))
        norms.push_back({place.prefix(), place.layer,
                         site->in_block() ? norm_in(blocks[static_cast<std::size_t>(place.layer - 1)], *site)
                                          : norm_in(placement_, *site)});
      fuse_alike(*site, norms, results);
    }
    std::reverse(results.begin(), results.end());
    placement_.blocks = std::move(blocks);
    simplify_blocks(placement_, depth);
    complete_qkv_biases();
    require_finite();
    return results;
  }

 private:
  /// One norm of a site: the prefix of the site's path in the names of its parameters, and its settings.
  struct SiteNorm {
    std::string prefix;
    std::int64_t layer;
    NormSpec* spec;
  };

  /// The places in the network with that linear layer.
  std::vector<Place> places_of(Role linear) const {
    std::vector<Place> places;
    for (const ParameterInfo* info : linears_)
      if (info->role == linear) places.push_back(info->place);
    return places;
  }

  /// Handles the places of a site that have the same norm together.
  void fuse_alike(const SiteRow& site, const std::vector<SiteNorm>& places, std::vector<FusedSite>& results) {
    std::vector<NormSpec> seen;
    for (const SiteNorm& place : places)
      if (place.spec->kind != NormKind::none && std::find(seen.begin(), seen.end(), *place.spec) == seen.end())
        seen.push_back(*place.spec);
    for (const NormSpec& spec : seen) {
      std::vector<SiteNorm> alike;
      std::vector<std::int64_t> numbers;
      for (std::size_t i = 0; i < places.size(); ++i)
        if (*places[i].spec == spec) {
          alike.push_back(places[i]);
          numbers.push_back(static_cast<std::int64_t>(i));
        }
      results.push_back(fuse(site, spec, alike));
      if (alike.size() < places.size()) results.back().site += concat(" (blocks ", runs_name(numbers), ")");
    }
  }

  std::string obstacle(const SiteRow& site, const NormSpec& spec) const {
    if (parts_of(spec.kind).over != Statistics::batch) return "it is not a batch norm";
    if (site.is(&Placement::final) && placement_.pooled.kind != NormKind::none)
      return concat("the ", to_string(placement_.pooled.kind), " at pooled lies between it and ", ends_.front());
    if (placement_.has_two_streams() && (site.is(&AttentionSites::pre) || site.is(&MlpSites::pre)))
      return "it precedes the sum with the other stream";
    if (site.is(&AttentionSites::pre) && pads_) return "windows are padded with zeros between it and q, k, v";
    return std::string(site.why_not);
  }

  FusedSite fuse(const SiteRow& site, const NormSpec& spec, const std::vector<SiteNorm>& places) {
    FusedSite result{std::string(site.path), spec.kind, false, obstacle(site, spec)};
    if (!result.what.empty()) return result;
    std::vector<std::string_view> linears;
    for (const LinearRow& row : kLinears)
      if (row.role == site.linear ||
          ((row.qkv ? site.is(&AttentionSites::pre) : row.role == Role::fc3 && site.is(&MlpSites::pre)) &&
           !places_of(row.role).empty()))
        linears.push_back(row.path);
    if (site.linear == Role::head) linears = ends_;
    bool gains_bias = false;
    const bool takes_head_scale = site.is(&AttentionSites::out) && placement_.head_scale == HeadScale::after_proj;
    if (takes_head_scale) {
      for (const Place& place : places_of(Role::proj)) absorb_head_scale(place.prefix());
      placement_.head_scale = HeadScale::none;
    }
    for (const SiteNorm& place : places) {
      const std::string name = concat(place.prefix, site.path);
      FrozenNorm norm = take_norm(name, spec.eps);
      if (site.is(&AttentionSites::pre) || site.is(&MlpSites::pre))
        for (std::vector<double>* values : {&norm.scale, &norm.offset})
          for (double& value : *values) value *= depth_scale(placement_, place.layer);
      for (const std::string_view linear : linears)
        gains_bias = merge(site.fusion, norm, concat(place.prefix, linear), name) || gains_bias;
    }
    for (const SiteNorm& place : places) *place.spec = NormSpec{};
    result.merged = true;
    for (const std::string_view linear : linears) result.what += concat(result.what.empty() ? "" : ", ", linear);
    if (takes_head_scale) result.what += " together with attn.head_scale";
    if (gains_bias) result.what += ", which gains a bias";
    return result;
  }

  FrozenNorm take_norm(const std::string& site, double eps) {
    const auto values = [&](const char* name) -> const std::vector<double>& {
      return tensors_.at(concat(site, ".", name)).values;
    };
    FrozenNorm norm;
    try {
      norm = frozen_norm(values("gamma"), values("beta"), values("running_mean"), values("running_var"), eps);
    } catch (const InputError& error) {
      throw InputError(concat(site, ": ", error.what()));
    }
    if (const auto eta = tensors_.find(site + ".eta"); eta != tensors_.end())  // BN(x) + eta x
      for (double& scale : norm.scale) scale += eta->second.values.front();
    for (const char* name : {"gamma", "beta", "running_mean", "running_var", "eta", "row_gamma", "row_beta"})
      tensors_.erase(concat(site, ".", name));
    return norm;
  }

  /// Returns whether the linear layer had no bias.
  bool merge(Fusion direction, const FrozenNorm& norm, const std::string& linear, const std::string& site) {
    HostValues& weight = tensors_.at(linear + ".weight");  // [out, in]
    const auto [bias, added] = tensors_.try_emplace(linear + ".bias");
    if (added) bias->second = zeros(weight.shape[0]);
    try {
      (direction == Fusion::next ? merge_into_next : merge_into_previous)(norm, weight.values, bias->second.values);
    } catch (const InputError& error) {
      throw InputError(concat(site, " into ", linear, ": ", error.what()));
    }
    changed_.insert({linear + ".weight", linear + ".bias"});
    return added;
  }

  /// Merges the gain of each head on the output of proj, like a norm without offset, and removes it.
  void absorb_head_scale(const std::string& prefix) {
    const std::string name = prefix + "attn.head_scale", linear = prefix + "attn.proj";
    const std::vector<double> gains = std::move(tensors_.at(name).values);
    tensors_.erase(name);
    const std::int64_t width = tensors_.at(linear + ".weight").shape[0], heads = std::ssize(gains);
    FrozenNorm norm;
    for (std::int64_t c = 0; c < width; ++c) norm.scale.push_back(gains[static_cast<std::size_t>(c * heads / width)]);
    norm.offset.assign(norm.scale.size(), 0.0);
    merge(Fusion::previous, norm, linear, name);
  }

  static HostValues zeros(std::int64_t n) { return {Shape{n}, std::vector<double>(static_cast<std::size_t>(n), 0.0)}; }

  void complete_qkv_biases() {
    std::vector<std::string> layers;
    for (const ParameterInfo* info : linears_)
      if (is_qkv(info->role)) layers.push_back(concat(info->place.prefix(), row_of(info->role).path));
    if (std::none_of(layers.begin(), layers.end(), [&](const auto& l) { return tensors_.contains(l + ".bias"); }))
      return;
    for (const std::string& layer : layers)
      tensors_.try_emplace(layer + ".bias", zeros(tensors_.at(layer + ".weight").shape[0]));
  }

  void require_finite() const {
    for (const std::string& name : changed_) {
      const std::vector<double>& values = tensors_.at(name).values;
      for (std::size_t i = 0; i < values.size(); ++i)
        if (!(std::abs(values[i]) <= double(std::numeric_limits<float>::max())))
          throw InputError(concat("fusion: ", name, " would be ", values[i], " at ", i, ", which a float cannot hold"));
    }
  }

  std::vector<const ParameterInfo*> linears_;  // their weights
  std::vector<std::string_view> ends_;         // the linear layers that read the pooled features
  bool pads_;
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
      throw InputError(concat("the running variance of channel ", c, " is ", var[c], ", negative with epsilon ", eps));
    norm.scale[c] = gamma[c] / std::sqrt(var[c] + eps);
    norm.offset[c] = beta[c] - norm.scale[c] * mean[c];
  }
  return norm;
}

void merge_into_next(const FrozenNorm& norm, std::span<double> weight, std::span<double> bias) {
  const std::size_t in = norm.scale.size(), out = bias.size();
  if (weight.size() != in * out)
    throw InputError(concat("a norm of ", in, " channels does not match a weight of ", weight.size(), " values with ",
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
    throw InputError(concat("a norm of ", width, " channels does not match a weight of ", weight.size(),
                            " values with ", out, " outputs"));
  const std::size_t in = weight.size() / out;
  for (std::size_t o = 0; o < out; ++o) {
    const double scale = norm.scale[o % width];
    for (std::size_t i = 0; i < in; ++i) weight[o * in + i] *= scale;
    bias[o] = scale * bias[o] + norm.offset[o % width];
  }
}

FusedModel fuse_batch_norms(const ModelConfig& config, HostTensors tensors) {
  ParameterSet before, after;
  make_model(before, config);
  require_match(before, tensors);
  FusedModel fused{config, std::move(tensors), {}};
  const std::vector<BlockSizes> sizes = block_sizes(config);
  const bool pads = std::any_of(sizes.begin(), sizes.end(), [](const auto& s) { return s.attended > s.tokens; });
  const auto has_bias = [&](Role role) {
    return std::any_of(before.parameters().begin(), before.parameters().end(), [&](const ParameterInfo& info) {
      return info.role == role && fused.tensors.contains(concat(info.place.prefix(), row_of(role).path, ".bias"));
    });
  };
  NetworkConfig& network_of_fused = network(fused.config);
  fused.sites = Fuser(before, pads, network_of_fused.placement, fused.tensors).run();
  network_of_fused.qkv_bias = has_bias(Role::q);
  if (auto* swin = std::get_if<SwinConfig>(&fused.config)) swin->reduction_bias = has_bias(Role::reduction);
  make_model(after, fused.config);
  require_match(after, fused.tensors);
  return fused;
}

std::string fusion_report(std::span<const FusedSite> sites, std::int64_t values_before, std::int64_t values_after) {
  const auto padded = [](std::string_view text, std::size_t width) {
    return std::string(text) + std::string(width > text.size() ? width - text.size() : 0, ' ');
  };
  std::string report;
  for (const FusedSite& result : sites)
    report += concat(padded(result.site, 19), padded(to_string(result.kind), 18),
                     result.merged ? "merged into " : "left: ", result.what, "\n");
  if (sites.empty()) report += "no site has a norm\n";
  return report + concat("parameters and running statistics: ", values_before, " before, ", values_after, " after\n");
}

}  // namespace normlab
