#include "nn/training/update_factors.h"

#include <doctest/doctest.h>

#include <cmath>

#include "nn/model/freeze.h"
#include "nn/model/model.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {
std::map<std::string, UpdateFactors> factors_by_name(const ModelConfig& config, double layer_decay,
                                                     const std::vector<Multiplier>& multipliers) {
  ParameterSet set;
  make_model(set, config);
  const std::vector<UpdateFactors> factors = update_factors(config, set.parameters(), layer_decay, multipliers);
  std::map<std::string, UpdateFactors> out;
  for (std::size_t i = 0; i < factors.size(); ++i) out[set.parameters()[i].name] = factors[i];
  return out;
}
ViTConfig two_blocks() {
  ViTConfig c = small_vit("dpn");
  c.rep_size = 8;
  return c;
}
}  // namespace

TEST_CASE("update_factors: a star stands for any text") {
  CHECK(fits("*", ""));
  CHECK(fits("*", "head.bias"));
  CHECK(fits("head.bias", "head.bias"));
  CHECK(!fits("head", "head.bias"));
  CHECK(fits("*.bias", "head.bias"));
  CHECK(!fits("*.bias", "head.bias.x"));
  CHECK(fits("blocks.*.q.*", "blocks.11.attn.q.weight"));
  CHECK(!fits("blocks.*.q.*", "blocks.11.attn.k.weight"));
  CHECK(fits("**a*b", "xabab"));
  CHECK(!fits("", "a"));
  CHECK(fits("", ""));
}

TEST_CASE("update_factors: rates fall by a factor per layer from the head on") {
  const auto factors = factors_by_name(two_blocks(), 0.5, {});
  CHECK(factors.at("head.weight").lr == 1.0);
  CHECK(factors.at("rep.weight").lr == 1.0);
  CHECK(factors.at("final.gamma").lr == 1.0);
  CHECK(factors.at("blocks.1.attn.q.weight").lr == 0.5);
  CHECK(factors.at("blocks.0.mlp.fc1.bias").lr == 0.25);
  CHECK(factors.at("patch_embed.weight").lr == 0.125);
  CHECK(factors.at("pos_embed").lr == 0.125);
  CHECK(factors.at("stem.patch_in.gamma").lr == 0.125);
}

TEST_CASE("update_factors: layer decay does not change the weight decay") {
  for (const auto& [name, of] : factors_by_name(two_blocks(), 0.5, {})) CHECK(of.weight_decay == 1.0);
}

TEST_CASE("update_factors: a Swin's blocks are counted over all stages") {
  const auto factors = factors_by_name(small_swin("pre_pre"), 0.5, {});  // depths 2, 2, 1
  CHECK(factors.at("head.weight").lr == 1.0);
  CHECK(factors.at("stages.2.blocks.0.attn.q.weight").lr == 0.5);
  CHECK(factors.at("stages.1.blocks.1.attn.q.weight").lr == 0.25);
  CHECK(factors.at("stages.2.reduction.weight").lr == 0.25);
  CHECK(factors.at("stages.1.reduction.weight").lr == 0.0625);
  CHECK(factors.at("stages.0.blocks.1.mlp.fc2.bias").lr == 0.0625);
  CHECK(factors.at("stages.0.blocks.0.attn.bias_table").lr == 0.03125);
  CHECK(factors.at("patch_embed.weight").lr == 0.015625);
}

TEST_CASE("update_factors: the last multiplier that fits is applied to the factor of the layer") {
  const std::vector<Multiplier> multipliers{{"*.bias", 2.0, 0.0}, {"head.*", 10.0, 0.5}};
  const auto factors = factors_by_name(small_vit("pre_pre"), 0.5, multipliers);
  CHECK(factors.at("blocks.0.mlp.fc1.bias") == UpdateFactors{0.5, 0.0});
  CHECK(factors.at("head.bias") == UpdateFactors{10.0, 0.5});
  CHECK(factors.at("head.weight") == UpdateFactors{10.0, 0.5});
  CHECK(factors.at("blocks.1.mlp.fc1.weight") == UpdateFactors{0.5, 1.0});
}

TEST_CASE("update_factors: a multiplier that fits no parameter is refused") {
  CHECK_THROWS_WITH_AS(factors_by_name(small_vit("pre_pre"), 1.0, {{"heads.*"}}),
                       "multipliers: no parameter matches \"heads.*\"", InputError);
}
