#include "experiments/lab/train/checkpoint.h"

#include <doctest/doctest.h>

#include <cstring>

#include "core/shards.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {

EngineSettings settings_of(OptimizerName name, MomentProduct product, DType dtype) {
  EngineSettings settings;
  settings.precision = precision_of(dtype);
  settings.max_batch = 6;
  settings.accumulate = 2;
  settings.optimizer.name = name;
  settings.optimizer.bf16_moment = product != MomentProduct::wide;
  settings.optimizer.moment_product = product;
  settings.optimizer.layer_decay = 0.9;
  settings.ema = {0.9, 2};
  return settings;
}

struct Run {
  explicit Run(const EngineSettings& settings)
      : engine(cpu_backend(), pool, small_vit("bn_ffnbn"), settings),
        data(engine.config(), 6, dtype_of(settings.precision)) {
    initialise(engine.parameters(), engine.config(), 1);
    engine.state().lr = engine.state().schedule = 1e-2;
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) engine.train_step(data.images, data.labels);
  }
  std::vector<std::byte> everything() {
    std::vector<std::byte> bytes;
    const auto append = [&](const Tensor& t) {
      const auto* begin = static_cast<const std::byte*>(t.raw());
      bytes.insert(bytes.end(), begin, begin + t.bytes());
    };
    append(engine.parameters().update().values);
    append(engine.parameters().flat_buffers());
    append(engine.average()->values());
    append(engine.average()->buffers());
    for (const Optimizer::Moment& moment : engine.optimizer().moments()) append(moment.flat);
    return bytes;
  }
  ShardPool pool{1};
  Engine engine;
  Batch data;
};

CheckpointInfo info_at(std::int64_t step) {
  CheckpointInfo info;
  info.trial_id = "t";
  info.model = "m";
  info.step = step;
  return info;
}

}  // namespace

TEST_CASE("checkpoint: every optimiser and its average resume to the bit") {
  const TemporaryFolder folder;
  for (const OptimizerName name :
       {OptimizerName::adamw, OptimizerName::sgd, OptimizerName::big_vision_adam, OptimizerName::momentum_hp,
        OptimizerName::lamb, OptimizerName::lion, OptimizerName::muon, OptimizerName::adam})
    for (const MomentProduct product : {MomentProduct::wide, MomentProduct::rounded})
      for (const DType dtype : {DType::f32, DType::bf16}) {
        CAPTURE(static_cast<int>(name));
        const EngineSettings settings = settings_of(name, product, dtype);
        Run whole(settings), first(settings), second(settings);
        whole.steps(5);
        first.steps(3);
        const auto path = folder / "checkpoint.safetensors";
        save_checkpoint(path, first.engine, info_at(3));
        CHECK(load_checkpoint(path, second.engine, info_at(0)).step == 3);
        second.steps(2);
        CHECK(whole.everything() == second.everything());
      }
}

TEST_CASE("checkpoint: one of another optimiser is refused") {
  const TemporaryFolder folder;
  const auto path = folder / "checkpoint.safetensors";
  const auto settings = [](OptimizerName name) { return settings_of(name, MomentProduct::wide, DType::f32); };
  Run adam(settings(OptimizerName::adamw)), lion(settings(OptimizerName::lion));
  save_checkpoint(path, lion.engine, info_at(0));
  CHECK_THROWS_WITH_AS(load_checkpoint(path, adam.engine, info_at(0)),
                       doctest::Contains("there is no tensor \"optimizer.v/"), InputError);
  save_checkpoint(path, adam.engine, info_at(0));
  CHECK_THROWS_WITH_AS(load_checkpoint(path, lion.engine, info_at(0)),
                       doctest::Contains(" tensors, but this model has "), InputError);
  EngineSettings narrow = settings(OptimizerName::big_vision_adam);
  narrow.optimizer.bf16_moment = true;
  Run rounded(narrow);
  CHECK_THROWS_WITH_AS(load_checkpoint(path, rounded.engine, info_at(0)), doctest::Contains(" is F32 with "),
                       InputError);  // not BF16
}

TEST_CASE("checkpoint: an average is in both checkpoint and training or in neither") {
  const TemporaryFolder folder;
  const auto path = folder / "checkpoint.safetensors";
  Run adam(settings_of(OptimizerName::adamw, MomentProduct::wide, DType::f32));
  save_checkpoint(path, adam.engine, info_at(0));
  EngineSettings plain = settings_of(OptimizerName::adamw, MomentProduct::wide, DType::f32);
  plain.ema.decay = 0.0;
  Run alone(plain);
  CHECK_THROWS_WITH_AS(load_checkpoint(path, alone.engine, info_at(0)),
                       doctest::Contains(" tensors, but this model has "), InputError);
  save_checkpoint(path, alone.engine, info_at(0));
  CHECK_THROWS_WITH_AS(load_checkpoint(path, adam.engine, info_at(0)), doctest::Contains("there is no tensor \"ema/"),
                       InputError);
}
