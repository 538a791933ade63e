// NaN and infinity in a network: what an evaluation and the search for them say.
#include "nn/nonfinite.h"

#include <doctest/doctest.h>

#include <cmath>

#include "nn/engine.h"
#include "nn/init.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/devices.h"
#include "tests/nn/random_head.h"
#include "tests/nn/small_network.h"

using namespace normlab;

namespace {

constexpr std::int64_t kBatch = 6;

struct Network {
  ShardPool pool{2};
  Engine engine;
  Batch data;
  std::vector<double> losses, logits;
  std::vector<std::int32_t> predictions;

  explicit Network(const ModelConfig& c, DType dtype = DType::f32, double average = 0.0)
      : engine(current_device().backend, pool, c, settings(dtype, average)),
        data(c, kBatch, dtype),
        losses(kBatch),
        logits(std::size_t(kBatch * num_classes(c))),
        predictions(kBatch) {
    initialise(engine.parameters(), c, 3);
    random_head(engine);
  }
  static EngineSettings settings(DType dtype, double average) {
    EngineSettings s;
    s.precision = precision_of(dtype, current_device().bf16);
    s.max_batch = kBatch;
    s.images_per_shard = 2;
    s.ema.decay = average;
    return s;
  }
  std::optional<NonFiniteAnswer> evaluate(bool labelled = true) {
    return engine.evaluate(data.images, labelled ? data.labels : Tensor(), losses, predictions, logits);
  }
  void set(const Tensor& t, std::int64_t index, double value) const {
    if (t.dtype() == DType::f64)
      t.data<double>()[index] = value;
    else if (t.dtype() == DType::bf16)
      t.data<bf16>()[index] = bf16(value);
    else
      t.data<float>()[index] = static_cast<float>(value);
  }
  Tensor parameter(const std::string& name) { return engine.parameters().value(engine.parameters().find(name)); }
};

constexpr double kNan = NAN, kInf = INFINITY;

}  // namespace

TEST_CASE("nonfinite: an evaluation names the first image whose logits are not finite, and predicts nothing for any") {
  on_each_device([] {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      CAPTURE(to_string(dtype));
      Network network(small_vit("pre_pre"), dtype);
      CHECK(!network.evaluate());
      const std::vector<std::int32_t> before = network.predictions;
      const std::int64_t pixels = network.data.images.size() / kBatch;
      network.set(network.data.images, 4 * pixels + 1, kNan);
      network.set(network.data.images, 2 * pixels + 7, kInf);
      const auto found = network.evaluate();
      REQUIRE(found);
      CHECK(found->image == 2);
      CHECK(found->logit == 0);
      CHECK(found->text().starts_with("the logit of class 0 is "));
      for (std::size_t i = 0; i < kBatch; ++i) CHECK(network.predictions[i] == (i == 2 || i == 4 ? -1 : before[i]));
    }
  });
}

TEST_CASE("nonfinite: a loss that overflows though its logits are finite is named, unless no loss was asked for") {
  on_each_device([] {
    Network network(small_vit("pre_pre"));
    network.set(network.parameter("head.bias"), 2, 3e38);
    network.set(network.parameter("head.bias"), 3, -3e38);
    const auto found = network.evaluate();
    REQUIRE(found);
    CHECK(found->image == 0);  // its label is not 3: the loss has 0 times infinity
    CHECK(found->logit == -1);
    CHECK(found->text() == "the loss is nan");
    CHECK(network.predictions[0] == -1);
    CHECK(!network.evaluate(false));
    CHECK(network.predictions == std::vector<std::int32_t>(kBatch, 2));
  });
}

TEST_CASE("nonfinite: a logit of one class that is -inf is named") {
  Network network(small_vit("pre_pre"));
  network.set(network.parameter("head.bias"), 6, -kInf);
  const auto found = network.evaluate();
  REQUIRE(found);
  CHECK(found->image == 0);
  CHECK(found->text() == "the logit of class 6 is -inf");
}

TEST_CASE("nonfinite: a network may answer in finite numbers though a weight is infinite; the state says so") {
  on_each_device([] {
    Network network(small_vit("dyt"), DType::f32, 0.9);
    Engine& engine = network.engine;
    engine.state().lr = 1e-3;
    REQUIRE(std::isfinite(engine.train_step(network.data.images, network.data.labels)));
    CHECK(engine.state_is_finite());
    CHECK(!first_nonfinite(engine.parameters()));
    network.set(network.parameter("blocks.0.attn.pre.alpha"), 0, kInf);  // tanh of infinity is 1
    CHECK(!network.evaluate());
    CHECK(!engine.state_is_finite());
    const auto found = first_nonfinite(engine.parameters());
    REQUIRE(found);
    CHECK(found->text() == "blocks.0.attn.pre.alpha[0] is inf");
    network.set(network.parameter("blocks.0.attn.pre.alpha"), 0, 0.5);
    CHECK(engine.state_is_finite());
    for (const Optimizer::Moment& moment : engine.optimizer().moments()) {
      network.set(moment.flat, 5, -kInf);
      CHECK(!engine.state_is_finite());
      network.set(moment.flat, 5, 0.0);
    }
    network.set(engine.average()->values(), 5, kNan);
    CHECK(!engine.state_is_finite());
  });
}

TEST_CASE("nonfinite: running statistics count, also those of the average") {
  Network network(small_vit("bn"), DType::f32, 0.9);
  Engine& engine = network.engine;
  REQUIRE(engine.state_is_finite());
  const int var = engine.parameters().find_buffer("blocks.1.mlp.pre.running_var");
  REQUIRE(var >= 0);
  network.set(engine.parameters().buffer(var), 3, kInf);  // what is divided by it is 0
  CHECK(!network.evaluate());
  CHECK(!engine.state_is_finite());
  CHECK(first_nonfinite(engine.parameters())->text() == "blocks.1.mlp.pre.running_var[3] is inf");
  network.set(engine.parameters().buffer(var), 3, 1.0);
  CHECK(engine.state_is_finite());
  network.set(engine.parameters().view_flat_buffer(engine.average()->buffers(), var), 3, kInf);
  CHECK(!engine.state_is_finite());
}

TEST_CASE("nonfinite: the search names the layer whose parameter it is, a gain by its own name") {
  ViTConfig distilled = small_vit("dpn");
  distilled.pool = Pool::token;
  distilled.distill_token = true;
  for (const ViTConfig& c :
       {small_vit("pre_pre"), small_vit("normformer_full"), small_vit("normformer_head_scale_after_proj"),
        small_vit("layer_scale"), small_vit("post_post"), small_vit("bn_extra"), small_vit("dyt"), distilled}) {
    Network network(c);
    for (const ParameterInfo& info : network.engine.parameters().parameters()) {
      CAPTURE(info.name);
      const Tensor value = network.parameter(info.name);
      const auto kept = value.data<float>()[0];
      value.data<float>()[0] = NAN;
      CHECK(std::isnan(network.engine.train_step(network.data.images, network.data.labels)));
      const NonFinite found = network.engine.find_nonfinite(network.data.images, network.data.labels);
      REQUIRE(bool(found));
      const std::string site = found.site;
      const bool of_qkv = site.ends_with(".qkv") && info.name.starts_with(site.substr(0, site.size() - 3));
      const bool of_tokens = site == "pos_embed" && info.name.ends_with("_token");
      CHECK_MESSAGE((info.name.starts_with(site) || of_qkv || of_tokens), site);
      if (info.name.ends_with("_scale")) CHECK(site == info.name);
      value.data<float>()[0] = kept;
      network.engine.train_step(network.data.images, network.data.labels);  // the search has written in its place
    }
  }
}

TEST_CASE("nonfinite: what throws in an evaluation or a look at a branch leaves a network that trains") {
  Network network(small_vit("pre_pre"));
  Engine& engine = network.engine;
  ViTConfig wider = small_vit("pre_pre");
  wider.image_size = {24, 24};
  const Batch wrong(wider, kBatch);
  std::vector<double> losses(kBatch);
  std::vector<std::int32_t> predictions(kBatch);
  CHECK_THROWS_AS((void)engine.evaluate(wrong.images, wrong.labels, losses, predictions), InputError);
  engine.state().lr = 1e-3;
  CHECK(std::isfinite(engine.train_step(network.data.images, network.data.labels)));

  Arena arena;
  Tape tape(cpu_backend(), arena);
  Context ctx{tape, engine.parameters()};
  ctx.observe_branch = [](const std::string& name, const Var&) { throw InputError(name); };
  CHECK_THROWS_AS(ctx.show_branch("blocks.0.attn", [] { return Var(); }), InputError);
  CHECK(tape.recording());
}
