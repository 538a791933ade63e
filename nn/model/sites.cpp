#include "nn/model/sites.h"

#include "core/function_ref.h"

namespace normlab {

std::int64_t rows_of(Rows rows, const BlockSizes& s) {
  const std::int64_t counts[] = {s.patches, s.tokens, s.attended, 1};
  return counts[std::size_t(rows)];
}

bool sees_one_head(const SiteRow& site, const Placement& placement) {
  return site.width == SiteWidth::heads &&
         (site.is(&AttentionSites::value) ? placement.value_per_head : placement.qk_per_head);
}

std::int64_t width_of(const SiteRow& site, const Placement& placement, const BlockSizes& s) {
  switch (site.width) {
    case SiteWidth::patch:
      return s.patch_pixels;
    case SiteWidth::model:
      return s.embed_dim;
    case SiteWidth::heads:
      return sees_one_head(site, placement) ? s.embed_dim / s.num_heads : s.embed_dim;
    case SiteWidth::hidden:
      return s.mlp_dim;
    case SiteWidth::merged:
      return 2 * s.embed_dim;
  }
  return 0;
}

const NormSpec& norm_at(const Placement& placement, const SiteRow& site, std::int64_t block) {
  if (const auto* attention = std::get_if<NormSpec AttentionSites::*>(&site.member))
    return placement.attention_sites(block).**attention;
  if (const auto* mlp = std::get_if<NormSpec MlpSites::*>(&site.member)) return placement.mlp_sites(block).**mlp;
  return *norm_in(placement, site);
}

namespace {

bool any_norm(const Placement& placement, FunctionRef<bool(const NormSpec&)> is) {
  bool found = false;
  visit_all_sites(placement, [&](const SiteRow&, const NormSpec& spec) { found = found || is(spec); });
  return found;
}

}  // namespace

bool uses_batch_norm(const Placement& placement) {
  return any_norm(placement, [](const NormSpec& spec) { return parts_of(spec.kind).over == Statistics::batch; });
}

bool excludes_self(const Placement& placement) {
  const auto excludes = [](const auto& sites) { return sites.attn.exclude_self; };
  return excludes(placement) || std::any_of(placement.blocks.begin(), placement.blocks.end(), excludes);
}

bool computes_on_heads(const Placement& placement) {
  return placement.attn_gate != AttnGate::none || placement.attn_scale != AttnScale::fixed || excludes_self(placement);
}

bool mean_is_bias(const NormSpec& spec, std::int64_t width) {
  const std::int64_t groups = setting(spec, &NormSpec::groups);
  return parts_of(spec.kind).op == NormOp::group_norm && (groups == 0 || groups == width);
}

bool norms_see_one_token(const Placement& placement) {
  return !any_norm(placement, [](const NormSpec& spec) { return !is_of_one_token(spec); });
}

}  // namespace normlab
