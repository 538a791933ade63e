#include "nn/weight_average.h"

#include <algorithm>
#include <cstring>

namespace normlab {

WeightAverage::WeightAverage(Backend& backend, ParameterSet& parameters, const AverageSettings& settings)
    : backend_(backend),
      parameters_(parameters),
      settings_(settings),
      values_(parameters.make_flat()),
      buffers_(parameters.make_flat_buffers()) {}

void WeightAverage::start() {
  const Tensor values = parameters_.update().values, buffers = parameters_.flat_buffers();
  backend_.synchronize();
  std::memcpy(values_.raw(), values.raw(), values.bytes());
  std::memcpy(buffers_.raw(), buffers.raw(), buffers.bytes());
}

void WeightAverage::step(ShardPool& pool, std::int64_t done, const StepState* state) {
  if (done % settings_.every_steps != 0) return;
  constexpr std::int64_t kBlock = 65536;  // elements; two float arrays of it fit the second-level cache
  const Tensor values = parameters_.update().values;
  const std::int64_t n = values.size();
  pool.for_blocks((n + kBlock - 1) / kBlock, [&](std::int64_t b) {
    const std::int64_t first = b * kBlock, count = std::min(kBlock, n - first);
    backend_.average(settings_.decay, state, values.slice(first, count), values_.slice(first, count));
  });
  backend_.average(settings_.decay, state, parameters_.flat_buffers(), buffers_);
}

}  // namespace normlab
