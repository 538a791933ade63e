#include "nn/model/init.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include <vector>

#include "nn/model/vit.h"

namespace normlab {
namespace {

struct Network {
  ParameterSet parameters;
  explicit Network(const ViTConfig& config, DType dtype = DType::f32, std::uint64_t seed = 1) {
    const ViT vit(parameters, config);
    parameters.allocate(dtype, 0);
    initialise(parameters, config, seed);
  }
  std::vector<double> values(int parameter) const {
    const Tensor t = parameters.value(parameter);
    std::vector<double> v(static_cast<std::size_t>(t.size()));
    for (std::size_t i = 0; i < v.size(); ++i)
      v[i] = t.dtype() == DType::f64 ? t.data<double>()[i] : double(t.data<float>()[i]);
    return v;
  }
  std::vector<double> values(const std::string& name) const {
    const int parameter = parameters.find(name);
    REQUIRE_MESSAGE(parameter >= 0, "there is no parameter ", name);
    return values(parameter);
  }
};

ViTConfig model(std::string_view placement, std::int64_t dim, std::int64_t mlp_dim, std::int64_t patch,
                std::int64_t classes, std::int64_t depth = 1) {
  ViTConfig c;
  c.image_size = {14 * patch, 14 * patch};
  c.patch_size = patch;
  c.embed_dim = dim;
  c.mlp_dim = mlp_dim;
  c.depth = depth;
  c.num_heads = dim == 384 ? 6 : 3;
  c.num_classes = classes;
  c.pool = Pool::token;
  c.rep_size = dim;
  c.placement = find_placement(placement)->placement;
  return c;
}
ViTConfig small_sixteen(std::string_view placement = "pre_pre") { return model(placement, 384, 1536, 16, 1000); }
ViTConfig tiny(std::string_view placement = "pre_pre", std::int64_t depth = 1) {
  return model(placement, 24, 96, 4, 7, depth);
}

/// What the values of a parameter must look like: all `value`, or of mean 0 and deviation `std` within `max_abs`.
struct Rule {
  double std, max_abs, value = 0.0;
};
constexpr double kNone = HUGE_VAL;
Rule constant(double value) { return {0.0, 0.0, value}; }
Rule normal_of(double std) { return {std, kNone}; }
Rule uniform_of(double a) { return {a / std::sqrt(3.0), a}; }

void check_rule(const std::string& name, const std::vector<double>& values, const Rule& rule) {
  CAPTURE(name);
  const double n = double(values.size());
  if (rule.std == 0.0) {
    double worst = 0.0;
    for (const double v : values) worst = std::max(worst, std::abs(v - rule.value));
    CHECK(worst <= 1e-7 * std::abs(rule.value));
    return;
  }
  double mean = 0.0, variance = 0.0, largest = 0.0;
  for (const double v : values) mean += v / n, largest = std::max(largest, std::abs(v));
  for (const double v : values) variance += (v - mean) * (v - mean) / (n - 1);
  CHECK(std::abs(mean) < 5 * rule.std / std::sqrt(n));
  CHECK(std::abs(std::sqrt(variance) / rule.std - 1) < 5 / std::sqrt(2 * n));
  CHECK(largest <= rule.max_abs * (1 + 1e-6));  // stored as float
}

/// The rule of every parameter, by what its name ends with; the first that fits counts.
using Rules = std::vector<std::pair<std::string, Rule>>;

void check_all(const ViTConfig& c, Rules rules) {
  for (const char* gain : {".gamma", ".head_scale", ".residual_scale"}) rules.emplace_back(gain, constant(1));
  rules.emplace_back(".beta", constant(0));
  const Network network(c);
  for (const ParameterInfo& p : network.parameters.parameters()) {
    const Rule* rule = nullptr;
    for (const auto& [ending, r] : rules)
      if (!rule && p.name.ends_with(ending)) rule = &r;
    REQUIRE_MESSAGE(rule != nullptr, "no rule for ", p.name);
    check_rule(p.name, network.values(p.name), *rule);
  }
}

Rules big_vision_rules(const ViTConfig& c) {
  const double d = double(c.embed_dim), m = double(c.mlp_dim), pixels = double(c.patch_pixels());
  const double cut = 2 / 0.87962566103423978;  // two deviations of the normal before the cut, in those after it
  const auto xavier = [](double in, double out) { return uniform_of(std::sqrt(6 / (in + out))); };
  const auto lecun = [&](double in) { return Rule{std::sqrt(1 / in), cut * std::sqrt(1 / in)}; };
  return {{"patch_embed.weight", lecun(pixels)},
          {"patch_embed.bias", constant(0)},
          {"pos_embed", normal_of(1 / std::sqrt(d))},
          {"cls_token", constant(0)},
          {".q.weight", xavier(d, d)},
          {".k.weight", xavier(d, d)},
          {".v.weight", xavier(d, d)},
          {".proj.weight", xavier(d, d)},
          {".fc1.weight", xavier(d, m)},
          {".fc2.weight", xavier(m, d)},
          {".fc1.bias", normal_of(1e-6)},
          {".fc2.bias", normal_of(1e-6)},
          {"rep.weight", lecun(d)},
          {"rep.bias", constant(0)},
          {"head.weight", constant(0)},
          {"head.bias", constant(0)},
          {".bias", constant(0)}};
}

}  // namespace

TEST_CASE("init: big_vision draws the distributions of Big Vision") {
  for (const ViTConfig& c : {small_sixteen(), tiny(), tiny("normformer_full"), tiny("dpn"), tiny("bn_ffnbn")})
    check_all(c, big_vision_rules(c));
}

// As its code gives them, so that the formulas above are not only compared with themselves.
TEST_CASE("init: the formulas for big_vision give the numbers of Big Vision") {
  CHECK(big_vision_rules(small_sixteen())[0].second.std == doctest::Approx(0.03608439182435161));
  CHECK(big_vision_rules(small_sixteen())[0].second.max_abs == doctest::Approx(0.08204488209660589));
  CHECK(big_vision_rules(small_sixteen())[4].second.max_abs == doctest::Approx(0.08838834764831845));
  CHECK(big_vision_rules(small_sixteen())[8].second.std == doctest::Approx(0.03227486121839514));
  CHECK(big_vision_rules(tiny())[2].second.std == doctest::Approx(0.20412414523193154));
  CHECK(big_vision_rules(tiny())[12].second.max_abs == doctest::Approx(0.46411593993728634));
}

TEST_CASE("init: timm draws the distributions of timm") {
  for (ViTConfig c : {small_sixteen(), tiny()}) {
    c.init = Init::timm;
    const Rule patches = uniform_of(1 / std::sqrt(double(c.patch_pixels())));
    check_all(c, {{"patch_embed.weight", patches},
                  {"patch_embed.bias", patches},
                  {"pos_embed", normal_of(0.02)},
                  {"cls_token", normal_of(1e-6)},
                  {".weight", {0.02, 2.0}},
                  {".bias", constant(0)}});
  }
}

TEST_CASE("init: deit draws the values of timm but for the class token") {
  ViTConfig deit = tiny(), timm = tiny();
  deit.init = Init::deit;
  timm.init = Init::timm;
  const Network ours(deit), theirs(timm);
  check_rule("cls_token", ours.values("cls_token"), {0.02, 2.0});
  for (const ParameterInfo& p : theirs.parameters.parameters())
    if (p.name != "cls_token") CHECK(ours.values(p.name) == theirs.values(p.name));
}

TEST_CASE("init: timm_jax draws the distributions of timm's jax mode") {
  for (ViTConfig c : {small_sixteen(), tiny()}) {
    c.init = Init::timm_jax;
    // Big Vision's, but timm's positions and Xavier over the fused q, k and v.
    Rules rules{{"pos_embed", normal_of(0.02)}, {"cls_token", normal_of(1e-6)}};
    const Rule fused = uniform_of(std::sqrt(6 / double(c.embed_dim + 3 * c.embed_dim)));
    for (const char* name : {".q.weight", ".k.weight", ".v.weight"}) rules.emplace_back(name, fused);
    for (const auto& rule : big_vision_rules(c)) rules.push_back(rule);  // the first that fits counts
    check_all(c, rules);
  }
}

TEST_CASE("init: torch draws the distributions of PyTorch") {
  for (ViTConfig c : {small_sixteen(), tiny()}) {
    c.init = Init::torch;
    const double d = double(c.embed_dim), m = double(c.mlp_dim), pixels = double(c.patch_pixels());
    const auto fan_in = [](double in) { return uniform_of(1 / std::sqrt(in)); };
    const Rule fused = uniform_of(std::sqrt(3 / (2 * d)));
    check_all(c, {{"patch_embed.weight", fan_in(pixels)},
                  {"patch_embed.bias", fan_in(pixels)},
                  {"pos_embed", normal_of(0.02)},
                  {"cls_token", constant(0)},
                  {".q.weight", fused},
                  {".k.weight", fused},
                  {".v.weight", fused},
                  {".q.bias", constant(0)},
                  {".k.bias", constant(0)},
                  {".v.bias", constant(0)},
                  {".proj.bias", constant(0)},
                  {".fc2.weight", fan_in(m)},
                  {".fc2.bias", fan_in(m)},
                  {".weight", fan_in(d)},
                  {".bias", fan_in(d)}});
  }
}

/// With a part of the code base changed, only the parameters that end like one of the rules' names change, as it says.
void check_part(ViTConfig c, const InitConfig& init, const Rules& rules) {
  const Network before(c);
  c.init = init;
  const Network after(c);
  for (const ParameterInfo& p : before.parameters.parameters()) {
    CAPTURE(p.name);
    const auto rule =
        std::find_if(rules.begin(), rules.end(), [&](const auto& r) { return p.name.ends_with(r.first); });
    if (rule == rules.end())
      CHECK(after.values(p.name) == before.values(p.name));
    else
      check_rule(p.name, after.values(p.name), rule->second);
  }
}

TEST_CASE("init: each part of a code base can be changed alone") {
  ViTConfig c = small_sixteen();
  const double d = double(c.embed_dim), pixels = double(c.patch_pixels());
  const Rule fused = uniform_of(std::sqrt(3 / (2 * d))), alone = uniform_of(std::sqrt(3 / d)),
             linear = uniform_of(1 / std::sqrt(d)), conv = uniform_of(1 / std::sqrt(pixels));
  const auto with = [](Init base, auto part, auto value) {
    InitConfig init(base);
    init.*part = value;
    return init;
  };
  c.init = Init::big_vision;
  check_part(c, with(Init::big_vision, &InitConfig::qkv, QkvInit::xavier_fused),
             {{".q.weight", fused}, {".k.weight", fused}, {".v.weight", fused}});
  check_part(c, with(Init::big_vision, &InitConfig::patch_embed, PatchInit::conv2d_uniform),
             {{"patch_embed.weight", conv}, {"patch_embed.bias", conv}});
  check_part(c, with(Init::big_vision, &InitConfig::head, HeadInit::xavier),
             {{"head.weight", uniform_of(std::sqrt(6 / (d + 1000)))}});
  check_part(c, with(Init::big_vision, &InitConfig::head, HeadInit::linear),
             {{"head.weight", linear}, {"head.bias", linear}});
  check_part(c, with(Init::big_vision, &InitConfig::out_proj, OutProjInit::linear), {{".proj.weight", linear}});
  // The cut at two deviations leaves 0.8796 of a normal's deviation.
  check_part(c, with(Init::big_vision, &InitConfig::truncation, Truncation::uncorrected),
             {{"patch_embed.weight", {0.87962566 / std::sqrt(pixels), 2 / std::sqrt(pixels)}},
              {"rep.weight", {0.87962566 / std::sqrt(d), 2 / std::sqrt(d)}}});
  c.init = Init::timm;
  check_part(c, with(Init::timm, &InitConfig::qkv, QkvInit::xavier),
             {{".q.weight", alone}, {".k.weight", alone}, {".v.weight", alone}});
  check_part(c, with(Init::timm, &InitConfig::head, HeadInit::zero), {{"head.weight", constant(0)}});
  check_part(c, with(Init::timm, &InitConfig::patch_embed, PatchInit::normal),
             {{"patch_embed.weight", normal_of(0.02)}, {"patch_embed.bias", constant(0)}});
  c.init = Init::torch;
  Rules attention;  // as nn.Linear, biases too
  for (const char* name : {".q.weight", ".k.weight", ".v.weight", ".q.bias", ".k.bias", ".v.bias", ".proj.bias"})
    attention.emplace_back(name, linear);
  check_part(c, with(Init::torch, &InitConfig::qkv, QkvInit::linear), attention);
  check_part(c, with(Init::torch, &InitConfig::out_proj, OutProjInit::xavier), {{".proj.weight", alone}});
  c.init = Init::big_vision;
  check_part(c, with(Init::big_vision, &InitConfig::position_std, 0.2), {{"pos_embed", normal_of(0.2)}});
  check_part(c, with(Init::big_vision, &InitConfig::token_std, 1.0), {{"cls_token", normal_of(1)}});
}

TEST_CASE("init: a part that repeats the code base, or reaches no parameter, is no part") {
  const auto simplified = [](InitConfig init, std::int64_t rep_size) {
    ViTConfig c = tiny();
    c.rep_size = rep_size;
    c.init = init;
    simplify_init(c);
    return c.init;
  };
  InitConfig init(Init::torch);
  init.qkv = QkvInit::xavier_fused;
  init.patch_embed = PatchInit::conv2d_uniform;
  init.truncation = Truncation::uncorrected;  // PyTorch's values have no truncated normal
  init.out_proj = OutProjInit::linear;
  init.head = HeadInit::linear;
  CHECK(simplified(init, 24) == InitConfig(Init::torch));
  init = Init::big_vision;
  init.out_proj = OutProjInit::xavier;
  CHECK(simplified(init, 24) == InitConfig(Init::big_vision));
  init = Init::big_vision;
  init.truncation = Truncation::uncorrected;
  CHECK(simplified(init, 0) == init);
  init.patch_embed = PatchInit::conv2d_uniform;
  CHECK(simplified(init, 24) == init);  // rep is still drawn from one
  CHECK(simplified(init, 0).truncation == Truncation::base);
  init.truncation = Truncation::corrected;
  init.head = HeadInit::zero;
  init.qkv = QkvInit::linear;
  init.patch_embed = PatchInit::lecun;
  InitConfig left(Init::big_vision);
  left.qkv = QkvInit::linear;
  CHECK(simplified(init, 24) == left);
}

TEST_CASE("init: parameters that networks share start alike") {
  const Network base(tiny("pre_pre", 2));
  for (const char* placement : {"normformer_full", "dpn", "bn_extra", "layer_scale", "post_post", "none"}) {
    const Network other(tiny(placement, 2));
    int shared = 0;
    for (const ParameterInfo& p : other.parameters.parameters()) {
      if (base.parameters.find(p.name) < 0) continue;
      CAPTURE(p.name);
      CHECK(other.values(p.name) == base.values(p.name));
      ++shared;
    }
    CHECK(shared >= 30);
  }
}

TEST_CASE("init: another seed gives other values") {
  const std::string name = "blocks.1.mlp.fc1.weight";
  CHECK(Network(tiny("pre_pre", 2), DType::f32, 2).values(name) != Network(tiny("pre_pre", 2)).values(name));
}

TEST_CASE("init: two blocks start with different values") {
  const Network network(tiny("pre_pre", 2));
  CHECK(network.values("blocks.0.mlp.fc1.weight") != network.values("blocks.1.mlp.fc1.weight"));
}

TEST_CASE("init: Sub-LN multiplies only v, proj, fc1 and fc2 by its gain") {
  for (const Init init : {Init::big_vision, Init::timm, Init::torch}) {
    ViTConfig plain = tiny("pre_pre", 3), sub = tiny("sub_ln", 3);
    plain.init = sub.init = init;
    // In double, where a product is not rounded a second time.
    const Network base(plain, DType::f64), scaled(sub, DType::f64);
    const double gain = std::sqrt(std::log(6.0));
    for (const ParameterInfo& p : base.parameters.parameters()) {
      CAPTURE(p.name);
      bool has_gain = false;
      for (const char* ending : {".v.weight", ".proj.weight", ".fc1.weight", ".fc2.weight"})
        has_gain = has_gain || p.name.ends_with(ending);
      std::vector<double> expected = base.values(p.name);
      for (double& v : expected) v *= has_gain ? gain : 1.0;
      CHECK(scaled.values(p.name) == expected);
    }
  }
}

TEST_CASE("init: LayerScale starts by the depth") {
  for (const auto& [depth, value] : {std::pair{1, 0.1}, {18, 0.1}, {19, 1e-5}, {24, 1e-5}, {25, 1e-6}}) {
    const Network network(tiny("layer_scale", depth));
    check_rule("first", network.values("blocks.0.attn.layer_scale"), constant(value));
    check_rule("last", network.values(concat("blocks.", depth - 1, ".mlp.layer_scale")), constant(value));
  }
}

TEST_CASE("init: a start value of LayerScale in the placement is used") {
  ViTConfig c = tiny();
  c.placement.layer_scale = {LayerScaleKind::scalar, false, 0.25};
  CHECK(Network(c).values("blocks.0.mlp.layer_scale") == std::vector<double>{0.25});
}

TEST_CASE("init: Dynamic Tanh starts as configured") {
  ViTConfig c = tiny("dyt");
  CHECK(Network(c).values("blocks.0.attn.pre.alpha") == std::vector<double>{0.5});
  c.placement.mlp.pre.alpha_init = 0.75;
  c.placement.mlp.pre.beta_init = 1.0;
  const Network network(c);
  CHECK(network.values("blocks.0.attn.pre.alpha") == std::vector<double>{0.5});
  CHECK(network.values("blocks.0.mlp.pre.alpha") == std::vector<double>{0.75});
  check_rule("beta", network.values("blocks.0.mlp.pre.beta"), constant(1));
  check_rule("other beta", network.values("blocks.0.attn.pre.beta"), constant(0));
}

TEST_CASE("init: the head's bias starts as configured") {
  ViTConfig c = tiny("dyt");
  c.head_bias_init = -6.9;
  check_rule("head.bias", Network(c).values("head.bias"), constant(-6.9));
}

TEST_CASE("init: running statistics start with mean 0 and variance 1") {
  const Network bn(tiny("bn"));
  const auto first = [&](const char* name) {
    return bn.parameters.buffer(bn.parameters.find_buffer(name)).data<float>()[0];
  };
  CHECK(first("blocks.0.attn.pre.running_mean") == 0.0f);
  CHECK(first("blocks.0.attn.pre.running_var") == 1.0f);
}

TEST_CASE("init: the simplified S/16 has 21,974,632 parameters") {
  ViTConfig c = model("pre_pre", 384, 1536, 16, 1000, 12);
  c.pool = Pool::gap;
  c.pos_embed = PosEmbed::sincos2d;
  c.rep_size = 0;
  ParameterSet parameters;
  const ViT vit(parameters, c);
  CHECK(parameters.count() == 21'974'632);
}

}  // namespace normlab
