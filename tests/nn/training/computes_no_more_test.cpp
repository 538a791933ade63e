// What a network does not compute and does not keep.
#include <doctest/doctest.h>

#include <algorithm>

#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

TEST_CASE("engine: no gradient is computed for the image") {
  for (const char* placement : {"pre_pre", "bn_ffnbn"}) {
    const ViTConfig c = small_vit(placement);
    ShardPool pool(2);
    Engine engine(cpu_backend(), pool, c, {});
    initialise(engine.parameters(), c, 1);
    const Batch data(c, 4);
    engine.set_profiling(true);
    engine.forward_backward(data.images, data.labels);
    int forward = 0, backward = 0;
    const Profile profile = engine.profile();
    for (const OpTime& row : profile.times())
      if (row.op == "patchify") ++(row.backward ? backward : forward);
    CHECK(forward == 1);
    CHECK(backward == 0);
  }
}

TEST_CASE("engine: evaluation of six times as many blocks takes under 2.5 times the memory") {
  const auto bytes = [](std::int64_t depth) {
    ViTConfig c = small_vit("pre_pre");
    c.image_size = {64, 64};
    c.embed_dim = 96;
    c.depth = depth;
    ShardPool pool(1);
    EngineSettings settings;
    settings.max_batch = 16;
    settings.images_per_shard = 16;
    Engine engine(cpu_backend(), pool, c, settings);
    initialise(engine.parameters(), c, 1);
    const Batch data(c, 16);
    std::vector<double> losses(16);
    std::vector<std::int32_t> predicted(16);
    CHECK(!engine.evaluate(data.images, data.labels, losses, predicted));
    return engine.arena_bytes();
  };
  CHECK(2 * bytes(12) < 5 * bytes(2));
}
