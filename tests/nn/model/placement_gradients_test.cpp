// One step of every placement: each parameter gets a gradient, or none because mathematics says so.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "core/random.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/devices.h"
#include "tests/nn/training/small_training.h"

using namespace normlab;

namespace {

/// Weights of the size that keeps activations: Swin's own 0.02 lets the gradients of a narrow network die out.
void wide_weights(Engine& engine) {
  for (const ParameterInfo& p : engine.parameters().parameters()) {
    if (!p.decays) continue;
    const Tensor t = engine.parameters().value(engine.parameters().find(p.name));
    const StreamKey key = stream_key(9, "test", p.name);
    const double std = 1 / std::sqrt(double(p.shape.back()));
    for (std::int64_t i = 0; i < t.size(); ++i) t.data<double>()[i] = std * normal(key, std::uint64_t(i));
  }
}

/// Parameters whose gradient vanishes whatever the data. A key bias shifts all scores of a row alike. A shift of a
/// whole channel vanishes in a batch norm, also one that only meets batch norms further down the residual stream;
/// attention passes a shift of its values on, since its weights sum to one.
/// `blocks` are the names of those that share one residual stream; `end_ignores` says that a shift of a channel
/// vanishes behind it, `start` is the parameter that shifts it at its beginning, or "".
std::set<std::string> zero_in_stream(const Placement& p, const std::vector<std::string>& blocks, bool end_ignores,
                                     const std::string& start) {
  const auto bn = [](const NormSpec& n) { return n.kind == NormKind::batch_norm; };
  const auto none = [](const NormSpec& n) { return n.kind == NormKind::none; };
  const bool attention_ignores = bn(p.attn.pre), mlp_ignores = bn(p.mlp.pre) || (none(p.mlp.pre) && bn(p.mlp.hidden));
  // A shift of the stream in front of branch b (attention of block i is 2 i, its MLP 2 i + 1) reaches only batch norms.
  const auto ignored_from = [&](std::int64_t b) {
    for (; b < 2 * std::int64_t(blocks.size()); ++b)
      if (!(b % 2 == 0 ? attention_ignores && none(p.attn.post) : mlp_ignores && none(p.mlp.post))) return false;
    return end_ignores;
  };
  std::set<std::string> zero;
  const auto add_if = [&](bool condition, const std::string& name) {
    if (condition) zero.insert(name);
  };
  add_if(ignored_from(0), start);
  for (std::int64_t i = 0; i < std::int64_t(blocks.size()); ++i) {
    const std::string attn = blocks[std::size_t(i)] + ".attn.", mlp = blocks[std::size_t(i)] + ".mlp.";
    const bool after_attention = ignored_from(2 * i + 1) && none(p.attn.post);
    const bool after_mlp = ignored_from(2 * i + 2) && none(p.mlp.post);
    add_if(none(p.attn.key), attn + "k.bias");
    add_if(after_attention && !none(p.attn.out), attn + "out.beta");
    const bool projected = bn(p.attn.out) || (none(p.attn.out) && after_attention);
    add_if(projected, attn + "proj.bias");
    const bool joined = projected && none(p.attn.inner);
    add_if(joined && !none(p.attn.value), attn + "value.beta");
    add_if(bn(p.attn.value) || (joined && none(p.attn.value)), attn + "v.bias");
    add_if(after_mlp && !none(p.mlp.out), mlp + "out.beta");
    const bool last = bn(p.mlp.out) || (none(p.mlp.out) && after_mlp);
    add_if(last, mlp + "fc2.bias");
    add_if(last && !none(p.mlp.inner), mlp + "inner.beta");
    add_if(bn(p.mlp.hidden), mlp + "fc1.bias");
    add_if(bn(p.mlp.hidden) && !none(p.mlp.pre), mlp + "pre.beta");
  }
  return zero;
}

std::set<std::string> zero_by_mathematics(const ViTConfig& c) {
  const Placement& p = c.placement;
  std::vector<std::string> blocks;
  for (std::int64_t i = 0; i < c.depth; ++i) blocks.push_back("blocks." + std::to_string(i));
  const bool normed = p.stem.posembed_out.kind != NormKind::none || p.stem.patch_out.kind != NormKind::none;
  return zero_in_stream(p, blocks, p.final.kind == NormKind::batch_norm, normed ? "" : "patch_embed.bias");
}

/// A merging ends one stream and begins the next. Where a side is odd its norm sees padding, which no shift reaches.
std::set<std::string> zero_by_mathematics(const SwinConfig& c) {
  const Placement& p = c.placement;
  const std::vector<SwinStage> stages = swin_stages(c);
  std::set<std::string> zero;
  if (p.stem.patch_out.kind == NormKind::batch_norm) zero.insert("patch_embed.bias");
  for (std::size_t s = 0; s < stages.size(); ++s) {
    std::vector<std::string> blocks;
    for (std::int64_t i = 0; i < stages[s].depth; ++i) blocks.push_back(concat("stages.", s, ".blocks.", i));
    const bool last = s + 1 == stages.size(), even = stages[s].height % 2 == 0 && stages[s].width % 2 == 0;
    const bool end_ignores = (last ? p.final : p.merge).kind == NormKind::batch_norm && (last || even);
    const std::string first = p.stem.patch_out.kind == NormKind::none ? "patch_embed.bias" : "stem.patch_out.beta";
    zero.merge(zero_in_stream(p, blocks, end_ignores, s == 0 ? first : concat("stages.", s, ".merge.beta")));
  }
  return zero;
}

/// One step in double; every gradient is there, or vanishes because mathematics says so.
template <class Config>
void check_gradients(const Config& c) {
  const std::int64_t batch = std::is_same_v<Config, SwinConfig> ? 4 : 6;
  EngineSettings settings;
  settings.precision = Precision::fp64;
  settings.max_batch = batch;
  settings.images_per_shard = 2;
  SmallTraining training(c, settings, 1);
  auto& [pool, engine, data] = training;
  if (std::is_same_v<Config, SwinConfig>) wide_weights(engine);
  random_head(engine);
  CHECK(std::isfinite(engine.forward_backward(data.images, data.labels)));
  engine.sum_gradients();
  const std::set<std::string> zero = zero_by_mathematics(c);
  for (std::size_t n = 0; n < engine.parameters().parameters().size(); ++n) {
    const std::string& name = engine.parameters().parameters()[n].name;
    const Tensor g = engine.parameters().gradient(0, static_cast<int>(n));
    double largest = 0.0;
    for (std::int64_t i = 0; i < g.size(); ++i) largest = std::max(largest, std::abs(g.data<double>()[i]));
    CAPTURE(name);
    const ParameterInfo& info = engine.parameters().parameters()[n];
    // tanh(x . beta) is the factor of a seednorm's alpha, and beta starts at 0.
    const bool of_seednorm = info.site && name.ends_with(".alpha") &&
                             norm_at(c.placement, *info.site, info.place.layer - 1).kind == NormKind::seednorm;
    if (zero.contains(name) || of_seednorm)
      CHECK(largest < 1e-9);
    else
      CHECK(largest > 1e-7);
  }
}

}  // namespace

TEST_CASE("engine: a step of every placement gives each parameter a gradient") {
  on_each_device([] {
    for (const NamedPlacement& row : named_placements()) {
      CAPTURE(row.name);
      check_gradients(small_vit(row.name));
    }
  });
}

TEST_CASE("engine: a step of every placement on a Swin gives each parameter a gradient") {
  on_each_device([] {
    for (const NamedPlacement& row : named_placements()) {
      if (row.placement.stem.posembed_out.kind != NormKind::none) continue;  // a Swin adds no positions
      if (row.placement.has_two_streams()) continue;                         // only a ViT has them
      CAPTURE(row.name);
      check_gradients(small_swin(row.name));
    }
  });
}

TEST_CASE("engine: a step of every activation gives each parameter a gradient") {
  for (const std::string_view word : kWords<ActivationKind>)
    for (const MlpForm form : {MlpForm::plain, MlpForm::gated}) {
      CAPTURE(word);
      CAPTURE(int(form));
      ViTConfig vit = small_vit("normformer_full");
      SwinConfig swin = small_swin("pre_pre");
      vit.mlp = swin.mlp = form;
      REQUIRE(find_word(word, vit.activation.kind));
      swin.activation = vit.activation;
      check_gradients(vit);
      check_gradients(swin);
    }
}

TEST_CASE("engine: a step with gates and learned scales gives each parameter a gradient") {
  on_each_device([] {
    for (const AttnGate gate : {AttnGate::head, AttnGate::channel})
      for (const bool exclude_self : {false, true}) {
        CAPTURE(int(gate));
        CAPTURE(exclude_self);
        ViTConfig vit = small_vit("normformer_full");
        SwinConfig swin = small_swin("pre_pre");
        for (Placement* p : {&vit.placement, &swin.placement}) {
          p->attn_gate = gate;
          p->attn_scale = AttnScale::learned;
          p->attn.exclude_self = exclude_self;
        }
        check_gradients(vit);
        check_gradients(swin);
      }
  });
}

TEST_CASE("engine: a distillation token and its head get a gradient") {
  on_each_device([] {
    ViTConfig c = small_vit("pre_pre");
    c.pool = Pool::token;
    c.distill_token = true;
    for (const bool position : {false, true}) {
      c.pos_embed_class = position;
      check_gradients(c);
    }
  });
}
