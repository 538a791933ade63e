// Dropout rates by place.
#include <doctest/doctest.h>

#include <set>

#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/devices.h"
#include "tests/nn/model/random_head.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {

/// The loss of a first step in double. `blind`: the last matrix of every MLP is zero, its bias is not.
template <class Config>
double loss_of(Config c, const DropoutRates& rates, bool blind = false) {
  c.dropout = rates;
  constexpr std::int64_t kImages = 6;
  ShardPool pool(1);
  EngineSettings settings;
  settings.precision = Precision::fp64;
  settings.max_batch = kImages;
  Engine engine(current_device().backend, pool, c, settings);
  initialise(engine.parameters(), c, 3);
  random_head(engine);
  int number = 0;
  for (const ParameterInfo& info : engine.parameters().parameters()) {
    const Tensor values = engine.parameters().value(number++);
    if (blind && info.name.ends_with("fc2.weight")) std::fill_n(values.data<double>(), values.size(), 0.0);
    if (blind && info.name.ends_with("fc2.bias")) std::fill_n(values.data<double>(), values.size(), 0.3);
  }
  const Batch data(c, kImages, DType::f64);
  return engine.forward_backward(data.images, data.labels);
}

template <class Config>
void check_places(const Config& c) {
  double DropoutRates::*const places[] = {&DropoutRates::stem, &DropoutRates::attn, &DropoutRates::hidden,
                                          &DropoutRates::mlp};
  std::set<double> losses{loss_of(c, 0.0), loss_of(c, 0.4)};
  DropoutRates all;
  for (const auto place : places) {
    DropoutRates one;
    one.*place = all.*place = 0.4;
    losses.insert(loss_of(c, one));
  }
  CHECK(losses.size() == 6);  // each place changes the loss in its own way
  CHECK(loss_of(c, all) == loss_of(c, 0.4));
  // What comes before a matrix of zeros has no effect, but what drops its bias has.
  DropoutRates hidden, mlp;
  hidden.hidden = mlp.mlp = 0.4;
  CHECK(loss_of(c, hidden, true) == loss_of(c, 0.0, true));
  CHECK(loss_of(c, mlp, true) != loss_of(c, 0.0, true));
}

}  // namespace

TEST_CASE("dropout: each place has its own rate") {
  on_each_device([] {
    check_places(small_vit("pre_pre"));
    check_places(small_vit("normformer"));
    check_places(small_swin("pre_pre"));
  });
}
