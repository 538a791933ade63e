// What a network leaves out because its result does not depend on it: gradients and answers are those of the full form.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "experiments/lab/descriptor/reader.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/devices.h"
#include "tests/nn/training/small_training.h"

using namespace normlab;

namespace {

constexpr std::int64_t kBatch = 6;

struct Computed {
  double loss;
  std::vector<double> gradient, losses, logits;
};

/// Forward and backward of `steps` steps, of which only the masks differ.
template <class Config>
std::vector<Computed> compute_steps(Config c, bool short_forms, std::int64_t images_per_shard, int steps = 8,
                                    SignalProbe* probe = nullptr) {
  c.short_forms = short_forms;
  EngineSettings settings;
  settings.precision = Precision::fp64;
  settings.max_batch = kBatch;
  settings.images_per_shard = images_per_shard;
  SmallTraining training(c, settings, 1);
  auto& [pool, engine, data] = training;
  random_head(engine);
  Observers observers;
  if (probe) probe->observe(observers);
  engine.use_probe(observers);
  std::vector<Computed> out;
  for (int step = 0; step < steps; ++step) {
    engine.state().step = step;
    Computed& of_step = out.emplace_back(
        Computed{engine.forward_backward(data.images, data.labels), {}, std::vector<double>(kBatch), {}});
    engine.sum_gradients();
    const Tensor gradient = engine.parameters().flat_lane(0);
    of_step.gradient.assign(gradient.data<double>(), gradient.data<double>() + gradient.size());
    std::vector<std::int32_t> predicted(kBatch);
    of_step.logits.resize(std::size_t(kBatch * c.num_classes));
    CHECK(!engine.evaluate(data.images, data.labels, of_step.losses, predicted, of_step.logits));
  }
  return out;
}

template <class Config>
Computed compute(const Config& c, bool short_forms, std::int64_t images_per_shard = 4, SignalProbe* probe = nullptr) {
  return compute_steps(c, short_forms, images_per_shard, 1, probe).front();
}

/// Beside the largest value: a norm of a class token that is still zero makes gradients of thousands.
double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, largest = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return most / largest;
}

ViTConfig with_class_token(std::string_view placement) {
  ViTConfig c = small_vit(placement);
  c.pool = Pool::token;
  return c;
}

/// Of the short form of drop-path beside the full one, alone and with dropout on all that a mask is drawn for.
template <class Config>
void check_drop_path(Config c) {
  for (const double dropout : {0.0, 0.2}) {
    CAPTURE(dropout);
    c.dropout = c.attention_dropout = dropout;
    c.drop_path = 0.5;
    const Computed some = compute(c, true), all = compute(c, false);
    CHECK(some.loss == doctest::Approx(all.loss).epsilon(1e-13));
    CHECK(furthest(some.gradient, all.gradient) < 1e-12);
    CHECK(furthest(some.losses, all.losses) < 1e-12);
  }
}

void for_probed_networks(const std::function<void(const ViTConfig&, std::int64_t)>& check) {
  for (const std::int64_t images_per_shard : {1, 4})
    for (ViTConfig c : {small_vit("pre_pre"), with_class_token("normformer")}) {
      c.drop_path = 0.6;
      check(c, images_per_shard);
    }
}

}  // namespace

TEST_CASE("short forms: the class token alone in the last block gives the same") {
  on_each_device([] {
    for (const NamedPlacement& row : named_placements()) {
      CAPTURE(row.name);
      const ViTConfig c = with_class_token(row.name);
      const Computed alone = compute(c, true), all = compute(c, false);
      CHECK(alone.loss == doctest::Approx(all.loss).epsilon(1e-13));
      CHECK(furthest(alone.gradient, all.gradient) < 1e-12);
      CHECK(furthest(alone.losses, all.losses) < 1e-12);
      CHECK(furthest(alone.logits, all.logits) < 1e-12);
      // It is another computation, unless norms look beyond a token or there are two streams.
      const bool full = !norms_see_one_token(c.placement) || c.placement.has_two_streams();
      CHECK((alone.gradient == all.gradient) == full);
    }
  });
}

TEST_CASE("short forms: the images that drop-path keeps give the same") {
  for (const NamedPlacement& row : named_placements()) {
    CAPTURE(row.name);
    check_drop_path(small_vit(row.name));
    check_drop_path(with_class_token(row.name));
    // A Swin has no positions to normalize.
    if (row.placement.stem.posembed_out.kind == NormKind::none && !row.placement.has_two_streams())
      check_drop_path(small_swin(row.name));
  }
}

TEST_CASE("short forms: a gated MLP gives the same") {
  for (const char* placement : {"pre_pre", "normformer_full", "bn_ffnbn"}) {
    CAPTURE(placement);
    ViTConfig c = with_class_token(placement);
    c.mlp = MlpForm::gated;
    c.activation = default_activation(c.mlp);
    check_drop_path(c);
    const Computed alone = compute(c, true), all = compute(c, false);
    CHECK(furthest(alone.gradient, all.gradient) < 1e-12);
    CHECK(furthest(alone.logits, all.logits) < 1e-12);
    SwinConfig swin = small_swin(placement);
    swin.mlp = c.mlp;
    swin.activation = c.activation;
    check_drop_path(swin);
  }
}

TEST_CASE("short forms: gates, learned scales and exclusive heads give the same") {
  for (const char* placement : {"pre_pre", "normformer_full", "bn_extra_attn"})
    for (const AttnGate gate : {AttnGate::none, AttnGate::head, AttnGate::channel})
      for (const bool rest : {false, true}) {
        CAPTURE(placement);
        CAPTURE(int(gate));
        CAPTURE(rest);
        const auto change = [&](Placement& p) {
          p.attn_gate = gate;
          p.attn_scale = rest ? AttnScale::learned : AttnScale::fixed;
          p.attn.exclude_self = rest;
        };
        ViTConfig c = with_class_token(placement);
        change(c.placement);
        check_drop_path(c);
        const Computed alone = compute(c, true), all = compute(c, false);
        CHECK(furthest(alone.gradient, all.gradient) < 1e-12);
        CHECK(furthest(alone.logits, all.logits) < 1e-12);
        SwinConfig swin = small_swin(placement);
        change(swin.placement);
        check_drop_path(swin);
      }
}

TEST_CASE("short forms: formulas give the same, and those over an image see all of its tokens") {
  for (const auto& [text, over] : {std::pair{"gamma * x / rms(x) * N / 16 + beta", Statistics::row},
                                   {"gamma * tanh(x) * (1 + block / depth)", Statistics::none},
                                   {"gamma * (x - mean_tokens(x)) / std_image(x) + beta", Statistics::image}}) {
    const auto& shown = text;
    CAPTURE(shown);
    const NormSpec spec = read_formula_option(text, "test");
    CHECK(statistics_of(spec) == over);
    ViTConfig c = with_class_token("pre_pre");
    c.placement.attn.pre = c.placement.mlp.pre = c.placement.final = spec;
    const Computed alone = compute(c, true), all = compute(c, false);
    CHECK(furthest(alone.gradient, all.gradient) < 1e-12);
    CHECK(furthest(alone.logits, all.logits) < 1e-12);
    CHECK((alone.gradient == all.gradient) == (over == Statistics::image));
    check_drop_path(c);
    SwinConfig swin = small_swin("pre_pre");
    swin.placement.attn.pre = swin.placement.merge = spec;
    check_drop_path(swin);
  }
}

TEST_CASE("short forms: other tokens of the last block are computed if they matter") {
  for (const auto& change : std::vector<void (*)(ViTConfig&)>{
           [](ViTConfig& c) { c.pool = Pool::gap; }, [](ViTConfig& c) { c.distill_token = true; },
           [](ViTConfig& c) { c.dropout = 0.1; }, [](ViTConfig& c) { c.attention_dropout = 0.1; }}) {
    ViTConfig c = with_class_token("pre_pre");
    change(c);
    CHECK(compute(c, true).gradient == compute(c, false).gradient);
  }
}

TEST_CASE("short forms: a lane without kept images has no gradient of an earlier step") {
  ViTConfig c = small_vit("post_post");
  c.drop_path = 0.9;
  int unwritten = 0;
  for (const std::int64_t images_per_shard : {1, 3}) {
    // Several steps: lanes are not cleared, and the masks change.
    const std::vector<Computed> some = compute_steps(c, true, images_per_shard),
                                all = compute_steps(c, false, images_per_shard);
    for (std::size_t step = 0; step < some.size(); ++step) {
      CAPTURE(step);
      CHECK(furthest(some[step].gradient, all[step].gradient) < 1e-12);
      const std::vector<double>& g = some[step].gradient;
      unwritten += std::count(g.begin(), g.end(), 0.0) > std::ptrdiff_t(g.size()) / 4;
    }
  }
  CHECK(unwritten > 0);
}

TEST_CASE("short forms: a probe changes no bit of a gradient") {
  for_probed_networks([](const ViTConfig& c, std::int64_t images_per_shard) {
    SignalProbe probe;
    CHECK(compute(c, true, images_per_shard, &probe).gradient == compute(c, true, images_per_shard).gradient);
  });
}

TEST_CASE("short forms: a probe sees the branches of dropped images") {
  for_probed_networks([](const ViTConfig& c, std::int64_t images_per_shard) {
    SignalProbe some, all;
    compute(c, true, images_per_shard, &some);
    compute(c, false, images_per_shard, &all);
    const auto a = some.layers(), b = all.layers();
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      CAPTURE(a[i].name);
      CHECK(a[i].name == b[i].name);
      for (int axis = 0; axis < 2; ++axis) {
        CHECK(a[i].branch[axis].afv == doctest::Approx(b[i].branch[axis].afv).epsilon(1e-12));
        CHECK(a[i].stream[axis].afv == doctest::Approx(b[i].stream[axis].afv).epsilon(1e-12));
      }
    }
  });
}

TEST_CASE("short forms: batch norm sees the dropped images") {
  ViTConfig c = small_vit("bn_ffnbn");
  c.drop_path = 0.5;
  CHECK(compute(c, true).gradient == compute(c, false).gradient);
}

TEST_CASE("short forms: masks given by name are those of the kept images") {
  ViTConfig c = small_vit("pre_pre");
  c.depth = 1;
  c.dropout = c.attention_dropout = c.drop_path = 0.5;
  const std::int64_t images = 5, tokens = c.tokens();
  Arena memory;
  std::map<std::string, Tensor> masks;
  const auto add_mask = [&](const char* name, const Shape& shape) {
    const Tensor mask = masks[name] = memory.empty(shape, DType::u8);
    const StreamKey key = stream_key(3, "test", name);
    for (std::int64_t i = 0; i < mask.size(); ++i)
      mask.data<std::uint8_t>()[i] = keep(draw(key, static_cast<std::uint64_t>(i))[0], drop_threshold(0.5));
  };
  for (const char* name : {"stem", "blocks.0.attn", "blocks.0.mlp"}) add_mask(name, {images, tokens, c.embed_dim});
  for (const char* name : {"blocks.0.attn_path", "blocks.0.mlp_path"}) add_mask(name, {images});
  add_mask("blocks.0.hidden", {images, tokens, c.mlp_dim});
  add_mask("blocks.0.weights", {images, c.num_heads, tokens, tokens});
  const Batch data(c, images, DType::f64);
  const auto logits = [&](bool short_forms) {
    c.short_forms = short_forms;
    ShardPool pool(1);
    EngineSettings settings;
    settings.precision = Precision::fp64;
    Engine engine(cpu_backend(), pool, c, settings);  // for its parameters
    initialise(engine.parameters(), c, 3);
    random_head(engine);
    engine.parameters().refresh_copy(cpu_backend(), pool);
    ParameterSet declared;
    const std::unique_ptr<Model> model = make_model(declared, c);
    Arena arena;
    Tape tape(cpu_backend(), arena);
    SingleShard alone;
    const Step step{.parameters = engine.parameters(), .training = true, .masks = &masks};
    const Shard shard{.step = step, .tape = tape, .slice = {images, 0, images, &alone}};
    const Tensor out = (*model)(tape.input(data.images), shard).value();
    return std::vector<double>(out.data<double>(), out.data<double>() + out.size());
  };
  const std::vector<double> some = logits(true), all = logits(false);
  CHECK(furthest(some, all) < 1e-12);
  CHECK(std::count(all.begin(), all.end(), 0.0) == 0);
}
