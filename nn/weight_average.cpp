#include "nn/weight_average.h"

#include <algorithm>
#include <cstring>

#include "core/backend.h"

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
  const Tensor values = parameters_.update().values;
  const std::int64_t n = parameters_.trained_size();  // the others do not change
  // Elements; two float arrays of this size fit the second-level cache.
  const std::int64_t block = backend_.whole_batch() ? std::max<std::int64_t>(1, n) : 65536;
  pool.for_blocks((n + block - 1) / block, [&](std::int64_t b) {
    const std::int64_t first = b * block, count = std::min(block, n - first);
    backend_.average(settings_.decay, state, values.slice(first, count), values_.slice(first, count));
  });
  backend_.average(settings_.decay, state, parameters_.flat_buffers(), buffers_);
}

}  // namespace normlab
