// Writes every batch of a descriptor's first trial, the values its network starts from, and on request the dropout masks
// of the first steps, for PyTorch to train on: see same_batches.py and source_batches.py beside this file.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/backend.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/train/trial.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/lab/base/save_safetensors.h"

using namespace normlab;

namespace {

void append(std::ofstream& file, const Tensor& t) {
  file.write(static_cast<const char*>(t.raw()), static_cast<std::streamsize>(t.bytes()));
}

void export_initial(const std::filesystem::path& path, const TrialConfig& config, ShardPool& pool) {
  Engine engine(cpu_backend(), pool, config.model, engine_settings(config));
  initialise(engine.parameters(), config.model, config.seed);
  const ParameterSet& p = engine.parameters();
  std::vector<TensorView> views;
  for (std::size_t i = 0; i < p.parameters().size(); ++i) {
    const Tensor value = p.value(static_cast<int>(i));
    std::vector<std::uint64_t> shape;
    for (int d = 0; d < value.shape().rank(); ++d) shape.push_back(static_cast<std::uint64_t>(value.shape()[d]));
    views.push_back({"param/" + p.parameters()[i].name, "F32", shape,
                     std::as_bytes(std::span(value.data<float>(), static_cast<std::size_t>(value.size())))});
  }
  save_safetensors(path, {}, std::move(views));
}

/// [steps][places][images, tokens, width] bytes, 0 where a value is dropped. The places are the stem and the ends of both
/// branches of each block, which must have one rate.
void export_masks(const std::filesystem::path& path, const TrialConfig& config, std::int64_t steps) {
  const auto& c = std::get<ViTConfig>(config.model);
  DropoutRates expected(c.dropout.stem);
  expected.hidden = 0;
  REQUIRE(c.dropout == expected);
  std::vector<std::string> places{"stem"};
  for (std::int64_t b = 0; b < c.depth; ++b)
    for (const char* branch : {"attn", "mlp"}) places.push_back(concat("blocks.", b, ".", branch));
  const Shape shape{config.train.batch_size, c.tokens(), c.embed_dim};
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(shape.size()));
  const Tensor mask(bytes.data(), shape, DType::u8);
  std::ofstream file(path, std::ios::binary);
  for (std::int64_t step = 0; step < steps; ++step) {
    const StepState state{.step = step};
    for (const std::string& place : places) {
      const StreamKey key = stream_key(engine_settings(config).drop_seed, "drop", place);
      cpu_backend().draw_mask({key, c.dropout.stem, 0}, &state, mask);
      append(file, mask);
    }
  }
}

}  // namespace

TEST_CASE("twin: export all batches of a trial") {
  const char *out = std::getenv("NORMLAB_BATCHES_OUT"), *descriptor = std::getenv("NORMLAB_BATCHES_OF");
  const char *data = std::getenv("NORMLAB_DATA"), *seed = std::getenv("NORMLAB_BATCHES_SEED"),
             *masks = std::getenv("NORMLAB_BATCHES_MASKS");
  if (out == nullptr || descriptor == nullptr || data == nullptr) {
    MESSAGE(
        "skipped: set NORMLAB_BATCHES_OUT=DIR, NORMLAB_BATCHES_OF=X.json and NORMLAB_DATA=DIR to write batches for "
        "same_batches.py");
    return;
  }
  TrialConfig config = load_experiment(descriptor).trials.front().config;
  if (seed != nullptr) config.seed = std::strtoull(seed, nullptr, 10);
  const std::filesystem::path folder(out);
  std::filesystem::create_directories(folder);
  const DataPair pair = load_dataset(config.dataset, std::filesystem::path(data), 2);
  BatchSource source(config, pair.train, pair.eval, DType::f32);
  ShardPool pool(1);
  std::ofstream images(folder / "images.f32", std::ios::binary), labels(folder / "labels.i32", std::ios::binary),
      targets(folder / "targets.f32", std::ios::binary);  // if the descriptor mixes images
  for (std::int64_t step = 0; step < source.steps().total; ++step) {
    const BatchSource::Batch batch = source.training(step, pool);
    append(images, batch.images);
    append(labels, batch.labels);
    if (batch.targets) append(targets, batch.targets);
  }
  REQUIRE(images.good());
  export_initial(folder / "initial.safetensors", config, pool);
  if (masks != nullptr) export_masks(folder / "masks.u8", config, std::strtoll(masks, nullptr, 10));
}
