#include "nn/training/weight_average.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/backend.h"
#include "core/for_type.h"

namespace normlab {

WeightAverage::WeightAverage(Backend& backend, ParameterSet& parameters, const AverageSettings& settings,
                             std::vector<RunningStatistic> running)
    : backend_(backend),
      parameters_(parameters),
      settings_(settings),
      running_(std::move(running)),
      values_(parameters.make_flat()),
      buffers_(parameters.make_flat_buffers()),
      unbiased_(running_.empty() ? Tensor() : parameters.make_flat_buffers()) {}

void WeightAverage::start() {
  const Tensor values = parameters_.update().values, buffers = parameters_.flat_buffers();
  backend_.synchronize();
  std::memcpy(values_.raw(), values.raw(), values.bytes());
  std::memcpy(buffers_.raw(), buffers.raw(), buffers.bytes());
}

void WeightAverage::step(ShardPool& pool, std::int64_t done, const StepState* state) {
  if (done % settings_.every_steps != 0) return;
  const Tensor values = parameters_.update().values;
  const std::int64_t n = parameters_.trained_size();  // the others do not change
  // Elements; two float arrays of this size fit the second-level cache.
  const std::int64_t block = backend_.whole_batch() ? std::max<std::int64_t>(1, n) : 65536;
  pool.for_blocks((n + block - 1) / block, [&](std::int64_t b) {
    const std::int64_t first = b * block, count = std::min(block, n - first);
    backend_.average(settings_.decay, state, values.slice(first, count), values_.slice(first, count));
  });
  const bool begins = !running_.empty() && done == settings_.every_steps;
  backend_.average(begins ? 0.0 : settings_.decay, state, statistics(done), buffers_);
}

Tensor WeightAverage::statistics(std::int64_t done) {
  const Tensor biased = parameters_.flat_buffers();
  constexpr double kVanished = 1e-9;  // below the rounding of a float
  const auto share = [&](const RunningStatistic& r) { return std::pow(r.decay, double(done * r.updates)); };
  if (std::none_of(running_.begin(), running_.end(), [&](const auto& r) { return share(r) > kVanished; }))
    return biased;
  backend_.synchronize();
  std::memcpy(unbiased_.raw(), biased.raw(), biased.bytes());
  for (const RunningStatistic& r : running_) {
    const double initial = share(r) * r.initial, rest = 1 - share(r);
    const Tensor statistic = parameters_.view_flat_buffer(unbiased_, r.buffer);
    for_param_type("average", statistic.dtype(), [&]<class P>(Type<P>) {
      P* const x = statistic.data<P>();
      // Rounding makes no variance negative.
      for (std::int64_t i = 0; i < statistic.size(); ++i)
        x[i] = P(std::max((double(x[i]) - initial) / rest, r.initial > 0 ? 0.0 : -HUGE_VAL));
    });
  }
  return unbiased_;
}

}  // namespace normlab
