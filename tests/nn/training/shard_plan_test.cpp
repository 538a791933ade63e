#include "nn/training/shard_plan.h"

#include <doctest/doctest.h>

#include "tests/nn/model/small_network.h"

using namespace normlab;

TEST_CASE("engine: the planned shards hold the batch") {
  const ShardPlan p = plan_shards(small_vit("pre_pre"), 128, 20000, 4);
  CHECK(p.images * p.shards >= 128);
}

TEST_CASE("engine: no planned shard is empty") {
  const ShardPlan p = plan_shards(small_vit("pre_pre"), 128, 20000, 4);
  CHECK(p.images * (p.shards - 1) < 128);
}

TEST_CASE("engine: no planned lane is empty") {
  const ShardPlan p = plan_shards(small_vit("pre_pre"), 128, 20000, 4);
  CHECK(p.lanes <= p.shards);
}

TEST_CASE("engine: only batch norm needs shards in lockstep") {
  CHECK(!plan_shards(small_vit("pre_pre"), 128, 20000, 4).lockstep);
  CHECK(plan_shards(small_vit("bn"), 128, 20000, 4).lockstep);
}

TEST_CASE("engine: one image is planned as one shard in one lane") {
  const ShardPlan p = plan_shards(small_vit("pre_pre"), 1, 20000, 4);
  CHECK(p.shards == 1);
  CHECK(p.lanes == 1);
}

TEST_CASE("engine: each large image is a shard of its own") {
  ViTConfig c = small_vit("pre_pre");
  c.image_size = {224, 224};
  CHECK(plan_shards(c, 32, 20000, 4).images == 1);
}

TEST_CASE("engine: a large batch is planned in eight lanes") {
  ViTConfig c = small_vit("pre_pre");
  c.image_size = {224, 224};
  CHECK(plan_shards(c, 32, 22'000'000, 4).lanes == 8);
}

TEST_CASE("engine: threads that divide the lanes need buffers for theirs and for the open sums") {
  const auto buffers = [](std::int64_t lanes, int threads) {
    return gradient_buffers({.shards = 2 * lanes, .lanes = lanes}, 1, threads);
  };
  for (const auto& [threads, wanted] : {std::pair{1, 4}, {2, 4}, {3, 8}, {4, 6}, {5, 8}, {8, 8}, {16, 8}})
    CHECK(buffers(8, threads) == wanted);
  for (const auto& [threads, wanted] : {std::pair{1, 3}, {2, 3}, {3, 4}, {4, 4}}) CHECK(buffers(4, threads) == wanted);
  for (const std::int64_t lanes : {1, 2}) CHECK(buffers(lanes, 1) == lanes);
  CHECK(buffers(7, 1) == 4);
}

TEST_CASE("engine: a lane that waits for a meeting or the next part keeps its buffer") {
  CHECK(gradient_buffers({.shards = 16, .lanes = 8, .lockstep = true}, 1, 2) == 8);
  CHECK(gradient_buffers({.shards = 16, .lanes = 8}, 2, 2) == 8);
}

TEST_CASE("engine: lanes of few shards keep their buffers, since early additions would slow the step") {
  for (const auto& [shards, wanted] : {std::pair{8, 8}, {12, 8}, {14, 4}, {16, 4}, {32, 4}})
    CHECK(gradient_buffers({.shards = shards, .lanes = 8}, 1, 2) == wanted);
}

TEST_CASE("engine: four lanes are planned where eight would take over 1 GB") {
  ViTConfig c = small_vit("pre_pre");
  c.image_size = {224, 224};
  CHECK(plan_shards(c, 32, 100'000'000, 4).lanes == 4);
}
