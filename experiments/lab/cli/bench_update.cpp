#include <fmt/core.h>

#include "core/backend.h"
#include "core/lane_tree.h"
#include "core/random.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/bench/shapes.h"
#include "experiments/lab/cli/bench.h"
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

struct BenchUpdate : BenchOptions {
  std::int64_t lanes = 1;
  BenchUpdate() {
    shape = "small";
    seconds = 1.0;
  }

  double milliseconds(Backend& backend, const ModelConfig& config, const Case& c) const {
    ParameterSet parameters(backend.memory());
    make_model(parameters, config);
    parameters.allocate(DType::f32, lanes, precision != "fp32");
    backend.synchronize();
    initialise(parameters, config, 0);
    Optimizer optimizer(backend, parameters, c.settings,
                        update_factors(config, parameters.parameters(), c.layer_decay, {}));
    backend.synchronize();
    const StreamKey key = stream_key(1, "bench", "gradients");
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const Tensor gradient = parameters.flat_lane(lane);
      for (std::int64_t i = 0; i < gradient.size(); ++i)
        gradient.data<float>()[i] = static_cast<float>(1e-3 * normal(key, static_cast<std::uint64_t>(i)));
    }
    ShardPool pool(threads);
    StepState state;
    state.lr = 1e-9;
    state.clip_norm = 1.0;
    std::vector<double> times = call_times(seconds, 8, [&] {
      optimizer.begin_step(state);
      const Tensor on_device = backend.upload(Upload::state, Tensor(&state, {sizeof state}, DType::u8));
      optimizer.step(pool, reinterpret_cast<StepState*>(on_device.data<std::uint8_t>()));
      backend.synchronize();
      ++state.step;
    });
    times.erase(times.begin(), times.begin() + 3);  // warm-up: first touches of memory pages
    return 1e3 * median(std::move(times));
  }

  int operator()() const {
    const ComputeDevice computer(device);
    const ModelConfig config = bench_model(bench_shape(shape), placement);
    if (!json())
      print_text("{} {}: {} parameters, {} lanes, {} threads\n{:<34}{:>8}{:>14}\n", shape, placement,
                 model_cost(config).parameters, lanes, threads, "optimiser", "ms", "state bytes");
    const LoadMeter meter;
    Json rows = Json::array();
    for (const Case& c : cases()) {
      const OptimizerSettings& s = c.settings;
      const std::string words = fmt::format("{}{}{}", word_of(s.name), s.bf16_moment ? ", bf16 moment" : "",
                                            c.layer_decay < 1 ? ", layer_decay" : "");
      const double ms = milliseconds(computer.backend(), config, c);
      if (json())
        rows.push_back({{"optimiser", words}, {"ms", rounded(ms, 5)}, {"state_bytes", moment_bytes(s)}});
      else
        print_text("{:<34}{:>8.3f}{:>14}\n", words, ms, moment_bytes(s));
    }
    return end({{"shape", shape},
                {"device", device_words(computer.backend())},
                {"placement", placement},
                {"parameters", model_cost(config).parameters},
                {"lanes", lanes},
                {"threads", threads},
                {"optimisers", std::move(rows)}},
               meter, threads);
  }
};

}  // namespace

void add_bench_update(Command& bench) {
  auto [command, update] = bench.add_command<BenchUpdate>(
      "update", "measure the update alone: the gradient sum over lanes, its norm, clipping and each optimiser's step");
  update.add_network(command);
  update.add_threads(command);
  add_device(command, update.device);
  command.add_number("--lanes", update.lanes, "gradient buffers to sum", 1, int(kMostLanes));
  update.add_seconds(command, "seconds to measure each optimiser");
  update.add_format(command);
  command.examples({"normlab bench update --shape tiny --lanes 8", "normlab bench update --shape small --device cuda"});
}

}  // namespace normlab
