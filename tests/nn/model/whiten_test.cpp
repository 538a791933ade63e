// The norm `whiten`, whose parameters no step changes.
#include <doctest/doctest.h>

#include <map>

#include "core/for_type.h"
#include "nn/model/init.h"
#include "nn/model/model.h"
#include "nn/training/engine.h"
#include "tests/devices.h"
#include "tests/nn/model/random_head.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {

ViTConfig whitened() {
  ViTConfig c = small_vit("pre_pre");
  c.placement.stem.patch_in = norm_of(NormKind::whiten);
  return c;
}

/// The gradients of one step, by parameter, and the values after it.
struct TrainedStep {
  std::map<std::string, std::vector<double>> gradients, values;
  double loss = 0;
};

std::vector<double> numbers(const Tensor& t) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < t.size(); ++i) out.push_back(number_at(t, i));
  return out;
}

/// Of a network whose whitening, if it has one, is the identity.
TrainedStep step_of(const ViTConfig& c, Precision precision) {
  constexpr std::int64_t kImages = 6;
  ShardPool pool(1);
  EngineSettings settings;
  settings.precision = precision;
  settings.max_batch = kImages;
  Engine engine(current_device().backend, pool, c, settings);
  initialise(engine.parameters(), c, 3);
  ParameterSet& set = engine.parameters();
  if (const int weight = set.find("stem.patch_in.weight"); weight >= 0) {
    const Tensor w = set.value(weight);
    for_type("identity", w.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      for (std::int64_t i = 0; i < w.shape()[0]; ++i)
        for (std::int64_t k = 0; k < w.shape()[0]; ++k) w.data<T>()[i * w.shape()[0] + k] = T(float(i == k));
    });
  }
  random_head(engine);
  const Batch data(c, kImages, engine.dtype());
  TrainedStep out;
  out.loss = engine.forward_backward(data.images, data.labels);
  engine.sum_gradients();
  for (std::size_t p = 0; p < set.parameters().size(); ++p) {
    const std::string& name = set.parameters()[p].name;
    if (!name.starts_with("stem.patch_in")) out.gradients[name] = numbers(set.gradient(0, int(p)));
    out.values[name] = numbers(set.read(int(p)));
  }
  return out;
}

}  // namespace

TEST_CASE("whiten: by the identity it is no norm, with equal gradients") {
  on_each_device([] {
    const Precision narrow = current_device().name == "cpu" ? Precision::bf16_emulated : Precision::bf16;
    for (const Precision precision : {Precision::fp64, Precision::fp32, narrow}) {
      CAPTURE(int(precision));
      const TrainedStep with = step_of(whitened(), precision), without = step_of(small_vit("pre_pre"), precision);
      CHECK(with.loss == without.loss);
      CHECK(with.gradients == without.gradients);
    }
  });
}

TEST_CASE("whiten: the cost of a model counts its matrix") {
  const ViTConfig c = whitened();
  const std::int64_t p = c.patch_pixels();
  const ModelCost with = model_cost(c), without = model_cost(small_vit("pre_pre"));
  CHECK(with.macs - without.macs == p * p * c.patches());
  CHECK(with.parameters - without.parameters == p * p + p);
}
