// An engine with initial values, its threads and a batch of as many images as it takes.
#pragma once

#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/devices.h"
#include "tests/nn/model/random_head.h"
#include "tests/nn/model/small_network.h"

namespace normlab {

struct SmallTraining {
  ShardPool pool;
  Engine engine;
  Batch data;
  SmallTraining(const ModelConfig& c, const EngineSettings& settings, int threads,
                Backend& backend = current_device().backend, Group& group = group_of_one(), std::uint64_t seed = 3)
      : pool(threads, group), engine(backend, pool, c, settings), data(c, settings.max_batch, engine.dtype()) {
    initialise(engine.parameters(), c, seed);
  }
};

}  // namespace normlab
