// Batch norms merged into linears: whole trained networks before and after, and what is left.
#include "nn/model/fuse.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "experiments/lab/data/generated.h"
#include "nn/model/init.h"
#include "nn/model/model.h"
#include "nn/training/engine.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/lab/weights/tensors.h"

using namespace normlab;

namespace {

constexpr std::int64_t kSide = 32, kClasses = 10;

constexpr NormSpec kBN = norm_of(NormKind::batch_norm);
constexpr std::int64_t kBatch = 24;

ViTConfig small_vit(const Placement& placement) {
  ViTConfig c;
  c.patch_size = 8;
  c.embed_dim = 24;
  c.depth = 2;
  c.num_heads = 3;
  c.mlp_dim = 48;
  c.placement = placement;
  return c;
}
ViTConfig small_vit(std::string_view placement) { return small_vit(find_placement(placement)->placement); }

/// Batch norm wherever one can be merged.
Placement everywhere() {
  Placement p;
  p.stem = {.patch_in = kBN, .patch_out = kBN};
  p.attn = {.pre = kBN, .query = kBN, .key = kBN, .value = kBN, .inner = kBN, .out = kBN};
  p.mlp = {.pre = kBN, .hidden = kBN, .inner = kBN, .out = kBN};
  p.final = p.pooled = kBN;
  p.attn.value.eps = 1e-3;  // another than its neighbours'
  p.residual_scale = true;
  p.layer_scale.kind = LayerScaleKind::channel;
  return p;
}

/// Pictures of `shapes` with their labels.
struct Pictures {
  Arena memory;
  Tensor images, labels;
  explicit Pictures(DType dtype) {
    images = memory.empty({kBatch, kSide, kSide, 3}, dtype);
    labels = memory.empty({kBatch}, DType::i32);
    std::vector<std::uint8_t> pixels(std::size_t(kSide * kSide * 3));
    for (std::int64_t i = 0; i < kBatch; ++i) {
      draw_shapes(1, "train", i, pixels.data());
      labels.data<std::int32_t>()[i] = static_cast<std::int32_t>(i % kClasses);
      for (std::size_t p = 0; p < pixels.size(); ++p) {
        const double value = double(pixels[p]) / 64.0 - 2.0;
        const std::size_t at = std::size_t(i) * pixels.size() + p;
        if (dtype == DType::f64)
          images.data<double>()[at] = value;
        else
          images.data<float>()[at] = static_cast<float>(value);
      }
    }
  }
};

struct Network {
  ShardPool pool{1};
  Engine engine;
  Network(const ModelConfig& c, DType dtype) : engine(cpu_backend(), pool, c, settings(dtype)) {}
  static EngineSettings settings(DType dtype) {
    EngineSettings s;
    s.precision = precision_of(dtype);
    s.max_batch = kBatch;
    return s;
  }
  std::vector<double> logits(const Pictures& pictures) {
    std::vector<double> losses(kBatch), logits(std::size_t(kBatch * num_classes(engine.config())));
    std::vector<std::int32_t> predictions(kBatch);
    REQUIRE(!engine.evaluate(pictures.images, pictures.labels, losses, predictions, logits));
    return logits;
  }
};

/// Gains and shifts far from one and zero, as longer training would leave them, then some steps.
void train(Engine& engine, const Pictures& pictures, int steps) {
  initialise(engine.parameters(), engine.config(), 3);
  for (std::size_t n = 0; n < engine.parameters().parameters().size(); ++n) {
    const ParameterInfo& info = engine.parameters().parameters()[n];
    if (info.name.ends_with(".weight") && info.name != "head.weight") continue;
    const Tensor t = engine.parameters().value(static_cast<int>(n));
    const StreamKey key = stream_key(9, "test", info.name);
    for (std::int64_t i = 0; i < t.size(); ++i) {
      const double v = 0.2 * normal(key, static_cast<std::uint64_t>(i));
      if (t.dtype() == DType::f64)
        t.data<double>()[i] += v;
      else
        t.data<float>()[i] += static_cast<float>(v);
    }
  }
  engine.state().lr = 2e-3;
  engine.state().clip_norm = 1.0;
  for (int s = 0; s < steps; ++s) engine.train_step(pictures.images, pictures.labels);
}

double largest(const std::vector<double>& values) {
  double m = 0.0;
  for (const double v : values) m = std::max(m, std::abs(v));
  return m;
}
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double m = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    REQUIRE(std::isfinite(a[i]));
    m = std::max(m, std::abs(a[i] - b[i]));
  }
  return m;
}

/// Trains, fuses, and holds the logits against each other; `share` of the largest logit may be lost.
FusedModel check_fused(const ModelConfig& c, DType dtype, double share) {
  const Pictures pictures(dtype);
  Network before(c, dtype);
  train(before.engine, pictures, 12);
  FusedModel fused = fuse_batch_norms(c, host_tensors(before.engine.parameters()));
  Network after(fused.config, dtype);
  assign(after.engine.parameters(), fused.tensors);
  const std::vector<double> expected = before.logits(pictures), got = after.logits(pictures);
  CHECK(largest(expected) > 0.1);
  CHECK(largest_difference(expected, got) < share * largest(expected));
  return fused;
}

const ViTConfig& vit_in(const FusedModel& fused) { return std::get<ViTConfig>(fused.config); }

std::vector<std::string> merged(const FusedModel& fused) {
  std::vector<std::string> lines;
  for (const FusedSite& result : fused.sites)
    if (result.merged) lines.push_back(result.site + ": " + result.what);
  return lines;
}
const FusedSite& result_of(const FusedModel& fused, std::string_view site) {
  const auto found = std::find_if(fused.sites.begin(), fused.sites.end(),
                                  [&](const FusedSite& result) { return result.site == site; });
  REQUIRE(found != fused.sites.end());
  return *found;
}

/// A Swin of 8 x 8 and 4 x 4 tokens with batch norms.
SwinConfig small_swin(std::int64_t window) {
  SwinConfig c;
  c.image_size = {kSide, kSide};
  c.patch_size = 4;
  c.window = window;
  c.embed_dim = 12;
  c.depths = {2, 2};
  c.num_heads = {2, 4};
  c.mlp_ratio = 2;
  c.placement = swin_placement(find_placement("bn_extra")->placement);
  return c;
}
void check_reduction(const FusedModel& fused) {
  CHECK(std::get<SwinConfig>(fused.config).reduction_bias);
  CHECK(result_of(fused, "merge").what == "reduction, which gains a bias");
}

HostTensors some_tensors(const ViTConfig& c) {
  ParameterSet set;
  make_model(set, c);
  set.allocate(DType::f32, 0);
  initialise(set, c, 1);
  return host_tensors(set);
}

}  // namespace

TEST_CASE("fuse: trained networks give the same logits without their batch norms") {
  for (const char* placement : {"bn", "bn_ffnbn", "bn_ffnbn_postact", "bn_ffnbn_preres", "bn_extra", "ln_extra_bn"}) {
    CAPTURE(placement);
    const FusedModel fused = check_fused(small_vit(placement), DType::f32, 3e-5);
    CHECK_FALSE(uses_batch_norm(fused.config));
    CHECK(std::none_of(fused.tensors.begin(), fused.tensors.end(),
                       [](const auto& tensor) { return tensor.first.ends_with("running_var"); }));
    check_fused(small_vit(placement), DType::f64, 1e-11);
  }
}

TEST_CASE("fuse: a batch norm next to a linear is merged at every site") {
  for (const bool token : {false, true})
    for (const bool qkv_bias : {false, true})
      for (const HeadScale head_scale : {HeadScale::none, HeadScale::before_proj, HeadScale::after_proj}) {
        CAPTURE(token);
        CAPTURE(qkv_bias);
        CAPTURE(int(head_scale));
        ViTConfig c = small_vit(everywhere());
        c.pool = token ? Pool::token : Pool::gap;
        c.pos_embed_class = token;
        c.qkv_bias = qkv_bias;
        c.rep_size = token ? 20 : 0;
        c.placement.head_scale = head_scale;
        const FusedModel fused = check_fused(c, DType::f64, 1e-11);
        CHECK_FALSE(uses_batch_norm(fused.config));
        CHECK(merged(fused).size() == 14);
        CHECK(vit_in(fused).qkv_bias);
        CHECK(vit_in(fused).placement.head_scale ==
              (head_scale == HeadScale::after_proj ? HeadScale::none : head_scale));
        CHECK(result_of(fused, "final").what == (token ? "rep" : "head"));
        const std::string gains = qkv_bias ? "" : ", which gains a bias";
        // Merged from the end of the network on: the norms on q, k and v come before the one in front of them.
        CHECK(result_of(fused, "attn.query").what == "attn.q" + gains);
        CHECK(result_of(fused, "attn.pre").what == "attn.q, attn.k, attn.v");
        CHECK(result_of(fused, "attn.out").what ==
              (head_scale == HeadScale::after_proj ? "attn.proj together with attn.head_scale" : "attn.proj"));
      }
}

TEST_CASE("fuse: norms that see other heads, and factors, are merged too") {
  Placement p = everywhere();
  p.qk_per_head = false;
  p.value_per_head = true;
  p.depth_scale = DepthScale::rsqrt;
  p.residual_factor = {.rule = ResidualRule::keel};
  const FusedModel fused = check_fused(small_vit(p), DType::f64, 1e-11);
  CHECK(merged(fused).size() == 14);
}

TEST_CASE("fuse: a gated MLP takes the norm before it into both layers") {
  ViTConfig c = small_vit(everywhere());
  c.mlp = MlpForm::gated;
  c.activation = default_activation(c.mlp);
  const FusedModel fused = check_fused(c, DType::f64, 1e-11);
  CHECK_FALSE(uses_batch_norm(fused.config));
  CHECK(result_of(fused, "mlp.pre").what == "mlp.fc1, mlp.fc3");
  CHECK(result_of(fused, "mlp.hidden").what == "mlp.fc1");
  SwinConfig swin = small_swin(4);
  swin.mlp = MlpForm::gated;
  swin.activation = {ActivationKind::relu_squared};
  CHECK_FALSE(uses_batch_norm(check_fused(swin, DType::f64, 1e-11).config));
}

TEST_CASE("fuse: the norm before attention is merged into its gate, too") {
  for (const AttnGate kind : {AttnGate::head, AttnGate::channel})
    for (const bool qkv_bias : {false, true}) {
      CAPTURE(int(kind));
      CAPTURE(qkv_bias);
      ViTConfig c = small_vit(everywhere());
      c.placement.attn_gate = kind;
      c.placement.attn_scale = AttnScale::learned;
      c.placement.attn.exclude_self = true;
      c.qkv_bias = qkv_bias;
      const FusedModel fused = check_fused(c, DType::f64, 1e-11);
      CHECK_FALSE(uses_batch_norm(fused.config));
      CHECK(vit_in(fused).qkv_bias);
      CHECK(result_of(fused, "attn.pre").what ==
            (qkv_bias ? "attn.q, attn.k, attn.v, attn.gate" : "attn.q, attn.k, attn.v, attn.gate, which gains a bias"));
      ViTConfig of_values = small_vit("pre_pre");
      of_values.placement.attn.value = kBN;
      of_values.placement.attn_gate = kind;
      of_values.qkv_bias = qkv_bias;
      CHECK(vit_in(check_fused(of_values, DType::f64, 1e-11)).qkv_bias);
    }
}

TEST_CASE("fuse: a bias for k gives q a bias of zeros") {
  ViTConfig c = small_vit("pre_pre");
  c.qkv_bias = false;
  c.placement.attn.key = kBN;
  const FusedModel fused = check_fused(c, DType::f64, 1e-11);
  CHECK(vit_in(fused).qkv_bias);
  CHECK(largest(fused.tensors.at("blocks.1.attn.q.bias").values) == 0.0);
  CHECK(largest(fused.tensors.at("blocks.1.attn.k.bias").values) > 0.0);
}

TEST_CASE("fuse: a Swin gives the same logits without its batch norms") {
  const SwinConfig c = small_swin(4);
  check_fused(c, DType::f32, 3e-5);
  const FusedModel fused = check_fused(c, DType::f64, 1e-11);
  CHECK_FALSE(uses_batch_norm(fused.config));
  check_reduction(fused);
}

TEST_CASE("fuse: a Swin with padded windows keeps the norms before them") {
  const SwinConfig c = small_swin(3);
  check_fused(c, DType::f32, 3e-5);
  const FusedModel fused = check_fused(c, DType::f64, 1e-11);
  CHECK(uses_batch_norm(fused.config));
  CHECK(result_of(fused, "attn.pre").what == "windows are padded with zeros between it and q, k, v");
  check_reduction(fused);
}

TEST_CASE("fuse: blocks with different norms are merged one by one") {
  ViTConfig c = small_vit("bn_ffnbn");
  c.depth = 4;
  c.placement.head_scale = HeadScale::after_proj;
  carve_blocks(c.placement, 1, 2);
  BlockRange& range = c.placement.blocks.front();
  range.attn.pre = norm_of(NormKind::layer_norm);
  range.attn.out = kBN;
  range.mlp.hidden = NormSpec{};
  const FusedModel fused = check_fused(c, DType::f64, 1e-11);
  CHECK(result_of(fused, "attn.pre (blocks 0,3)").merged);
  CHECK_FALSE(result_of(fused, "attn.pre (blocks 1-2)").merged);
  CHECK(result_of(fused, "attn.out (blocks 1-2)").what == "attn.proj together with attn.head_scale");
  CHECK(result_of(fused, "mlp.hidden (blocks 0,3)").merged);
  CHECK(vit_in(fused).placement.head_scale == HeadScale::none);
  CHECK_FALSE(uses_batch_norm(fused.config));
  CHECK(vit_in(fused).placement.attention_sites(1).pre == norm_of(NormKind::layer_norm));
}

TEST_CASE("fuse: both heads of a distilled network take the last norm") {
  ViTConfig c = small_vit("bn");
  c.pool = Pool::token;
  c.pos_embed_class = c.distill_token = true;
  const FusedModel fused = check_fused(c, DType::f64, 1e-11);
  CHECK(result_of(fused, "final").what == "head, head_dist");
}

TEST_CASE("fuse: norms that no linear is next to are left with a reason") {
  ViTConfig c = small_vit(everywhere());
  c.pool = Pool::token;
  c.placement.stem.posembed_out = c.placement.attn.post = c.placement.mlp.post = kBN;
  c.placement.mlp.inner = norm_of(NormKind::layer_norm);
  c.placement.pooled = norm_of(NormKind::rms_norm);
  const FusedModel fused = check_fused(c, DType::f64, 1e-11);
  Placement expected{};
  expected.stem.posembed_out = expected.attn.post = expected.mlp.post = expected.final = kBN;
  expected.mlp.inner = norm_of(NormKind::layer_norm);
  expected.pooled = norm_of(NormKind::rms_norm);
  expected.residual_scale = true;
  expected.layer_scale.kind = LayerScaleKind::channel;
  CHECK(vit_in(fused).placement == expected);
  CHECK(result_of(fused, "mlp.inner").what == "it is not a batch norm");
  CHECK(result_of(fused, "final").what == "the rms_norm at pooled lies between it and head");
  CHECK(fusion_report(fused.sites, 100, 90) ==
        "stem.patch_in      batch_norm        merged into patch_embed\n"
        "stem.patch_out     batch_norm        merged into patch_embed\n"
        "stem.posembed_out  batch_norm        left: it follows the sum with the positions and precedes a shortcut\n"
        "attn.pre           batch_norm        merged into attn.q, attn.k, attn.v\n"
        "attn.query         batch_norm        merged into attn.q\n"
        "attn.key           batch_norm        merged into attn.k\n"
        "attn.value         batch_norm        merged into attn.v\n"
        "attn.inner         batch_norm        merged into attn.proj\n"
        "attn.out           batch_norm        merged into attn.proj\n"
        "attn.post          batch_norm        left: it follows a sum with the shortcut, not a linear layer\n"
        "mlp.pre            batch_norm        merged into mlp.fc1\n"
        "mlp.hidden         batch_norm        merged into mlp.fc1\n"
        "mlp.inner          layer_norm        left: it is not a batch norm\n"
        "mlp.out            batch_norm        merged into mlp.fc2\n"
        "mlp.post           batch_norm        left: it follows a sum with the shortcut, not a linear layer\n"
        "final              batch_norm        left: the rms_norm at pooled lies between it and head\n"
        "pooled             rms_norm          left: it is not a batch norm\n"
        "parameters and running statistics: 100 before, 90 after\n");
}

TEST_CASE("fuse: a network without batch norm does not change") {
  const ViTConfig c = small_vit("dpn");
  const HostTensors tensors = some_tensors(c);
  const FusedModel fused = fuse_batch_norms(c, tensors);
  CHECK(fused.config == ModelConfig(c));
  CHECK(merged(fused).empty());
  CHECK(fused.tensors.size() == tensors.size());
}

TEST_CASE("fuse: tensors of another network are refused by name") {
  const ViTConfig c = small_vit("bn");
  const HostTensors good = some_tensors(c);
  const auto refusal = [&](const auto& change) {
    HostTensors tensors = good;
    change(tensors);
    try {
      fuse_batch_norms(c, tensors);
      return std::string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  CHECK(refusal([](HostTensors&) {}) == "");
  CHECK(refusal([](HostTensors& t) { t.erase("final.running_mean"); }) ==
        "tensor final.running_mean of this network is missing");
  CHECK(refusal([](HostTensors& t) { t["optimizer.m/head.bias"] = {}; }) ==
        "tensor optimizer.m/head.bias does not belong to this network");
  CHECK(refusal([](HostTensors& t) { t["head.bias"].shape = {3}; }) == "network: head.bias is [3], expected [10]");
  CHECK(refusal([](HostTensors& t) { t["head.bias"].values.pop_back(); }) ==
        "tensor head.bias has 9 values, but its shape needs 10");
  CHECK(refusal([](HostTensors& t) { t["blocks.1.mlp.pre.running_var"].values[3] = -2; }) ==
        "blocks.1.mlp.pre: the running variance of channel 3 is -2, negative with epsilon 1e-05");
  CHECK(refusal([](HostTensors& t) {
          t["final.gamma"].values[0] = 1e38;
          t["final.running_var"].values[0] = 0;
          t["head.weight"].values[0] = 1;
        }) == "fusion: head.weight would be 3.16228e+40 at 0, which a float cannot hold");
}
