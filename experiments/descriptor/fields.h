// Field tables of a placement's parts.
#pragma once

#include "experiments/descriptor/config.h"
#include "nn/sites.h"

namespace normlab {

/// A norm setting applies if its kind's row lists it.
template <auto kMember>
constexpr auto norm_field(std::string_view doc, Range range = {}) {
  return field<kMember>(doc, range)
      .when({[](const NormSpec& c) { return parts_of(c.kind).has(kMember); }, "a norm of kind {kind} has no {}"});
}
template <std::same_as<NormSpec> T>
constexpr auto rows_of(const T*) {
  return std::tuple{
      field<&T::kind>("kind of norm"),
      norm_field<&T::eps>("added under the square root; 1e-6, for batch_norm and group_norm 1e-5", kPositive),
      norm_field<&T::momentum>("batch_norm: weight of the new value in the running statistics", kShare),
      norm_field<&T::statistics_batch>("batch_norm: images that each statistic covers; 0: the whole batch", kFromZero),
      norm_field<&T::alpha_init>("dyt: initial value of alpha"),
      norm_field<&T::beta_init>("dyt: initial value of beta"),
      norm_field<&T::groups>("group_norm: groups of adjacent channels; must divide the site's width", kFromOne)};
}
inline NormSpec defaults_beside(const NormSpec& spec) { return norm_of(spec.kind); }

/// Fields for the rows of kSites whose norms are members of T.
template <class T>
constexpr auto site_fields() {
  constexpr auto holds = [](const SiteRow& row) { return std::holds_alternative<NormSpec T::*>(row.member); };
  std::array<Field<T, NormSpec>, std::size_t(std::count_if(kSites.begin(), kSites.end(), holds))> out{};
  auto next = out.begin();
  for (const SiteRow& row : kSites)
    if (holds(row))
      *next++ = make_field(row.path.substr(row.path.rfind('.') + 1), std::get<NormSpec T::*>(row.member), row.doc, {});
  return out;
}
template <std::same_as<StemSites> T>
constexpr auto rows_of(const T*) {
  return std::tuple_cat(
      site_fields<T>(),
      std::tuple{field<&T::posembed_out_includes_class>("posembed_out normalizes the class token, too")
                     .when({[](const T& c) { return c.posembed_out.kind != NormKind::none; },
                            "there is no norm at posembed_out"})});
}
template <std::same_as<AttentionSites> T>
constexpr auto rows_of(const T*) {
  return site_fields<T>();
}
template <std::same_as<MlpSites> T>
constexpr auto rows_of(const T*) {
  return site_fields<T>();
}

// The key in "blocks" gives the range.
template <std::same_as<BlockRange> T>
constexpr auto rows_of(const T*) {
  return std::tuple{field<&T::attn>("sites of the attention branch, as changes to those of all blocks"),
                    field<&T::mlp>("sites of the MLP branch, as changes to those of all blocks")};
}

// The reader handles `init`, a number or "auto", separately.
template <std::same_as<LayerScale> T>
constexpr auto rows_of(const T*) {
  return std::tuple{field<&T::kind>("one gain per channel, or one scalar per branch")};
}

// The reader handles "blocks" separately, since it depends on the other sites.
template <std::same_as<Placement> T>
constexpr auto rows_of(const T*) {
  return std::tuple_cat(
      std::tuple{field<&T::stem>("sites of the stem"), field<&T::attn>("sites of the attention branch"),
                 field<&T::mlp>("sites of the MLP branch")},
      site_fields<T>(),
      std::tuple{
          field<&T::head_scale>("a learned gain per head"),
          field<&T::residual_scale>("a learned gain per channel on the shortcut of the MLP"),
          field<&T::layer_scale>("a learned gain on both branches"),
          field<&T::init_gain>("multiplies the random initial values of v, out, fc1 and fc2; a number or \"sub_ln\"")});
}

}  // namespace normlab
