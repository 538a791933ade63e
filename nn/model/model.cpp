#include "nn/model/model.h"

#include <algorithm>

#include "nn/model/freeze.h"
#include "nn/model/swin.h"
#include "nn/model/vit.h"

namespace normlab {

namespace {

/// What lies around each place of a network.
class Surroundings {
 public:
  explicit Surroundings(const ModelConfig& config) : config_(config) {}
  const Placement& placement(const Place& at) const {
    return of_text(at) ? std::get<ViTConfig>(config_).text.placement : placement_of(config_);
  }
  const BlockSizes& sizes(const Place& at) const {
    const std::vector<BlockSizes>& blocks = of_text(at) ? texts_ : images_;
    const auto layer = std::size_t(at.block < 0 ? at.layer : at.layer - 1);  // patch merging has the sizes of its stage
    return blocks[std::min(layer, blocks.size() - 1)];
  }

 private:
  static bool of_text(const Place& at) { return at.stage == kTextStage; }
  const ModelConfig& config_;
  std::vector<BlockSizes> images_ = block_sizes(config_),
                          texts_ = has_text(config_) ? block_sizes(text_tower(std::get<ViTConfig>(config_))) : images_;
};

/// Vectors of an image that a norm sees.
std::int64_t vectors_at(const SiteRow& site, const Placement& placement, const BlockSizes& sizes) {
  const bool patches = site.is(&StemSites::posembed_out) && !placement.stem.posembed_out_includes_class;
  return rows_of(patches ? Rows::patches : site.rows, sizes) * (sees_one_head(site, placement) ? sizes.num_heads : 1);
}

}  // namespace

bool uses_batch_norm(const ModelConfig& config) {
  if (uses_batch_norm(placement_of(config))) return true;
  return has_text(config) && uses_batch_norm(std::get<ViTConfig>(config).text.placement);
}

std::vector<BatchStatistic> batch_statistics(const ModelConfig& config, std::span<const std::string> freeze) {
  if (!uses_batch_norm(config)) return {};
  ParameterSet declared;
  make_model(declared, config);
  const std::vector<bool> frozen = freezing(freeze, declared.parameters()).marks;
  const Surroundings around(config);
  std::vector<BatchStatistic> out;
  for (std::size_t p = 0; p < frozen.size(); ++p) {
    const ParameterInfo& info = declared.parameters()[p];
    constexpr std::string_view kGain = ".gamma";
    if (info.site == nullptr || frozen[p] || !info.name.ends_with(kGain)) continue;
    const Placement& placement = around.placement(info.place);
    const NormSpec& spec = norm_at(placement, *info.site, info.place.layer - 1);
    if (parts_of(spec.kind).over != Statistics::batch) continue;
    const BlockSizes& sizes = around.sizes(info.place);
    out.push_back(
        {info.name.substr(0, info.name.size() - kGain.size()), &spec, vectors_at(*info.site, placement, sizes)});
  }
  return out;
}

ModelCost model_cost(const ModelConfig& config) {
  ParameterSet declared;
  make_model(declared, config);
  const Surroundings around(config);
  ModelCost cost{.parameters = declared.count()};
  for (const ParameterInfo& info : declared.parameters()) {
    const Place& at = info.place;
    const BlockSizes& sizes = around.sizes(at);
    const Placement& placement = around.placement(at);
    if (info.site && info.shape.rank() == 2) cost.macs += info.shape.size() * vectors_at(*info.site, placement, sizes);
    if (!info.decays || !is_linear(info.role))
      continue;  // the rest handles weights of linear layers, each with its neighbouring norms
    const bool of_patches = info.role == Role::head && task_of(config) == Task::segment;
    cost.macs += info.shape.size() * rows_of(of_patches ? Rows::patches : row_of(info.role).rows, sizes);
    if (info.role == Role::q) cost.macs += 2 * sizes.attended * sizes.window * sizes.embed_dim;
    const auto add_norm = [&](const SiteRow& site) {
      const NormSpec& spec = norm_at(placement, site, at.layer - 1);
      if (site.linear != info.role || spec.kind == NormKind::none) return;
      const std::int64_t vectors = vectors_at(site, placement, sizes), width = width_of(site, placement, sizes);
      cost.norm_elements += vectors * width;
      cost.inside_norms += vectors * parts_of(spec.kind).inner * width;
    };
    for (const SiteRow& site : kSites) add_norm(site);
    for (const SiteRow& site : kStreamSites) add_norm(site);
  }
  return cost;
}

std::vector<FormulaAt> formulas_of(const ModelConfig& config) {
  std::vector<FormulaAt> out;
  const auto see = [&](const std::string& prefix, const NetworkConfig& network, const std::vector<BlockSizes>& blocks) {
    const Placement& placement = network.placement;
    const auto add = [&](const FormulaAt& one) {
      const auto same = [&](const FormulaAt& other) {
        return other.function == one.function && other.site == one.site;
      };
      if (one.function && std::none_of(out.begin(), out.end(), same)) out.push_back(one);
    };
    const auto at = [&](const SiteRow& site, std::size_t block, std::int64_t layer) {
      const NormSpec& spec = norm_at(placement, site, std::int64_t(block));
      if (!spec.formula) return;
      const std::int64_t width = width_of(site, placement, blocks[block]);
      add({concat(prefix, site.path), spec.formula,
           formula_site(*spec.formula, spec.eps, width, blocks[block], layer)});
    };
    for (const SiteRow& site : kSites) {
      const bool early = std::holds_alternative<NormSpec StemSites::*>(site.member);
      if (site.in_block() || site.is(&Placement::merge))
        for (std::size_t b = 0; b < blocks.size(); ++b) at(site, b, std::int64_t(b) + 1);
      else
        at(site, early ? 0 : blocks.size() - 1, early ? 0 : std::int64_t(blocks.size()) + 1);
    }
    for (const SiteRow& site : kStreamSites) at(site, 0, 1);
    if (const NormFormula* const f = network.activation.formula)
      for (std::size_t b = 0; b < blocks.size(); ++b)
        add({concat(prefix, "mlp.activation"), f,
             formula_site(*f, formula::Site{}.eps, blocks[b].mlp_dim, blocks[b], std::int64_t(b) + 1), true});
  };
  see("", network(config), block_sizes(config));
  if (!has_text(config)) return out;
  const ViTConfig tower = text_tower(std::get<ViTConfig>(config));
  see("text.", tower, block_sizes(tower));
  return out;
}

bool runs_formulas(const ModelConfig& config) {
  const auto inside = [](const NetworkConfig& c) {
    bool found = function_of(c.activation, c.mlp, c.gelu) != nullptr || computes_on_heads(c.placement) ||
                 parts_of(c.placement.stream_norm.kind).inner > 0;
    visit_all_sites(c.placement,
                    [&](const SiteRow&, const NormSpec& spec) { found = found || parts_of(spec.kind).inner > 0; });
    return found;
  };
  return !formulas_of(config).empty() || inside(network(config)) ||
         (has_text(config) && inside(text_tower(std::get<ViTConfig>(config))));
}

std::vector<BlockSizes> block_sizes(const ModelConfig& config) {
  return std::visit([](const auto& c) { return block_sizes(c); }, config);
}

std::int64_t widest_layer(const ModelConfig& config) {
  // Called in every step, which must not allocate.
  if (const auto* vit = std::get_if<ViTConfig>(&config)) {
    const std::int64_t block = vit->tokens() * (hidden_tensors(vit->mlp) * vit->mlp_dim + vit->embed_dim);
    if (vit->task == Task::segment)  // the resized logits
      return std::max(block, vit->image_size[0] * vit->image_size[1] * vit->num_classes);
    const TextConfig& text = vit->text;
    const std::int64_t of_text = text.length * (hidden_tensors(text.mlp) * text.mlp_dim + text.embed_dim);
    return vit->task != Task::contrast ? block : std::max(block, of_text);
  }
  std::int64_t widest = 0;
  const std::int64_t hidden = hidden_tensors(network(config).mlp);
  for (const BlockSizes& s : block_sizes(config))
    widest = std::max(widest, s.attended * (hidden * s.mlp_dim + s.embed_dim));
  return widest;
}

std::vector<ConfigProblem> validate(const ModelConfig& config) {
  return std::visit([](const auto& c) { return validate(c); }, config);
}

std::unique_ptr<Model> make_model(ParameterSet& parameters, const ModelConfig& config) {
  if (const auto* swin = std::get_if<SwinConfig>(&config)) return std::make_unique<Swin>(parameters, *swin);
  return std::make_unique<ViT>(parameters, std::get<ViTConfig>(config));
}

}  // namespace normlab
