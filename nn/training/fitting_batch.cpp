#include "nn/training/fitting_batch.h"

#include <algorithm>
#include <cstring>

#include "core/backend.h"
#include "core/memory_error.h"
#include "nn/model/freeze.h"
#include "nn/training/task.h"

namespace normlab {
namespace {

bool fits(std::int64_t images, const std::function<void(std::int64_t)>& attempt) {
  try {
    attempt(images);
    return true;
  } catch (const DeviceMemoryError&) {
    return false;
  }
}

}  // namespace

std::int64_t most_that_fit(std::int64_t images, const std::function<void(std::int64_t)>& attempt) {
  std::int64_t most = 0, too_many = images;
  while (too_many - most > std::max<std::int64_t>(1, most / 16)) {
    const std::int64_t middle = most + (too_many - most) / 2;
    (fits(middle, attempt) ? most : too_many) = middle;
  }
  return most;
}

std::int64_t fitting_part(Backend& backend, ShardPool& pool, const ModelConfig& config, EngineSettings settings,
                          std::int64_t evaluated) {
  const std::int64_t part = std::max<std::int64_t>(1, settings.max_batch / settings.accumulate);
  settings.accumulate = 1;
  const auto step = [&](std::int64_t wanted) {
    const std::int64_t images =
        has_text(config) ? std::max<std::int64_t>(2, wanted) : wanted;  // a pair has no contrast
    settings.max_batch = images;
    Engine engine(backend, pool, config, settings);
    Arena memory(backend.memory());
    const auto zeros = [&](const Shape& shape, DType dtype) {
      const Tensor t = memory.empty(shape, dtype);
      backend.synchronize();
      std::memset(t.raw(), 0, t.bytes());
      return t;
    };
    const auto blank = [&](std::int64_t count) {
      const auto [height, width] = image_size(config);
      return zeros({count, height, width, channels(config)}, dtype_of(settings.precision));
    };
    const Tensor labels = zeros(row_of(task_of(config)).targets(config, images), DType::i32);
    engine.forward_backward(blank(images), labels);
    backend.synchronize();
    std::vector<double> outputs;
    if (evaluated > 0) engine.outputs(blank(evaluated), outputs);
  };
  return fits(part, step) ? part : most_that_fit(part, step);
}

std::size_t standing_bytes(const Backend& backend, const ModelConfig& config, const EngineSettings& settings,
                           std::int64_t gradients) {
  const DType dtype = dtype_of(settings.precision);
  const std::size_t value = size_of(acc_of(dtype));
  const std::size_t each = value + (settings.ema.decay > 0 ? value : 0) +
                           (dtype == DType::bf16 ? size_of(DType::bf16) : 0) +
                           (backend.panel_rows(dtype) > 0 ? value : 0);
  const std::size_t each_trained =
      value * static_cast<std::size_t>(gradients) + static_cast<std::size_t>(moment_bytes(settings.optimizer));
  return each * static_cast<std::size_t>(model_cost(config).parameters) +
         each_trained * static_cast<std::size_t>(trained_values(config, settings.freeze));
}

}  // namespace normlab
