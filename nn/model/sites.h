// The table of the places where a norm may be. Constructors, validation, costs, formulas, descriptors and fusion all
// use its rows.
#pragma once

#include <algorithm>
#include <array>
#include <variant>

#include "nn/model/placement.h"
#include "nn/model/roles.h"

namespace normlab {

/// Where a Placement holds the norm of a site.
using SiteMember =
    std::variant<NormSpec StemSites::*, NormSpec AttentionSites::*, NormSpec MlpSites::*, NormSpec Placement::*>;
/// heads: the width of the model or of one head.
enum class SiteWidth : std::uint8_t { patch, model, heads, hidden, merged };
/// Whether a batch norm can be merged into neighbouring linear layers: those that follow, or the one before.
enum class Fusion : std::uint8_t { next, previous, no };

struct SiteRow {
  std::string_view path;  // "attn.pre", in descriptors and in the names of parameters
  SiteMember member;
  SiteWidth width;
  Rows rows;
  Role linear;  // next to it; q is q, k and v, and head is all that read the pooled features
  Fusion fusion;
  std::string_view doc;                                         // for descriptors
  std::string_view why_not{}, vit_lacks = {}, swin_lacks = {};  // why it cannot be merged; why a model has no such site

  constexpr operator std::string_view() const { return path; }
  constexpr bool is(SiteMember site) const { return member == site; }
  constexpr bool in_block() const { return member.index() == 1 || member.index() == 2; }
};

/// In the order in which data passes them.
inline constexpr auto kSites = [] {
  using enum SiteWidth;
  using enum Rows;
  using enum Role;
  using enum Fusion;
  using Attention = AttentionSites;
  constexpr std::string_view kSum = "it follows a sum with the shortcut, not a linear layer";
  return std::to_array<SiteRow>({
      {"stem.patch_in", &StemSites::patch_in, patch, patches, patch_embed, next, "on the flattened patch"},
      {"stem.patch_out", &StemSites::patch_out, model, patches, patch_embed, previous, "on the patch embedding"},
      {"stem.posembed_out", &StemSites::posembed_out, model, tokens, patch_embed, no,
       "on the tokens, after the positions are added", "it follows the sum with the positions and precedes a shortcut",
       "", "stem.posembed_out is a site of the ViT; a Swin adds no positions"},
      {"attn.pre", &Attention::pre, model, tokens, q, next, "before the branch"},
      {"attn.query", &Attention::query, heads, attended, q, previous, "on each query head; see qk_per_head"},
      {"attn.key", &Attention::key, heads, attended, k, previous, "on each key head; see qk_per_head"},
      {"attn.value", &Attention::value, heads, attended, v, previous, "on the values of all heads; see value_per_head"},
      {"attn.inner", &Attention::inner, model, attended, proj, next,
       "on the joined heads, before the output projection"},
      {"attn.out", &Attention::out, model, tokens, proj, previous, "at the end of the branch, before the sum"},
      {"attn.post", &Attention::post, model, tokens, proj, no, "after the sum", kSum},
      {"mlp.pre", &MlpSites::pre, model, tokens, fc1, next, "before the branch"},
      {"mlp.hidden", &MlpSites::hidden, hidden, tokens, fc1, previous, "before the activation"},
      {"mlp.inner", &MlpSites::inner, hidden, tokens, fc2, next, "after the activation"},
      {"mlp.out", &MlpSites::out, model, tokens, fc2, previous, "at the end of the branch, before the sum"},
      {"mlp.post", &MlpSites::post, model, tokens, fc2, no, "after the sum", kSum},
      {"merge", &Placement::merge, merged, tokens, reduction, next, "in patch merging, Swin only", "",
       "merge is a site of Swin; a ViT has none"},
      {"final", &Placement::final, model, tokens, head, next, "on all tokens, before pooling"},
      {"pooled", &Placement::pooled, model, one, head, next, "on the pooled vector"},
  });
}();
/// The sites that a second residual stream adds, all with Placement::stream_norm: before a branch, on the sum of the
/// streams, and at the end of each stream.
inline constexpr SiteRow kStreamSites[] = {
    {"attn.input", &Placement::stream_norm, SiteWidth::model, Rows::tokens, Role::q, Fusion::no, ""},
    {"mlp.input", &Placement::stream_norm, SiteWidth::model, Rows::tokens, Role::fc1, Fusion::no, ""},
    {"final_x", &Placement::stream_norm, SiteWidth::model, Rows::tokens, Role::head, Fusion::no, ""},
    {"final_y", &Placement::stream_norm, SiteWidth::model, Rows::tokens, Role::head, Fusion::no, ""}};
/// row_of(&MlpSites::hidden).
constexpr const SiteRow& row_of(SiteMember site) {
  return *std::find_if(kSites.begin(), kSites.end(), [&](const SiteRow& row) { return row.is(site); });
}

/// Sizes of a block, and of what lies before or after it.
struct BlockSizes {
  std::int64_t patch_pixels = 0, embed_dim = 0, num_heads = 0, mlp_dim = 0;
  /// Per image: patches, tokens, tokens with the padding of windows. window: tokens that attention sees at a time.
  std::int64_t patches = 0, tokens = 0, attended = 0, window = 0;
  std::int64_t depth = 1;  // blocks of the network
};
std::int64_t rows_of(Rows rows, const BlockSizes& sizes);
/// Whether the norm at a site sees one head at a time.
bool sees_one_head(const SiteRow& site, const Placement& placement);
/// Width of the norm at a site.
std::int64_t width_of(const SiteRow& site, const Placement& placement, const BlockSizes& sizes);

/// The part of a placement, or of a range of blocks, that contains a row's member.
auto& holder_of(auto& sites, NormSpec StemSites::*) requires requires { sites.stem; }
{ return sites.stem; }
auto& holder_of(auto& sites, NormSpec AttentionSites::*) { return sites.attn; }
auto& holder_of(auto& sites, NormSpec MlpSites::*) { return sites.mlp; }
auto& holder_of(auto& sites, NormSpec Placement::*) requires requires { sites.final; }
{ return sites; }

/// The norm of a site in a range of blocks or a placement (there: of blocks without a range). nullptr if it has none.
template <class Sites>
auto* norm_in(Sites& sites, const SiteRow& row) {
  decltype(&sites.attn.pre) found = nullptr;
  const auto look = [&](auto member) {
    if constexpr (requires { holder_of(sites, member); }) found = &(holder_of(sites, member).*member);
  };
  std::visit(look, row.member);
  return found;
}
/// Calls `see(row, spec)` for all of them, in the order in which data passes them.
template <class Sites, class Visitor>
void visit_sites(Sites& sites, Visitor&& see) {
  for (const SiteRow& row : kSites)
    if (auto* spec = norm_in(sites, row)) see(row, *spec);
}
/// The same for a placement and all its ranges of blocks.
template <class P, class Visitor>
void visit_all_sites(P& placement, Visitor&& see) {
  visit_sites(placement, see);
  for (auto& range : placement.blocks) visit_sites(range, see);
}
/// The norm at a site; for sites in blocks, that of block `block`.
const NormSpec& norm_at(const Placement& placement, const SiteRow& site, std::int64_t block);

/// Whether some site is a batch norm, so that shards must meet in every step.
bool uses_batch_norm(const Placement& placement);
/// Whether heads are exclusive in some block.
bool excludes_self(const Placement& placement);
/// Whether attention has a gate, a learned scale or exclusive heads (nn/model/heads.h) in some block.
bool computes_on_heads(const Placement& placement);
/// Whether the mean of this norm's output over the tokens is its bias, whatever its input.
bool mean_is_bias(const NormSpec& spec, std::int64_t width);
/// Whether every norm has statistics per token or none, so that no norm makes a token depend on another.
bool norms_see_one_token(const Placement& placement);

}  // namespace normlab
