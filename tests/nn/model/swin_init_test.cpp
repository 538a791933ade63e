// Swin's initial values: timm's and the official code's.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "nn/model/init.h"
#include "nn/model/swin.h"

using namespace normlab;

namespace {

struct Values {
  ParameterSet parameters;
  explicit Values(const SwinConfig& c, std::uint64_t seed = 1) {
    const Swin swin(parameters, c);
    parameters.allocate(DType::f64, 0);
    initialise(parameters, c, seed);
  }
  std::vector<double> operator()(std::string_view name) const {
    const int found = parameters.find(name);
    REQUIRE(found >= 0);
    const Tensor t = parameters.value(found);
    return {t.data<double>(), t.data<double>() + t.size()};
  }
};

SwinConfig small(std::string_view placement) {
  SwinConfig c;
  c.embed_dim = 96;
  c.depths = {2, 2};
  c.num_heads = {3, 6};
  c.window = 4;
  c.placement = swin_placement(find_placement(placement)->placement);
  return c;
}

/// |mean| < 5 std / sqrt(n), |sample std / std - 1| < 5 / sqrt(2 n).
void check_moments(const std::vector<double>& values, double std) {
  const double n = double(values.size());
  double sum = 0.0, squares = 0.0;
  for (const double v : values) sum += v;
  for (const double v : values) squares += (v - sum / n) * (v - sum / n);
  CHECK(std::abs(sum / n) < 5 * std / std::sqrt(n));
  CHECK(std::abs(std::sqrt(squares / n) / std - 1) < 5 / std::sqrt(2 * n));
}

bool all(const std::vector<double>& values, double expected) {
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == expected; });
}

}  // namespace

TEST_CASE("swin_init: linears and bias tables are normal with deviation 0.02") {
  const Values values(small("pre_pre"));
  for (const char* name : {"stages.0.blocks.0.attn.q.weight", "stages.1.blocks.1.mlp.fc2.weight",
                           "stages.1.reduction.weight", "head.weight", "stages.1.blocks.0.attn.bias_table"}) {
    CAPTURE(name);
    check_moments(values(name), 0.02);
  }
}

TEST_CASE("swin_init: patches are uniform as PyTorch's convolution") {
  const Values values(small("pre_pre"));
  const double bound = 1 / std::sqrt(48.0);
  for (const char* name : {"patch_embed.weight", "patch_embed.bias"}) {
    CAPTURE(name);
    check_moments(values(name), bound / std::sqrt(3.0));
    for (const double v : values(name)) CHECK(std::abs(v) <= bound);
  }
}

TEST_CASE("swin_init: biases and norms start at 0 and 1") {
  const Values values(small("pre_pre"));
  CHECK(all(values("stages.0.blocks.0.attn.proj.bias"), 0.0));
  CHECK(all(values("head.bias"), 0.0));
  CHECK(all(values("stages.1.merge.gamma"), 1.0));
  CHECK(all(values("final.beta"), 0.0));
}

TEST_CASE("swin_init: another seed gives other values") {
  CHECK(Values(small("pre_pre"))("head.weight") != Values(small("pre_pre"), 2)("head.weight"));
}

TEST_CASE("swin_init: parameters that placements share start alike") {
  const Values plain(small("pre_pre")), bn(small("bn_ffnbn")), sub(small("sub_ln"));
  CHECK(plain("stages.1.blocks.1.attn.k.weight") == bn("stages.1.blocks.1.attn.k.weight"));
  CHECK(plain("stages.1.blocks.1.attn.k.weight") == sub("stages.1.blocks.1.attn.k.weight"));
}

TEST_CASE("swin_init: the gain of Sub-LN follows the number of blocks") {
  const Values plain(small("pre_pre")), sub(small("sub_ln"));
  const double gain = std::sqrt(std::log(2.0 * 4));
  const std::vector<double> before = plain("stages.0.blocks.1.mlp.fc1.weight"),
                            after = sub("stages.0.blocks.1.mlp.fc1.weight");
  REQUIRE(after.size() == before.size());
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(after[i] == doctest::Approx(gain * before[i]));
}

TEST_CASE("swin_init: LayerScale starts by the number of blocks") {
  SwinConfig deep = small("layer_scale");
  CHECK(all(Values(deep)("stages.1.blocks.0.attn.layer_scale"), 0.1));
  deep.embed_dim = 12;
  deep.num_heads = {2, 2};
  deep.depths = {2, 18};  // twenty blocks
  CHECK(all(Values(deep)("stages.1.blocks.0.attn.layer_scale"), 1e-5));
}

TEST_CASE("swin_init: Dynamic Tanh starts as configured") {
  SwinConfig dyt = small("dyt");
  dyt.placement.merge.alpha_init = 0.25;
  dyt.placement.attn.pre.beta_init = 2.0;
  const Values values(dyt);
  CHECK(all(values("stages.1.merge.alpha"), 0.25));
  CHECK(all(values("stages.1.blocks.1.attn.pre.beta"), 2.0));
  CHECK(all(values("stages.1.blocks.1.mlp.pre.beta"), 0.0));
  CHECK(all(values("stages.1.blocks.1.mlp.pre.alpha"), 0.5));
}

TEST_CASE("swin_init: the head's bias starts as configured") {
  SwinConfig c = small("dyt");
  c.head_bias_init = -6.9;
  CHECK(all(Values(c)("head.bias"), -6.9));
}
