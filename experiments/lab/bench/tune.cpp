// Which of cuBLASLt's algorithms computes each product of a training step fastest.
#include <fmt/core.h>

#include <set>

#include "core/backend.h"
#include "core/error.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/bench/shapes.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/tasks.h"

namespace normlab {
namespace {

/// One step, whose products the backend remembers.
void step_of(Backend& backend, const ModelConfig& config, EngineSettings settings) {
  settings.ema = {};
  BenchEngine bench(backend, config, settings, 1);
  bench.engine->set_profiling(true);  // runs each kernel once, without a recording
  bench.step();
}

/// Of all rows; those that differ by seeds alone have the same.
void steps_of(Backend& backend, const Experiment& experiment) {
  std::set<std::string> seen;
  for (const Trial& trial : experiment.trials) {
    TrialConfig config = trial.config;
    config.seed = 0;
    if (!seen.insert(canonical_json(config)).second) continue;
    if (task_of(config.model) != Task::classify)
      throw InputError(fmt::format("{}: --tune takes the products of classifications only", experiment.stem));
    step_of(in_precision(backend, config.train.precision), config.model, engine_settings(config));
  }
}

}  // namespace

Measured tuned_products(const BenchOptions& o) {
  if (!o.on_gpu()) throw InputError("--tune: times algorithms of a GPU's library; add --device cuda");
  const ComputeDevice computer(o.device);
  Backend& backend = computer.backend();
  Json document;
  backend.choose_products("");
  if (o.experiment) {
    document["descriptor"] = o.experiment->stem;
    steps_of(backend, *o.experiment);
  } else {
    const BenchShape& s = bench_shape(o.shape);
    const std::int64_t images = o.batch > 0 ? o.batch : s.batch;
    document.update(Json{{"shape", o.shape}, {"precision", o.precision}, {"batch", images}});
    step_of(o.with_products(backend), bench_model(s, "pre_pre"), o.settings(images));
  }
  double first = 0, best = 0;
  Json rows = Json::array();
  for (const TunedProduct& t : backend.tune_products(o.seconds)) {
    first += double(t.calls) * t.first, best += double(t.calls) * t.best;
    rows.push_back({{"product", t.product},
                    {"calls", t.calls},
                    {"first_us", rounded(1e6 * t.first, 2)},
                    {"best_us", rounded(1e6 * t.best, 2)},
                    {"taken", t.taken},
                    {"of", t.candidates},
                    {"gain_share", rounded(1 - t.best / t.first, 4)}});
  }
  if (rows.empty()) throw EnvironmentError("--tune: cuBLASLt computes none of these products");
  document.update(Json{{"device", device_words(backend)},
                       {"first_ms", rounded(1e3 * first, 4)},
                       {"best_ms", rounded(1e3 * best, 4)},
                       {"gain_share", rounded(1 - best / first, 4)},
                       {"products", std::move(rows)}});
  return {.document = std::move(document), .threads = 1, .algorithms = backend.product_choices() + "\n"};
}

}  // namespace normlab
