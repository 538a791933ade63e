#include "nn/training/fitting_batch.h"

#include <doctest/doctest.h>

#include "core/memory_error.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/devices.h"

namespace normlab {
namespace {

/// Memory for so many images.
std::function<void(std::int64_t)> memory_for(std::int64_t most) {
  return [most](std::int64_t images) {
    REQUIRE(images > 0);
    if (images > most) throw DeviceMemoryError(2, 1, 3);
  };
}

/// Until it goes out of scope the emulated GPU has so much more than what is taken now.
struct MemoryLimit {
  explicit MemoryLimit(std::size_t bytes) { emulation::set_memory_limit(bytes); }
  ~MemoryLimit() { emulation::set_memory_limit(0); }
};

/// Calls `check` with the most images that fit and with what was found, for batches that do not fit.
void for_each_search(const std::function<void(std::int64_t, std::int64_t)>& check) {
  for (const std::int64_t batch : {2, 3, 17, 256, 1000, 65536})
    for (const std::int64_t most : {0, 1, 2, 7, 100, 255, 999, 40000}) {
      if (most >= batch) continue;
      const std::int64_t found = most_that_fit(batch, memory_for(most));
      INFO(batch << " images, memory for " << most << ", found " << found);
      check(most, found);
    }
}

ViTConfig tiny() {
  ViTConfig config;
  config.embed_dim = 16;
  config.depth = 1;
  config.num_heads = 2;
  config.mlp_dim = 32;
  return config;
}
EngineSettings half_batches() {
  EngineSettings settings;
  settings.max_batch = 8;
  settings.accumulate = 2;
  return settings;
}
std::size_t parameters_of(const ViTConfig& config) {
  return static_cast<std::size_t>(model_cost(ModelConfig(config)).parameters);
}

}  // namespace

TEST_CASE("fitting batch: the batch that is found fits") {
  for_each_search([](std::int64_t most, std::int64_t found) { CHECK(found <= most); });
}

TEST_CASE("fitting batch: the batch that is found is the largest to a sixteenth") {
  for_each_search([](std::int64_t most, std::int64_t found) { CHECK(most - found <= found / 16); });
}

TEST_CASE("fitting batch: nothing is found where one image does not fit") {
  CHECK(most_that_fit(1, memory_for(0)) == 0);
}

TEST_CASE("fitting batch: other errors than a lack of memory end the search") {
  CHECK_THROWS_WITH_AS(most_that_fit(8, [](std::int64_t) { throw InputError("something else"); }), "something else",
                       InputError);
}

TEST_CASE("fitting batch: a part that fits stays whole") {
  ShardPool pool(1);
  CHECK(fitting_part(cpu_backend(), pool, tiny(), half_batches()) == 4);
}

TEST_CASE("fitting batch: evaluations of networks of each task are tried") {
  ShardPool pool(1);
  ViTConfig pairs = tiny(), segments = tiny();
  pairs.task = Task::contrast;
  pairs.text = {.vocabulary = 11, .length = 5, .embed_dim = 16, .depth = 1, .num_heads = 2, .mlp_dim = 32};
  segments.task = Task::segment;
  for (const ViTConfig& config : {tiny(), pairs, segments})
    CHECK(fitting_part(cpu_backend(), pool, config, half_batches(), 9) == 4);
}

TEST_CASE("fitting batch: a parameter takes 20 standing bytes for value, packed value, gradient and moments") {
  CHECK(standing_bytes(cpu_backend(), tiny(), half_batches(), 1) == 20 * parameters_of(tiny()));
}

TEST_CASE("fitting batch: each further gradient buffer takes 4 standing bytes a parameter") {
  CHECK(standing_bytes(cpu_backend(), tiny(), half_batches(), 4) == (20 + 3 * 4) * parameters_of(tiny()));
}

TEST_CASE("fitting batch: an average and a copy in bf16 take 6 more standing bytes a parameter") {
  EngineSettings settings = half_batches();
  settings.ema.decay = 0.5;
  settings.precision = Precision::bf16;
  CHECK(standing_bytes(cpu_backend(), tiny(), settings, 1) == 22 * parameters_of(tiny()));
}

TEST_CASE("fitting batch: on a GPU with little memory a smaller one is found") {
  ViTConfig config = tiny();
  config.patch_size = 8;
  EngineSettings settings;
  settings.max_batch = 1024;  // 12 MB of patches
  for (const TestDevice& device : devices_under_test()) {
    if (device.name != "cuda (emulated)") continue;
    ShardPool pool(1);
    const MemoryLimit limit(std::size_t{40} << 20);
    const std::int64_t fitting = fitting_part(device.backend, pool, config, settings);
    CHECK(fitting > 8);
    CHECK(fitting < 512);
  }
}

TEST_CASE("fitting batch: a step that fits leaves too little memory for an evaluation of many images") {
  ViTConfig config = tiny();
  config.patch_size = 8;
  for (const TestDevice& device : devices_under_test()) {
    if (device.name != "cuda (emulated)") continue;
    ShardPool pool(1);
    const MemoryLimit limit(std::size_t{40} << 20);
    CHECK(fitting_part(device.backend, pool, config, half_batches()) == 4);
    CHECK(fitting_part(device.backend, pool, config, half_batches(), 8) == 4);
    CHECK(fitting_part(device.backend, pool, config, half_batches(), 4096) == 0);
  }
}

}  // namespace normlab
