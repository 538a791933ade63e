// What a network leaves out because its result does not depend on it: gradients and answers are those of the full form.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "nn/engine.h"
#include "nn/init.h"
#include "tests/devices.h"
#include "tests/nn/random_head.h"
#include "tests/nn/small_network.h"

using namespace normlab;

namespace {

constexpr std::int64_t kBatch = 6;

struct Computed {
  double loss;
  std::vector<double> gradient, losses, logits;
};

Computed compute(const ViTConfig& c, bool short_forms) {
  ShardPool pool(1);
  EngineSettings settings;
  settings.precision = Precision::fp64;
  settings.max_batch = kBatch;
  settings.images_per_shard = 4;
  settings.short_forms = short_forms;
  Engine engine(current_device().backend, pool, c, settings);
  initialise(engine.parameters(), c, 3);
  random_head(engine);
  const Batch data(c, kBatch, DType::f64);
  Computed out{engine.forward_backward(data.images, data.labels), {}, std::vector<double>(kBatch), {}};
  engine.sum_gradients();
  const Tensor gradient = engine.parameters().flat_lane(0);
  out.gradient.assign(gradient.data<double>(), gradient.data<double>() + gradient.size());
  std::vector<std::int32_t> predicted(kBatch);
  out.logits.resize(std::size_t(kBatch * c.num_classes));
  CHECK(!engine.evaluate(data.images, data.labels, out.losses, predicted, out.logits));
  return out;
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

}  // namespace

TEST_CASE("short forms: the class token alone in the last block gives the loss, the gradients and the logits of all") {
  on_each_device([] {
    for (const NamedPlacement& row : named_placements()) {
      CAPTURE(row.name);
      const ViTConfig c = with_class_token(row.name);
      const Computed alone = compute(c, true), all = compute(c, false);
      CHECK(alone.loss == doctest::Approx(all.loss).epsilon(1e-13));
      CHECK(furthest(alone.gradient, all.gradient) < 1e-12);
      CHECK(furthest(alone.losses, all.losses) < 1e-12);
      CHECK(furthest(alone.logits, all.logits) < 1e-12);
      // It is another computation, unless norms look beyond a token.
      CHECK((alone.gradient == all.gradient) == !norms_see_one_token(c.placement));
    }
  });
}

TEST_CASE("short forms: drop-path drops the same images, and one block is enough") {
  ViTConfig c = with_class_token("layer_scale");
  c.drop_path = 0.5;
  CHECK(furthest(compute(c, true).gradient, compute(c, false).gradient) < 1e-12);
  c.depth = 1;
  CHECK(furthest(compute(c, true).gradient, compute(c, false).gradient) < 1e-12);
}

TEST_CASE("short forms: none where other tokens are asked for, or dropout draws for them") {
  for (const auto& change : std::vector<void (*)(ViTConfig&)>{
           [](ViTConfig& c) { c.pool = Pool::gap; }, [](ViTConfig& c) { c.distill_token = true; },
           [](ViTConfig& c) { c.dropout = 0.1; }, [](ViTConfig& c) { c.attention_dropout = 0.1; }}) {
    ViTConfig c = with_class_token("pre_pre");
    change(c);
    CHECK(compute(c, true).gradient == compute(c, false).gradient);
  }
}
