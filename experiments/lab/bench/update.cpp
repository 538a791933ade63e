#include <fmt/core.h>

#include "core/backend.h"
#include "core/lane_tree.h"
#include "core/random.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/bench/shapes.h"
#include "nn/model/init.h"
#include "nn/model/model.h"

namespace normlab {
namespace {

struct Case {
  OptimizerSettings settings;
  double layer_decay = 1.0;
};

/// Each optimiser, also with a bf16 moment where supported, and one with layer-wise rates.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (std::size_t name = 0; name < kWordCount<OptimizerName>; ++name) {
    OptimizerSettings plain, narrow;
    plain.name = narrow.name = static_cast<OptimizerName>(name);
    narrow.bf16_moment = true;
    all.push_back({plain});
    if (moment_bytes(narrow) != moment_bytes(plain)) all.push_back({narrow});
  }
  all.push_back({OptimizerSettings{}, 0.75});
  return all;
}

double milliseconds(const BenchOptions& o, Backend& backend, const ModelConfig& config, const Case& c) {
  ParameterSet parameters(backend.memory());
  make_model(parameters, config);
  parameters.allocate(DType::f32, o.lanes, o.precision != "fp32");
  backend.synchronize();
  initialise(parameters, config, 0);
  Optimizer optimizer(backend, parameters, c.settings,
                      update_factors(config, parameters.parameters(), c.layer_decay, {}));
  backend.synchronize();
  const StreamKey key = stream_key(1, "bench", "gradients");
  for (std::int64_t lane = 0; lane < o.lanes; ++lane) {
    const Tensor gradient = parameters.flat_lane(lane);
    for (std::int64_t i = 0; i < gradient.size(); ++i)
      gradient.data<float>()[i] = static_cast<float>(1e-3 * normal(key, static_cast<std::uint64_t>(i)));
  }
  ShardPool pool(o.threads);
  StepState state;
  state.lr = 1e-9;
  state.clip_norm = 1.0;
  std::vector<double> times = call_times(o.seconds, 8, [&] {
    optimizer.begin_step(state);
    const Tensor on_device = backend.upload(Upload::state, Tensor(&state, {sizeof state}, DType::u8));
    optimizer.step(pool, reinterpret_cast<StepState*>(on_device.data<std::uint8_t>()));
    backend.synchronize();
    ++state.step;
  });
  times.erase(times.begin(), times.begin() + 3);  // warm-up: first touches of memory pages
  return 1e3 * median(std::move(times));
}

}  // namespace

Measured bench_update(const BenchOptions& o) {
  const ComputeDevice computer(o.device);
  const ModelConfig config = bench_model(bench_shape(o.shape), o.placement);
  Json rows = Json::array();
  for (const Case& c : cases()) {
    const OptimizerSettings& s = c.settings;
    rows.push_back({{"optimiser", fmt::format("{}{}{}", word_of(s.name), s.bf16_moment ? ", bf16 moment" : "",
                                              c.layer_decay < 1 ? ", layer_decay" : "")},
                    {"ms", rounded(milliseconds(o, computer.backend(), config, c), 5)},
                    {"state_bytes", moment_bytes(s)}});
  }
  return {{{"shape", o.shape},
           {"device", device_words(computer.backend())},
           {"placement", o.placement},
           {"parameters", model_cost(config).parameters},
           {"lanes", o.lanes},
           {"threads", o.threads},
           {"optimisers", std::move(rows)}},
          o.threads};
}

}  // namespace normlab
