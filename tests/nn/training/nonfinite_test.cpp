// NaN and infinity in a network: what an evaluation and the search for them say.
#include "nn/training/nonfinite.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/devices.h"
#include "tests/nn/model/random_head.h"
#include "tests/nn/model/small_network.h"

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
  /// Logits whose exponentials are beyond float.
  void let_loss_overflow() {
    set(parameter("head.bias"), 2, 3e38);
    set(parameter("head.bias"), 3, -3e38);
  }
  int running_variance() {
    const int number = engine.parameters().find_buffer("blocks.1.mlp.pre.running_var");
    REQUIRE(number >= 0);
    return number;
  }
  Tensor parameter(const std::string& name) { return engine.parameters().value(engine.parameters().find(name)); }
};

/// A network with an average of its weights, after one step.
struct Stepped : Network {
  explicit Stepped(const ModelConfig& c) : Network(c, DType::f32, 0.9) {
    engine.state().lr = 1e-3;
    REQUIRE(std::isfinite(engine.train_step(data.images, data.labels)));
  }
};

constexpr double kNan = NAN, kInf = INFINITY;

/// Calls `check` on each device with networks whose images 2 and 4 are not finite, and what was predicted before.
void with_broken_images(const std::function<void(Network&, const std::vector<std::int32_t>&)>& check) {
  on_each_device([&] {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      CAPTURE(to_string(dtype));
      Network network(small_vit("pre_pre"), dtype);
      CHECK(!network.evaluate());
      const std::vector<std::int32_t> before = network.predictions;
      const std::int64_t pixels = network.data.images.size() / kBatch;
      network.set(network.data.images, 4 * pixels + 1, kNan);
      network.set(network.data.images, 2 * pixels + 7, kInf);
      check(network, before);
    }
  });
}

}  // namespace

TEST_CASE("nonfinite: an evaluation names the first image whose logits are not finite") {
  with_broken_images([](Network& network, const std::vector<std::int32_t>&) {
    const auto found = network.evaluate();
    REQUIRE(found);
    CHECK(found->image == 2);
    CHECK(found->logit == 0);
    CHECK(found->text().starts_with("the logit of class 0 is "));
  });
}

TEST_CASE("nonfinite: an evaluation predicts nothing for images whose logits are not finite") {
  with_broken_images([](Network& network, const std::vector<std::int32_t>& before) {
    REQUIRE(network.evaluate());
    for (std::size_t i = 0; i < kBatch; ++i) CHECK(network.predictions[i] == (i == 2 || i == 4 ? -1 : before[i]));
  });
}

TEST_CASE("nonfinite: a loss that overflows is named though its logits are finite") {
  on_each_device([] {
    Network network(small_vit("pre_pre"));
    network.let_loss_overflow();
    const auto found = network.evaluate();
    REQUIRE(found);
    CHECK(found->image == 0);  // its label is not 3: the loss has 0 times infinity
    CHECK(found->logit == -1);
    CHECK(found->text() == "the loss is nan");
    CHECK(network.predictions[0] == -1);
  });
}

TEST_CASE("nonfinite: without labels no loss overflows") {
  on_each_device([] {
    Network network(small_vit("pre_pre"));
    network.let_loss_overflow();
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

TEST_CASE("nonfinite: a network with an infinite weight can answer in finite numbers") {
  on_each_device([] {
    Stepped network(small_vit("dyt"));
    network.set(network.parameter("blocks.0.attn.pre.alpha"), 0, kInf);  // tanh of infinity is 1
    CHECK(!network.evaluate());
  });
}

TEST_CASE("nonfinite: after a step everything is finite") {
  on_each_device([] {
    Stepped network(small_vit("dyt"));
    CHECK(network.engine.state_is_finite());
    CHECK(!first_nonfinite(network.engine.parameters()));
  });
}

TEST_CASE("nonfinite: an infinite weight is found in the state") {
  on_each_device([] {
    Stepped network(small_vit("dyt"));
    network.set(network.parameter("blocks.0.attn.pre.alpha"), 0, kInf);
    CHECK(!network.engine.state_is_finite());
    const auto found = first_nonfinite(network.engine.parameters());
    REQUIRE(found);
    CHECK(found->text() == "blocks.0.attn.pre.alpha[0] is inf");
    network.set(network.parameter("blocks.0.attn.pre.alpha"), 0, 0.5);
    CHECK(network.engine.state_is_finite());
  });
}

TEST_CASE("nonfinite: an infinite moment is found in the state") {
  on_each_device([] {
    Stepped network(small_vit("dyt"));
    for (const Optimizer::Moment& moment : network.engine.optimizer().moments()) {
      network.set(moment.flat, 5, -kInf);
      CHECK(!network.engine.state_is_finite());
      network.set(moment.flat, 5, 0.0);
    }
    CHECK(network.engine.state_is_finite());
  });
}

TEST_CASE("nonfinite: NaN in the average is found in the state") {
  on_each_device([] {
    Stepped network(small_vit("dyt"));
    network.set(network.engine.average()->values(), 5, kNan);
    CHECK(!network.engine.state_is_finite());
  });
}

TEST_CASE("nonfinite: an infinite running statistic is found in the state") {
  Network network(small_vit("bn"), DType::f32, 0.9);
  Engine& engine = network.engine;
  REQUIRE(engine.state_is_finite());
  const int var = network.running_variance();
  network.set(engine.parameters().buffer(var), 3, kInf);  // what is divided by it is 0
  CHECK(!network.evaluate());
  CHECK(!engine.state_is_finite());
  CHECK(first_nonfinite(engine.parameters())->text() == "blocks.1.mlp.pre.running_var[3] is inf");
  network.set(engine.parameters().buffer(var), 3, 1.0);
  CHECK(engine.state_is_finite());
}

TEST_CASE("nonfinite: an infinite averaged running statistic is found in the state") {
  Network network(small_vit("bn"), DType::f32, 0.9);
  Engine& engine = network.engine;
  REQUIRE(engine.state_is_finite());
  network.set(engine.parameters().view_flat_buffer(engine.average()->buffers(), network.running_variance()), 3, kInf);
  CHECK(!engine.state_is_finite());
}

TEST_CASE("nonfinite: the search names the layer whose parameter is not finite") {
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

TEST_CASE("nonfinite: after an evaluation that throws the network trains") {
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
}

TEST_CASE("nonfinite: after an observer of a branch throws the tape records") {
  Network network(small_vit("pre_pre"));
  Arena arena;
  Tape tape(cpu_backend(), arena);
  Observers observers;
  observers.branch = [](const Shard&, const std::string& name, const Var&) { throw InputError(name); };
  const Step step{.parameters = network.engine.parameters(), .observers = &observers};
  const Shard shard{.step = step, .tape = tape};
  CHECK_THROWS_WITH_AS(shard.show(&Observers::branch, "blocks.0.attn", [] { return Var(); }), "blocks.0.attn",
                       InputError);
  CHECK(tape.recording());
}
