// The total of a step's lanes in few buffers has the bits that it has with a buffer for each lane.
#include "nn/training/lane_sums.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "nn/training/optimizer.h"
#include "tests/devices.h"
#include "tests/nn/training/small_training.h"

using namespace normlab;

namespace {

constexpr std::int64_t kValues = 20000;  // more than a chunk

/// Steps whose shards add numbers that depend on the shard to all parameters but one.
class Summed {
 public:
  Summed(std::int64_t lanes, std::int64_t buffers, int threads) : lanes_(lanes), pool_(threads) {
    set_.add("all", {kValues});
    set_.add("unused", {3});
    set_.allocate(DType::f32, buffers);
    optimizer_ = std::make_unique<Optimizer>(cpu_backend(), set_, OptimizerSettings(), std::span<const UpdateFactors>(),
                                             ClipForm::torch, group_of_one(), lanes);
  }
  bool few() { return optimizer_->lane_sums().few(); }
  std::vector<float> step(std::uint64_t number, int shards) {
    LaneSums& sums = optimizer_->lane_sums();
    const int lanes = int(std::min<std::int64_t>(shards, lanes_));
    sums.begin_step();
    const auto run = [&](Collective& c) {
      const LaneSums::Use use(sums, c.rank() % lanes, c.rank() < lanes, c.rank() + lanes >= shards);
      if (failing_ == c.rank()) throw InputError("a shard fails");
      add(use.buffer(), number, c.rank());
      if (slow_ == c.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    };
    pool_.run(shards, lanes, false, run, nullptr, sums.few());
    sums.end_step();
    optimizer_->sum_gradients(pool_);
    const Tensor total = set_.flat_lane(0);
    return {total.data<float>(), total.data<float>() + total.size()};
  }
  void slow_down(int shard) { slow_ = shard; }
  void fail(int shard) { failing_ = shard; }

 private:
  void add(std::int64_t buffer, std::uint64_t step, int shard) {
    const std::uint64_t key = step * 100 + static_cast<std::uint64_t>(shard);
    const std::span<std::uint8_t> written = set_.written(buffer, 0, 1);
    float* const to = set_.gradient(buffer, 0).data<float>();
    for (std::int64_t i = 0; i < kValues; ++i) {
      const std::uint64_t mixed = (static_cast<std::uint64_t>(i) * 1000 + key + 1) * 0x9e3779b97f4a7c15;
      const auto value = static_cast<float>(static_cast<std::int32_t>(mixed >> 32));  // rounded, as every sum is
      to[i] = written[0] == kWritten ? to[i] + value : value;
    }
    written[0] = kWritten;
  }

  const std::int64_t lanes_;
  int slow_ = -1, failing_ = -1;
  ParameterSet set_;
  ShardPool pool_;
  std::unique_ptr<Optimizer> optimizer_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

EngineSettings cut_in_pairs(std::int64_t batch) {
  EngineSettings settings;
  settings.max_batch = batch;
  settings.images_per_shard = 2;
  settings.clip_norm = 1.0;
  return settings;
}

}  // namespace

TEST_CASE("lane sums: few buffers give the bits of a buffer for each lane") {
  for (std::int64_t lanes = 3; lanes <= kMostLanes; ++lanes) {
    Summed all(lanes, lanes, 3);
    CHECK_FALSE(all.few());
    for (const int threads : {1, 2, 3, 4, 8})
      for (std::int64_t buffers = gradient_buffers({.shards = 2 * lanes, .lanes = lanes}, 1, 1); buffers < lanes;
           ++buffers) {
        CAPTURE(lanes);
        CAPTURE(threads);
        CAPTURE(buffers);
        Summed few(lanes, buffers, threads);
        CHECK(few.few());
        for (const int shards : {23, int(lanes), 3, 2, 1, 5, 16})
          CHECK(same_bits(few.step(7, shards), all.step(7, shards)));
      }
  }
}

TEST_CASE("lane sums: a lane that takes long changes no bit") {
  Summed all(8, 8, 1), few(8, 4, 2);
  const std::vector<float> wanted = all.step(1, 16);
  for (int slow = 0; slow < 16; ++slow) {
    few.slow_down(slow);
    CHECK(same_bits(few.step(1, 16), wanted));
  }
}

TEST_CASE("lane sums: a shard that fails ends the step, and the next one is right") {
  Summed all(8, 8, 1), few(8, 4, 2);
  const std::vector<float> wanted = all.step(1, 24);
  for (int failing = 0; failing < 24; ++failing) {
    few.slow_down(failing);
    few.fail(failing);
    CHECK_THROWS_WITH_AS(few.step(1, 24), "a shard fails", InputError);
    few.fail(-1);
    CHECK(same_bits(few.step(1, 24), wanted));
  }
}

TEST_CASE("lane sums: a network's gradient is that of a buffer for each lane, though its lanes lie in four") {
  const ViTConfig c = small_vit("pre_pre");
  const auto gradients = [&](int threads, std::int64_t buffers) {
    SmallTraining training(c, cut_in_pairs(32), threads, cpu_backend());
    CHECK(training.engine.parameters().lanes() == buffers);
    std::vector<float> out;
    for (const std::int64_t images : {32, 9, 3, 32}) {
      const Batch data(c, images);
      training.engine.forward_backward(data.images, data.labels);
      training.engine.sum_gradients();
      const Tensor total = training.engine.parameters().flat_lane(0);
      out.insert(out.end(), total.data<float>(), total.data<float>() + total.size());
    }
    return out;
  };
  const std::vector<float> all = gradients(3, 8);
  for (const auto& [threads, buffers] : {std::pair{1, 4}, {2, 4}, {4, 6}, {8, 8}}) {
    const auto& shown = threads;
    CAPTURE(shown);
    CHECK(same_bits(gradients(threads, buffers), all));
  }
}

TEST_CASE("lane sums: a lane whose gradient is not finite stops the step and is found, wherever it lies") {
  const ViTConfig c = small_vit("pre_pre");
  for (std::int64_t lane = 0; lane < 8; ++lane) {
    CAPTURE(lane);
    SmallTraining training(c, cut_in_pairs(32), 2, cpu_backend());
    auto& [pool, engine, data] = training;
    engine.state().lr = 0.1;
    const Tensor flat = engine.parameters().flat_values();
    const std::vector<float> before(flat.data<float>(), flat.data<float>() + flat.size());
    data.images.slice(2 * lane, 1).data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(engine.train_step(data.images, data.labels)));
    CHECK(same_bits(before, {flat.data<float>(), flat.data<float>() + flat.size()}));
    CHECK(engine.first_nonfinite_loss() == 2 * lane);
    CHECK(engine.find_nonfinite(data.images, data.labels));
    const Batch good(c, 32);
    CHECK(std::isfinite(engine.train_step(good.images, good.labels)));
  }
}

TEST_CASE("lane sums: parts of a batch and batch norm keep a buffer for each lane") {
  EngineSettings parts = cut_in_pairs(64);
  parts.accumulate = 2;
  CHECK(SmallTraining(small_vit("pre_pre"), parts, 2, cpu_backend()).engine.parameters().lanes() == 8);
  CHECK(SmallTraining(small_vit("bn"), cut_in_pairs(32), 2, cpu_backend()).engine.parameters().lanes() == 8);
}
