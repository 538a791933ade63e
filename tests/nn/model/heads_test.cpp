// Gates, learned scales and exclusive heads in networks: parameters, initial values, costs, and what they compute.
#include "nn/model/heads.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/randn.h"
#include "core/devices.h"
#include "nn/model/init.h"
#include "nn/model/model.h"
#include "nn/model/text_tower.h"
#include "tests/nn/training/small_training.h"

using namespace normlab;

namespace {

constexpr std::int64_t kBatch = 6;

template <class Config>
Config with(Config c, AttnGate gate, AttnScale scale = AttnScale::fixed, bool exclude_self = false) {
  c.placement.attn_gate = gate;
  c.placement.attn_scale = scale;
  c.placement.attn.exclude_self = exclude_self;
  return c;
}
template <class Config>
Config with_all(Config c, AttnGate gate = AttnGate::head) {
  return with(c, gate, AttnScale::learned, true);
}

const ParameterInfo* named(const ParameterSet& set, const std::string& name) {
  const int number = set.find(name);
  return number < 0 ? nullptr : &set.parameters()[std::size_t(number)];
}
void fill(ParameterSet& set, std::string_view end, double value) {
  int found = 0;
  for (const ParameterInfo& info : set.parameters())
    if (info.name.ends_with(end)) {
      const Tensor t = set.value(set.find(info.name));
      std::fill_n(t.data<double>(), t.size(), value);
      ++found;
    }
  CHECK(found > 0);
}

struct Computed {
  std::vector<double> logits, gradient;
  bool operator==(const Computed&) const = default;
};
/// A step in double after `set` has changed the initial weights.
template <class Set>
Computed computed(const ModelConfig& c, std::int64_t images_per_shard, int threads, const Set& set) {
  EngineSettings settings;
  settings.precision = Precision::fp64;
  settings.max_batch = kBatch;
  settings.images_per_shard = images_per_shard;
  SmallTraining training(c, settings, threads);
  auto& [pool, engine, data] = training;
  random_head(engine);
  set(engine.parameters());
  Computed out;
  engine.forward_backward(data.images, data.labels);
  engine.sum_gradients();
  const Tensor gradient = engine.parameters().flat_lane(0);
  out.gradient.assign(gradient.data<double>(), gradient.data<double>() + gradient.size());
  std::vector<double> losses(kBatch);
  std::vector<std::int32_t> predicted(kBatch);
  out.logits.resize(std::size_t(kBatch * num_classes(c)));
  CHECK(!engine.evaluate(data.images, data.labels, losses, predicted, out.logits));
  return out;
}
Computed computed(const ModelConfig& c, std::int64_t images_per_shard = kBatch, int threads = 1) {
  return computed(c, images_per_shard, threads, [](ParameterSet&) {});
}

double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return most / largest;
}

}  // namespace

TEST_CASE("heads: a gate is a layer beside q, with one output per head or as wide") {
  const auto check = [](const ModelConfig& plain, AttnGate kind, const std::string& prefix, bool bias) {
    CAPTURE(prefix);
    ModelConfig gated = plain;
    network(gated).placement.attn_gate = kind;
    network(gated).qkv_bias = bias;
    ModelConfig before = plain;
    network(before).qkv_bias = bias;
    ParameterSet without, set;
    make_model(without, before);
    make_model(set, gated);
    CHECK(named(without, prefix + "attn.gate.weight") == nullptr);
    std::int64_t values = 0, macs = 0;
    for (const ParameterInfo& info : set.parameters()) {
      if (info.role != Role::gate) continue;
      std::string beside = info.name;
      beside.replace(beside.find("gate"), 4, "q");
      const ParameterInfo* const q = named(set, beside);
      REQUIRE(q != nullptr);
      const BlockSizes sizes = block_sizes(gated)[std::size_t(info.place.layer - 1)];
      CHECK(info.shape[0] == (kind == AttnGate::head ? sizes.num_heads : sizes.embed_dim));
      CHECK(info.shape.rank() == q->shape.rank());
      CHECK(info.decays == q->decays);
      CHECK(info.fan_in == q->fan_in);
      CHECK(info.place.layer == q->place.layer);
      CHECK(info.place.branch == "attn");
      values += info.shape.size();
      if (info.decays) macs += info.shape.size() * sizes.attended;
    }
    CHECK((named(set, prefix + "attn.gate.bias") != nullptr) == bias);
    CHECK(values > 0);
    const ModelCost of_plain = model_cost(before), of_gated = model_cost(gated);
    CHECK(of_gated.parameters == of_plain.parameters + values);
    CHECK(of_gated.macs == of_plain.macs + macs);
    CHECK(of_gated.norm_elements == of_plain.norm_elements);
  };
  for (const AttnGate kind : {AttnGate::head, AttnGate::channel})
    for (const bool bias : {false, true}) {
      check(small_vit("normformer_full"), kind, "blocks.1.", bias);
      check(small_swin("bn_ffnbn"), kind, "stages.1.blocks.1.", bias);
    }
}

TEST_CASE("heads: a learned scale is a number per head that does not decay, and exclusive heads have no parameters") {
  const auto check = [](ModelConfig c, const std::string& prefix, std::int64_t heads) {
    const ModelCost before = model_cost(c);
    network(c).placement.attn.exclude_self = true;
    CHECK(model_cost(c).parameters == before.parameters);
    CHECK(model_cost(c).macs == before.macs);
    network(c).placement.attn_scale = AttnScale::learned;
    CHECK(model_cost(c).macs == before.macs);
    ParameterSet set;
    make_model(set, c);
    const ParameterInfo* const scale = named(set, prefix + "attn.logit_scale");
    REQUIRE(scale != nullptr);
    CHECK(scale->shape == Shape{heads});
    CHECK_FALSE(scale->decays);
    CHECK(init_rule(set, set.find(scale->name), c) == InitRule{.scale = std::log(10.0)});
  };
  check(small_vit("pre_pre"), "blocks.1.", 3);
  check(small_swin("pre_pre"), "stages.2.blocks.0.", 4);
}

TEST_CASE("heads: a gate begins like q in every code base") {
  const auto check = [](const ModelConfig& c) {
    ParameterSet set;
    make_model(set, c);
    int seen = 0;
    for (std::size_t p = 0; p < set.parameters().size(); ++p) {
      std::string beside = set.parameters()[p].name;
      if (set.parameters()[p].role != Role::gate) continue;
      beside.replace(beside.find("gate"), 4, "q");
      CHECK(init_rule(set, int(p), c) == init_rule(set, set.find(beside), c));
      ++seen;
    }
    CHECK(seen > 0);
  };
  for (const std::string_view word : kWords<Init>) {
    CAPTURE(word);
    ViTConfig c = with(small_vit("sub_ln"), AttnGate::channel);
    REQUIRE(find_word(word, c.init.base));
    check(c);
    c.task = Task::contrast;
    c.text = {.vocabulary = 9, .length = 5, .embed_dim = 12, .depth = 1, .num_heads = 2, .mlp_dim = 20};
    c.text.placement.attn_gate = AttnGate::channel;
    check(c);
  }
  check(with(small_swin("sub_ln"), AttnGate::channel));
}

TEST_CASE("heads: a gate without weights halves the heads, and a wide open one leaves them") {
  for (const AttnGate kind : {AttnGate::head, AttnGate::channel}) {
    CAPTURE(int(kind));
    const auto with_bias = [&](double bias) {
      return computed(with(small_vit("pre_pre"), kind), kBatch, 1, [&](ParameterSet& set) {
        fill(set, "attn.gate.weight", 0);
        fill(set, "attn.gate.bias", bias);
      });
    };
    ViTConfig halved = small_vit("pre_pre");
    halved.placement.head_scale = HeadScale::before_proj;
    const auto halve = [](ParameterSet& set) { fill(set, "attn.head_scale", 0.5); };
    CHECK(furthest(with_bias(0).logits, computed(halved, kBatch, 1, halve).logits) < 1e-14);
    CHECK(furthest(with_bias(60).logits, computed(small_vit("pre_pre")).logits) < 1e-14);
    CHECK(furthest(with_bias(0).logits, computed(small_vit("pre_pre")).logits) > 1e-4);
  }
}

TEST_CASE("heads: the scale is exp(min(s, log 100)), also for the class token alone and in windows") {
  const auto check = [](auto c, double fixed) {
    const auto scaled = [&](double s) {
      return computed(with(c, AttnGate::none, AttnScale::learned), kBatch, 1,
                      [&](ParameterSet& set) { fill(set, "attn.logit_scale", s); });
    };
    CHECK(furthest(scaled(std::log(fixed)).logits, computed(c).logits) < 1e-13);
    CHECK(scaled(5).logits == scaled(7).logits);
    CHECK(furthest(scaled(std::log(100.0)).logits, scaled(5).logits) < 1e-12);
    CHECK(scaled(4.5).logits != scaled(5).logits);
  };
  ViTConfig token = small_vit("pre_pre");
  check(token, 1 / std::sqrt(8.0));
  token.pool = Pool::token;
  check(token, 1 / std::sqrt(8.0));
  SwinConfig swin = small_swin("pre_pre");  // 6, 12 and 12 channels a head
  swin.num_heads = {2, 4, 8};
  check(swin, 1 / std::sqrt(6.0));
}

TEST_CASE("heads: exclusive heads have no part along their own value, and keep all where that is zero") {
  Arena memory;
  Tape tape(cpu_backend(), memory);
  const BlockSizes sizes{.embed_dim = 12, .num_heads = 3};
  NetworkConfig network;
  network.placement.attn.exclude_self = true;
  const ExclusiveHeads exclusive(BranchConfig(network, {.block = 0, .layer = 1}, sizes, 1));
  const Tensor y = randn(memory, {2, 5, 12}, DType::f64, 1), v = randn(memory, {2, 5, 12}, DType::f64, 2);
  std::fill_n(v.data<double>(), 4, 0.0);
  for (int i = 4; i < 8; ++i) v.data<double>()[i] *= 1e-6;
  ParameterSet none;
  const Step step{.parameters = none};
  const Tensor z = exclusive(tape.input(y), tape.input(v), Shard{.step = step, .tape = tape}).value();
  CHECK(std::equal(z.data<double>(), z.data<double>() + 4, y.data<double>()));
  for (std::int64_t head = 1; head < 30; ++head) {
    CAPTURE(head);
    double along = 0, size = 0;
    for (std::int64_t i = 4 * head; i < 4 * head + 4; ++i) {
      along += z.data<double>()[i] * v.data<double>()[i];
      size += v.data<double>()[i] * v.data<double>()[i];
    }
    CHECK(std::abs(along) < 1e-14 * std::sqrt(size));
  }
}

TEST_CASE("heads: formulas run what attention does to them") {
  CHECK(!runs_formulas(small_vit("pre_pre")));
  CHECK(runs_formulas(with(small_swin("pre_pre"), AttnGate::head)));
  CHECK(runs_formulas(with(small_vit("pre_pre"), AttnGate::none, AttnScale::learned)));
  ViTConfig c = small_vit("pre_pre");
  c.placement.blocks = {{1, 1, {.exclude_self = true}, {}}};
  CHECK(runs_formulas(c));
  c = small_vit("pre_pre");
  c.task = Task::contrast;
  c.text = {.vocabulary = 9, .length = 5, .embed_dim = 12, .depth = 1, .num_heads = 2, .mlp_dim = 20};
  CHECK(!runs_formulas(c));
  c.text.placement.attn_gate = AttnGate::channel;
  CHECK(runs_formulas(c));
}

TEST_CASE("heads: blocks may differ in whether heads are exclusive") {
  ViTConfig both = with(small_vit("pre_pre"), AttnGate::none, AttnScale::fixed, true), last = small_vit("pre_pre");
  const Computed none = computed(last);
  last.placement.blocks = {{1, 1, {.pre = last.placement.attn.pre, .exclude_self = true}, last.placement.mlp}};
  CHECK(furthest(computed(last).logits, none.logits) > 1e-3);
  CHECK(furthest(computed(last).logits, computed(both).logits) > 1e-3);
}

TEST_CASE("heads: shards that meet, and that compute values again, give the gradient of the whole batch") {
  for (const char* placement : {"pre_pre", "bn", "bn_ffnbn", "bn_extra_attn", "normformer_full"})
    for (const AttnGate kind : {AttnGate::head, AttnGate::channel}) {
      CAPTURE(placement);
      CAPTURE(int(kind));
      const ModelConfig networks[] = {with_all(small_vit(placement), kind), with_all(small_swin(placement), kind)};
      for (const ModelConfig& c : networks) {
        const Computed whole = computed(c), cut = computed(c, 2, 1);
        CHECK(furthest(cut.gradient, whole.gradient) < 1e-11);
        CHECK(computed(c, 2, 3) == cut);
      }
    }
}
