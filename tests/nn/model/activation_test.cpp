// Activations and gated MLPs in networks: parameters, initial values, costs, and what they compute.
#include "nn/model/activation.h"

#include <doctest/doctest.h>

#include <cmath>

#include "nn/model/init.h"
#include "nn/model/model.h"
#include "nn/model/text_tower.h"
#include "tests/nn/training/small_training.h"

using namespace normlab;

namespace {

ActivationConfig formula_of(const std::string& text) {
  return {ActivationKind::formula, interned({.tree = formula::parse_elementwise(text), .text = text})};
}

template <class Config>
Config gated(Config c, ActivationKind kind = ActivationKind::silu) {
  c.mlp = MlpForm::gated;
  c.activation = {kind};
  return c;
}

ViTConfig with_text(ViTConfig c) {
  c.task = Task::contrast;
  c.text = {.vocabulary = 9, .length = 5, .embed_dim = 12, .depth = 1, .num_heads = 2, .mlp_dim = 20};
  return c;
}

const ParameterInfo& named(const ParameterSet& set, const std::string& name) {
  const int number = set.find(name);
  REQUIRE_MESSAGE(number >= 0, name);
  return set.parameters()[std::size_t(number)];
}

constexpr std::int64_t kBatch = 6;

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
  engine.state().progress = 0.5;
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

TEST_CASE("activation: a gated MLP has fc3 beside fc1, which costs as much") {
  const auto check = [](const ModelConfig& plain, const ModelConfig& with_gate, const std::string& prefix) {
    ParameterSet before, after;
    make_model(before, plain);
    make_model(after, with_gate);
    CHECK(before.find(prefix + "mlp.fc3.weight") == -1);
    std::int64_t values = 0, macs = 0;
    for (const ParameterInfo& info : after.parameters()) {
      if (info.role != Role::fc3) continue;
      std::string beside = info.name;
      beside.replace(beside.find("fc3"), 3, "fc1");
      const ParameterInfo& fc1 = named(after, beside);
      CHECK(info.shape == fc1.shape);
      CHECK(info.decays == fc1.decays);
      CHECK(info.fan_in == fc1.fan_in);
      CHECK(info.place.layer == fc1.place.layer);
      CHECK(info.place.block == fc1.place.block);
      values += info.shape.size();
      if (!info.decays) continue;
      const BlockSizes sizes = info.place.stage == kTextStage
                                   ? block_sizes(text_tower(std::get<ViTConfig>(with_gate))).front()
                                   : block_sizes(with_gate)[std::size_t(info.place.layer - 1)];
      macs += info.shape.size() * sizes.tokens;
    }
    CHECK(named(after, prefix + "mlp.fc3.weight").shape == named(after, prefix + "mlp.fc1.weight").shape);
    CHECK(values > 0);
    const ModelCost of_plain = model_cost(plain), of_gated = model_cost(with_gate);
    CHECK(of_gated.parameters == of_plain.parameters + values);
    CHECK(of_gated.macs == of_plain.macs + macs);
    CHECK(of_gated.norm_elements == of_plain.norm_elements);
    CHECK(widest_layer(with_gate) > widest_layer(plain));
  };
  check(small_vit("normformer_full"), gated(small_vit("normformer_full")), "blocks.1.");
  check(small_swin("bn_ffnbn"), gated(small_swin("bn_ffnbn")), "stages.1.blocks.1.");
  ViTConfig text = with_text(small_vit("pre_pre")), gated_text = text;
  text.text.mlp_dim = gated_text.text.mlp_dim = 2000;  // the widest layer
  gated_text.text.mlp = MlpForm::gated;
  check(text, gated_text, "text.blocks.0.");
}

TEST_CASE("activation: fc3 starts as fc1 in every code base") {
  const auto check = [](const ModelConfig& c) {
    ParameterSet set;
    make_model(set, c);
    for (std::size_t p = 0; p < set.parameters().size(); ++p) {
      std::string beside = set.parameters()[p].name;
      if (set.parameters()[p].role != Role::fc3) continue;
      beside.replace(beside.find("fc3"), 3, "fc1");
      CHECK(init_rule(set, int(p), c) == init_rule(set, set.find(beside), c));
    }
  };
  for (const std::string_view word : kWords<Init>) {
    CAPTURE(word);
    ViTConfig c = with_text(gated(small_vit("sub_ln")));
    c.text.mlp = MlpForm::gated;
    REQUIRE(find_word(word, c.init.base));
    check(c);
    c.task = Task::classify;
    check(c);
  }
  check(gated(small_swin("sub_ln")));
}

TEST_CASE("activation: a gate of ones leaves the activation alone") {
  for (const ActivationKind kind : {ActivationKind::relu, ActivationKind::silu, ActivationKind::relu_squared}) {
    CAPTURE(int(kind));
    ViTConfig plain = small_vit("bn_ffnbn");
    plain.activation = {kind};
    const Computed wanted = computed(plain);
    const Computed got = computed(gated(small_vit("bn_ffnbn"), kind), kBatch, 1, [](ParameterSet& set) {
      for (const ParameterInfo& info : set.parameters())
        if (info.role == Role::fc3) {
          const Tensor t = set.value(set.find(info.name));
          std::fill_n(t.data<double>(), t.size(), info.decays ? 0.0 : 1.0);
        }
    });
    CHECK(got.logits == wanted.logits);
    CHECK(furthest(computed(plain).logits, computed(small_vit("bn_ffnbn")).logits) > 1e-3);
  }
}

TEST_CASE("activation: gelu as a formula is the kernel's") {
  for (const GeluForm form : {GeluForm::erf, GeluForm::tanh}) {
    ViTConfig c = small_vit("pre_pre"), spelled = c;
    c.gelu = form;
    spelled.activation =
        formula_of(form == GeluForm::erf ? "gelu(x)" : "0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))");
    const Computed kernel = computed(c), by_formula = computed(spelled);
    CHECK(furthest(by_formula.logits, kernel.logits) < 1e-12);
    CHECK(furthest(by_formula.gradient, kernel.gradient) < 1e-12);
  }
}

TEST_CASE("activation: shards that meet, and that compute values again, give the gradient of the whole batch") {
  for (const char* placement : {"pre_pre", "bn", "bn_ffnbn", "bn_ffnbn_postact"}) {
    CAPTURE(placement);
    for (const ActivationKind kind : {ActivationKind::gelu, ActivationKind::relu_squared}) {
      const ViTConfig c = gated(small_vit(placement), kind);
      const Computed whole = computed(c), cut = computed(c, 2, 1);
      CHECK(furthest(cut.gradient, whole.gradient) < 1e-11);
      CHECK(computed(c, 2, 3) == cut);
      ViTConfig plain = small_vit(placement);
      plain.activation = {kind};
      CHECK(furthest(computed(plain, 2, 2).gradient, computed(plain).gradient) < 1e-11);
    }
  }
}

TEST_CASE("activation: progress is the training's") {
  ViTConfig c = small_vit("pre_pre"), constant = c;
  c.activation = formula_of("silu(x) * (2 - progress)");
  constant.activation = formula_of("silu(x) * 1.5");
  CHECK(furthest(computed(c).logits, computed(constant).logits) < 1e-13);
  CHECK(furthest(computed(c).gradient, computed(constant).gradient) < 1e-13);
  REQUIRE(formulas_of(c).size() == 1);
  CHECK(formulas_of(c).front().name == "mlp.activation");
  CHECK(formulas_of(c).front().site == formula::Site{.channels = 96, .tokens = 16, .depth = 2});
}

TEST_CASE("activation: all but gelu in a plain MLP are run by formulas") {
  CHECK(!runs_formulas(small_vit("pre_pre")));
  CHECK(!runs_formulas(small_swin("pre_pre")));
  CHECK(runs_formulas(gated(small_swin("pre_pre"), ActivationKind::gelu)));
  ViTConfig c = small_vit("pre_pre");
  c.activation = {ActivationKind::relu};
  CHECK(runs_formulas(c));
  c.activation = formula_of("tanh(x)");
  CHECK(runs_formulas(c));
  c = with_text(small_vit("pre_pre"));
  CHECK(!runs_formulas(c));
  c.text.mlp = MlpForm::gated;
  CHECK(runs_formulas(c));
}

TEST_CASE("activation: a formula and the form of the MLP fit together") {
  const auto problem = [](ModelConfig c) {
    const std::vector<ConfigProblem> found = validate(c);
    return found.empty() ? "" : found.front().key + ": " + found.front().message;
  };
  for (const ModelConfig& model : {ModelConfig(small_vit("pre_pre")), ModelConfig(small_swin("pre_pre"))}) {
    ModelConfig c = model;
    network(c).activation = formula_of("silu(x) * g");
    CHECK(problem(c) == "activation: only mlp gated has a gate g; set \"mlp\": \"gated\" or leave g out");
    network(c).mlp = MlpForm::gated;
    CHECK(problem(c) == "");
    network(c).activation = formula_of("silu(x)");
    CHECK(problem(c) ==
          "activation: mlp gated multiplies by g, which this formula does not read; write \"silu(x) * g\"");
  }
  ViTConfig c = with_text(small_vit("pre_pre"));
  c.text.activation = formula_of("x * g");
  CHECK(problem(c).starts_with("text.activation: only mlp gated"));
}
