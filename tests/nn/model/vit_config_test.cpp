#include "nn/model/model_config.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>

using namespace normlab;

namespace {

ViTConfig vit(std::int64_t width, std::int64_t depth, std::int64_t heads, std::int64_t patch, std::int64_t image,
              std::int64_t classes) {
  ViTConfig c;
  c.image_size = {image, image};
  c.patch_size = patch;
  c.embed_dim = width;
  c.depth = depth;
  c.num_heads = heads;
  c.mlp_dim = 4 * width;
  c.num_classes = classes;
  c.placement = find_placement("pre_pre")->placement;
  return c;
}
ViTConfig tiny16() { return vit(192, 12, 3, 16, 224, 1000); }
ViTConfig small16() { return vit(384, 12, 6, 16, 224, 1000); }
ViTConfig sandbox() { return vit(64, 4, 2, 4, 32, 10); }

std::string problems(const ViTConfig& config) {
  std::string out;
  for (const ConfigProblem& problem : validate(config)) out += problem.key + ": " + problem.message + "\n";
  return out;
}

}  // namespace

// Counts of the reference implementation, which agree with timm, big_vision and torch's flop counter.
TEST_CASE("vit_config: known models have their parameters and multiply-adds") {
  const auto check = [](const ViTConfig& config, std::int64_t parameters, std::int64_t macs) {
    const ModelCost cost = model_cost(config);
    CHECK(cost.parameters == parameters);
    CHECK(cost.macs == macs);
  };
  ViTConfig c = tiny16();
  check(c, 5717032, 1246563840);
  c.pos_embed = PosEmbed::sincos2d;
  check(c, 5679400, 1246563840);
  c.rep_size = 192;
  check(c, 5716456, 1246600704);
  c = tiny16();
  c.pool = Pool::token;
  check(c, 5717224, 1253683200);
  c.rep_size = 192;
  check(c, 5754280, 1253720064);
  c.rep_size = 0;
  c.pos_embed_class = true;
  check(c, 5717416, 1253683200);
  c = small16();
  c.pool = Pool::token;
  check(c, 22050280, 4598882304);
  check(vit(768, 12, 12, 32, 224, 1000), 88222696, 4322426880);
  check(sandbox(), 207946, 14877312);
}

TEST_CASE("vit_config: placements have their numbers of parameters") {
  const auto parameters = [](ViTConfig config, const char* name) {
    config.placement = find_placement(name)->placement;
    return model_cost(config).parameters;
  };
  CHECK(parameters(small16(), "dpn") == 22052200);
  CHECK(parameters(small16(), "bn") == 22049896);
  CHECK(parameters(small16(), "bn_ffnbn") == 22086760);
  CHECK(parameters(small16(), "bn_extra_attn") == 22105192);
  CHECK(parameters(small16(), "none") == 22030696);
  CHECK(parameters(small16(), "rms_norm") == 22040296);
  CHECK(parameters(small16(), "dyt") == 22049921);
  CHECK(parameters(small16(), "layer_scale") == 22059112);
  CHECK(parameters(small16(), "sub_ln") == 22095976);
  CHECK(parameters(small16(), "normformer_full") == 22100656);
  CHECK(parameters(small16(), "prepost_prepost") == 22068328);
  CHECK(parameters(sandbox(), "normformer_full") == 210770);
  CHECK(parameters(sandbox(), "dpn") == 208170);
}

TEST_CASE("vit_config: the heads share the norm of the queries and that of the keys") {
  ViTConfig c = sandbox();
  c.placement.attn.query = c.placement.attn.key = norm_of(NormKind::layer_norm);
  CHECK(model_cost(c).parameters == 208458);
}

TEST_CASE("vit_config: without qkv_bias q, k and v have no bias") {
  ViTConfig c = sandbox();
  c.qkv_bias = false;
  CHECK(model_cost(c).parameters == 207178);
}

TEST_CASE("vit_config: a problem is reported with its key") {
  CHECK(problems(sandbox()) == "");
  ViTConfig c = sandbox();
  c.num_heads = 3;
  CHECK(problems(c) == "num_heads: 3 heads do not divide embed_dim 64\n");
  c = sandbox();
  c.placement.attn.query = norm_of(NormKind::group_norm);
  c.placement.attn.query.groups = 3;
  CHECK(problems(c) == concat("placement: attn.query: 3 groups do not divide ", 64 / c.num_heads, " channels\n"));
  c = sandbox();
  c.image_size = {32, 30};
  CHECK(problems(c) == "patch_size: patches of 4 do not divide an image of 32 x 30\n");
  c = sandbox();
  c.pos_embed = PosEmbed::sincos2d;
  c.embed_dim = 66;
  CHECK(problems(c) == "pos_embed: sincos2d needs an embed_dim that is a multiple of 4, and at least 8, got 66\n");
  c = sandbox();
  c.drop_path = 1.0;
  c.dropout = -0.1;
  CHECK(problems(c) ==
        "dropout: dropout must be at least 0 and below 1, got -0.1\n"
        "drop_path: drop_path must be at least 0 and below 1, got 1\n");
}

TEST_CASE("vit_config: hostile sizes are refused before they divide or overflow anything") {
  const std::pair<const char*, std::int64_t ViTConfig::*> sizes[] = {
      {"channels", &ViTConfig::channels},      {"patch_size", &ViTConfig::patch_size},
      {"embed_dim", &ViTConfig::embed_dim},    {"depth", &ViTConfig::depth},
      {"num_heads", &ViTConfig::num_heads},    {"mlp_dim", &ViTConfig::mlp_dim},
      {"num_classes", &ViTConfig::num_classes}};
  for (const std::int64_t bad : {std::int64_t(0), std::int64_t(-4), INT64_MAX, INT64_MIN}) {
    CAPTURE(bad);
    for (const auto& size : sizes) {
      ViTConfig c = sandbox();
      c.*size.second = bad;
      REQUIRE(validate(c).size() == 1);
      CHECK(validate(c)[0].key == size.first);
    }
    ViTConfig c = sandbox();
    c.image_size[1] = bad;
    REQUIRE(validate(c).size() == 1);
    CHECK(validate(c)[0].key == "image_size");
  }
}

TEST_CASE("vit_config: the cost of the largest sizes does not overflow") {
  ViTConfig largest = vit(65536, 1024, 1, 256, 65536, 1 << 22);
  largest.channels = 1024;
  largest.mlp_dim = 1 << 17;
  REQUIRE(validate(largest).empty());
  CHECK(model_cost(largest).macs > 0);
  CHECK(model_cost(largest).parameters > 0);
}

TEST_CASE("vit_config: a final norm whose mean over the tokens is its bias is refused") {
  ViTConfig c = sandbox();
  c.placement.final = norm_of(NormKind::instance_norm);
  REQUIRE(validate(c).size() == 1);
  CHECK(validate(c)[0].message.find("the mean of this norm over the tokens is its bias") != std::string::npos);
  c.placement.final = norm_of(NormKind::group_norm);
  c.placement.final.groups = c.embed_dim;
  CHECK(validate(c).size() == 1);
  c.placement.final.groups = c.embed_dim / 2;
  CHECK(validate(c).empty());
  c.placement.final = norm_of(NormKind::instance_norm);
  c.pool = Pool::token;
  CHECK(validate(c).empty());
}

TEST_CASE("vit_config: whitening is for patches") {
  ViTConfig c = sandbox();
  c.placement.stem.patch_in = norm_of(NormKind::whiten);
  CHECK(validate(c).empty());
  c.placement.attn.pre = norm_of(NormKind::whiten);
  REQUIRE(validate(c).size() == 1);
  CHECK(validate(c)[0].message.find("whiten can only be at stem.patch_in") != std::string::npos);
}
