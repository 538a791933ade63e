#include <doctest/doctest.h>

#include <set>

#include "nn/model/model.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {

const ParameterInfo& named(const ParameterSet& set, std::string_view name) {
  const int number = set.find(name);
  REQUIRE_MESSAGE(number >= 0, name);
  return set.parameters()[std::size_t(number)];
}

/// A network with a norm of four parameters at every site that it has, and all gains.
template <class Config>
Config full(Config c) {
  visit_sites(c.placement, [&](const SiteRow& row, NormSpec& spec) {
    if ((std::is_same_v<Config, ViTConfig> ? row.vit_lacks : row.swin_lacks).empty()) spec = norm_of(NormKind::dyt);
  });
  c.placement.head_scale = HeadScale::before_proj;
  c.placement.attn_gate = AttnGate::head;
  c.placement.attn_scale = AttnScale::learned;
  c.placement.layer_scale.kind = LayerScaleKind::channel;
  return c;
}

/// That what a parameter is agrees with its name.
void check_names(const ModelConfig& config, std::size_t norms) {
  ParameterSet set;
  make_model(set, config);
  std::set<std::string> sites;
  for (const ParameterInfo& info : set.parameters()) {
    CAPTURE(info.name);
    const std::string prefix = info.place.prefix();
    CHECK(info.name.starts_with(prefix));
    CHECK(info.decays == info.name.ends_with(".weight"));
    if (info.place.block >= 0) CHECK(info.name.substr(prefix.size()).starts_with(info.place.branch));
    if (is_linear(info.role))
      CHECK(info.name == concat(prefix, row_of(info.role).path, info.decays ? ".weight" : ".bias"));
    if (info.role == Role::norm) {
      CHECK(info.name.starts_with(concat(prefix, info.site->path, ".")));
      sites.insert(std::string(info.site->path));
    }
  }
  CHECK(sites.size() == norms);
}

}  // namespace

TEST_CASE("roles: the role and the place of a parameter agree with its name") {
  check_names(full(small_vit("pre_pre")), kSites.size() - 1);
  check_names(full(small_swin("pre_pre")), kSites.size() - 1);
}

TEST_CASE("roles: layers are counted over the blocks of all stages") {
  ParameterSet set;
  make_model(set, full(small_swin("pre_pre")));  // depths 2, 2, 1
  CHECK(named(set, "patch_embed.weight").place.layer == 0);
  CHECK(named(set, "stages.0.blocks.0.attn.bias_table").place.layer == 1);
  CHECK(named(set, "stages.2.blocks.0.mlp.layer_scale").place.layer == 5);
  CHECK(named(set, "final.alpha").place.layer == 6);
}

TEST_CASE("roles: a reduction is in the layer of the block before it") {
  ParameterSet set;
  make_model(set, full(small_swin("pre_pre")));
  CHECK(named(set, "stages.1.merge.gamma").place.layer == 2);
  CHECK(named(set, "stages.1.reduction.weight").place.layer == 2);
}

TEST_CASE("roles: a bias has the fan-in of its weight") {
  ParameterSet set;
  make_model(set, full(small_swin("pre_pre")));
  CHECK(named(set, "head.bias").fan_in == 48);
}

TEST_CASE("roles: a parameter of a norm has the norm's start value") {
  ParameterSet set;
  make_model(set, full(small_swin("pre_pre")));
  CHECK(named(set, "final.alpha").start == 0.5);
}

TEST_CASE("roles: the cost of fixed positions is computed without their table") {
  ViTConfig c = small_vit("pre_pre");
  c.pos_embed = PosEmbed::sincos2d;
  c.image_size = {4096, 4096};
  c.embed_dim = 65536;  // 2^16 patches, a table of 32 GiB
  c.patch_size = 16;
  c.num_heads = 1;
  REQUIRE(validate(c).empty());
  CHECK(model_cost(c).parameters > 0);
}
