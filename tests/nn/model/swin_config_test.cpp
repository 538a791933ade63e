#include "nn/model/swin_config.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "nn/model/model.h"
#include "nn/model/residual.h"

using namespace normlab;

namespace {

using Shift = std::array<std::int64_t, 2>;

SwinConfig named(std::string_view variant, std::string_view placement) {
  SwinConfig c;
  for (const SwinVariant& v : kSwinVariants)
    if (v.name == variant) set_variant(c, v);
  c.image_size = {224, 224};
  c.num_classes = 1000;
  c.placement = swin_placement(find_placement(placement)->placement);
  return c;
}

std::string problems(const SwinConfig& config) {
  std::string out;
  for (const ConfigProblem& problem : validate(config)) out += problem.key + ": " + problem.message + "\n";
  return out;
}

std::vector<std::string> keys(const SwinConfig& config) {
  std::vector<std::string> out;
  for (const ConfigProblem& problem : validate(config)) out.push_back(problem.key);
  return out;
}

/// Stages of 9, 5, 3 and 2 tokens a side.
std::vector<SwinStage> small_stages() {
  SwinConfig c = named("Swin-T", "pre_pre");
  c.image_size = {36, 36};
  return swin_stages(c);
}

/// The number of parameters that the network declares.
std::int64_t declared(const SwinConfig& config) {
  ParameterSet parameters;
  const auto model = make_model(parameters, config);
  return parameters.count();
}

}  // namespace

// "Leveraging Batch Normalization for Vision Transformers", table 6: parameters in millions, multiply-adds with norms
// in billions, as printed.
TEST_CASE("swin_config: parameters and multiply-adds are those of the batch norm paper") {
  const auto check = [](std::string_view variant, std::string_view placement, double millions, double billions) {
    CAPTURE(variant);
    CAPTURE(placement);
    const ModelCost cost = model_cost(named(variant, placement));
    CHECK(double(cost.parameters) * 1e-6 == doctest::Approx(millions).epsilon(0.005 / millions));
    CHECK(double(cost.macs_with_norms()) * 1e-9 == doctest::Approx(billions).epsilon(0.005 / billions));
  };
  check("Swin-T", "pre_pre", 28.29, 4.49);
  check("Swin-T", "bn_ffnbn", 28.32, 4.50);
  check("Swin-S", "pre_pre", 49.61, 8.75);
  check("Swin-S", "bn_ffnbn", 49.68, 8.76);
  check("Swin-B", "pre_pre", 87.77, 15.44);
  check("Swin-B", "bn_ffnbn", 87.86, 15.45);
}

TEST_CASE("swin_config: a Swin-T has the parameters of timm's") {
  CHECK(model_cost(named("Swin-T", "pre_pre")).parameters == 28288354);
}

TEST_CASE("swin_config: the cost counts the declared parameters") {
  SwinConfig c;
  c.image_size = {20, 28};
  c.patch_size = 2;
  c.window = 4;
  c.embed_dim = 12;
  c.depths = {2, 1, 1};
  c.num_heads = {2, 2, 4};
  for (const NamedPlacement& row : named_placements()) {
    if (row.placement.stem.posembed_out.kind != NormKind::none || row.placement.has_two_streams()) continue;
    CAPTURE(row.name);
    c.placement = swin_placement(row.at(c.depth()));
    CHECK(model_cost(c).parameters == declared(c));
  }
  c.placement.attn.query = c.placement.attn.key = c.placement.pooled = swin_norm(NormKind::layer_norm);
  c.qkv_bias = false;
  CHECK(model_cost(c).parameters == declared(c));
}

TEST_CASE("swin_config: each stage has half the side and twice the width") {
  const SwinConfig c = named("Swin-T", "pre_pre");
  const std::vector<SwinStage> stages = swin_stages(c);
  REQUIRE(stages.size() == 4);
  CHECK(stages[0].height == 56);
  CHECK(stages[3].height == 7);
  CHECK(stages[3].embed_dim == 768);
}

TEST_CASE("swin_config: every other block is shifted by half a window") {
  const std::vector<SwinStage> stages = swin_stages(named("Swin-T", "pre_pre"));
  CHECK(stages[0].shift(0) == Shift{0, 0});
  CHECK(stages[0].shift(1) == Shift{3, 3});
}

TEST_CASE("swin_config: a stage of one window is not shifted") {
  CHECK(swin_stages(named("Swin-T", "pre_pre"))[3].shift(1) == Shift{0, 0});
}

TEST_CASE("swin_config: each side decides alone whether it shifts") {
  SwinConfig c = named("Swin-T", "pre_pre");
  c.image_size = {56, 28};  // 14 x 7, 7 x 4, 4 x 2, 2 x 1
  const std::vector<SwinStage> stages = swin_stages(c);
  CHECK(stages[0].shift(1) == Shift{3, 0});
  CHECK(stages[1].shift(1) == Shift{2, 0});
  CHECK(stages[2].shift(1) == Shift{1, 0});
  CHECK(stages[3].shift(1) == Shift{0, 0});  // a window of 1
  CHECK(shifts_one_side(c));
  CHECK(pads_shifted(c));  // 7 rows in windows of 4
  c.depths = {2, 1, 1, 1};
  CHECK_FALSE(pads_shifted(c));  // the first block of a stage does not shift
  CHECK(shifts_one_side(c));
  c.depths = {1, 1, 1, 1};
  CHECK_FALSE(shifts_one_side(c));
}

TEST_CASE("swin_config: blocks are counted over the stages") {
  const SwinConfig c = named("Swin-T", "pre_pre");
  CHECK(swin_stages(c)[2].first_block == 4);
  CHECK(c.depth() == 12);
}

TEST_CASE("swin_config: the drop-path rate grows over the blocks of all stages") {
  SwinConfig c = named("Swin-T", "pre_pre");
  c.drop_path = 0.11;
  CHECK(drop_path_rate(c, swin_stages(c)[2].first_block + 1, c.depth()) == doctest::Approx(0.05));
  c.drop_path_rates = DropPathRates::constant;
  CHECK(drop_path_rate(c, 0, c.depth()) == 0.11);
  CHECK(drop_path_rate(c, 0, 1) == 0.11);
}

TEST_CASE("swin_config: a stage that windows do not divide is padded") {
  const std::vector<SwinStage> stages = small_stages();
  CHECK(stages[0].window == 7);
  CHECK(stages[0].padded_tokens() == 14 * 14);
  CHECK(stages[0].shift(1) == Shift{3, 3});
  CHECK(stages[0].pads_shifted());
  CHECK_FALSE(stages[1].pads_shifted());
}

TEST_CASE("swin_config: a stage smaller than a window is one window") {
  const std::vector<SwinStage> stages = small_stages();
  CHECK(stages[1].height == 5);
  CHECK(stages[1].window == 5);
  CHECK(stages[3].window == 2);
}

TEST_CASE("swin_config: the norm of the merges is the main norm of the row") {
  const auto merge = [](const char* name) { return named("Swin-T", name).placement.merge.kind; };
  CHECK(merge("pre_pre") == NormKind::layer_norm);
  CHECK(merge("post_post_no_final") == NormKind::layer_norm);
  CHECK(merge("bn_ffnbn_respost") == NormKind::batch_norm);
  CHECK(merge("ln_extra_bn") == NormKind::layer_norm);
  CHECK(merge("dyt") == NormKind::dyt);
  CHECK(merge("none") == NormKind::none);
}

TEST_CASE("swin_config: the norms of a row's stem stay") {
  const Placement affine = named("Swin-T", "dpn_only_learnable").placement;
  CHECK(affine.stem.patch_in.kind == NormKind::affine);
  CHECK(affine.stem.patch_out.kind == NormKind::affine);  // the row says so itself
  CHECK(affine.merge == NormSpec{.kind = NormKind::layer_norm, .eps = 1e-5});
  CHECK(affine.attn.query == norm_of(NormKind::none));
}

TEST_CASE("swin_config: batch norm is seen at any site") {
  CHECK(uses_batch_norm(ModelConfig(named("Swin-T", "bn"))));
  CHECK_FALSE(uses_batch_norm(ModelConfig(named("Swin-T", "pre_pre"))));
  SwinConfig only_merge = named("Swin-T", "pre_pre");
  only_merge.placement.merge = swin_norm(NormKind::batch_norm);
  CHECK(uses_batch_norm(ModelConfig(only_merge)));
}

TEST_CASE("swin_config: a problem is reported with its key") {
  CHECK(problems(named("SwinD-S", "dpn")) == "");
  SwinConfig c = named("Swin-T", "pre_pre");
  c.num_heads = {3, 6, 12, 23};
  CHECK(problems(c) == "num_heads: 23 heads do not divide a stage's width of 768\n");
  c.num_heads = {3, 6};
  CHECK(problems(c) == "num_heads: num_heads has 2 stages, but depths has 4\n");
  c.depths = {};
  CHECK(problems(c) == "depths: depths must have 1 to 8 stages, got 0\n");
  c = named("Swin-T", "pre_pre");
  c.image_size = {224, 222};
  CHECK(problems(c) == "patch_size: patches of 4 do not divide an image of 224 x 222\n");
  c = named("Swin-T", "pre_pre");
  c.embed_dim = 65536;
  c.num_heads = {1, 1, 1, 1};
  CHECK(problems(c).find("embed_dim: the last stage is 524288 wide") == 0);
}

TEST_CASE("swin_config: hostile sizes are refused before they divide or overflow anything") {
  const std::pair<const char*, std::int64_t SwinConfig::*> sizes[] = {
      {"channels", &SwinConfig::channels},   {"patch_size", &SwinConfig::patch_size},
      {"window", &SwinConfig::window},       {"embed_dim", &SwinConfig::embed_dim},
      {"mlp_ratio", &SwinConfig::mlp_ratio}, {"num_classes", &SwinConfig::num_classes}};
  for (const std::int64_t bad : {std::int64_t(0), std::int64_t(-4), INT64_MAX, INT64_MIN}) {
    CAPTURE(bad);
    for (const auto& size : sizes) {
      SwinConfig c = named("Swin-T", "pre_pre");
      c.*size.second = bad;
      CHECK(keys(c) == std::vector<std::string>{size.first});
    }
    SwinConfig c = named("Swin-T", "pre_pre");
    c.depths[2] = bad;
    c.num_heads[0] = bad;
    CHECK(keys(c) == std::vector<std::string>{"depths", "num_heads"});
  }
}
