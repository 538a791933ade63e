// Writes whole training runs for PyTorch to repeat: see same_training.py beside this file.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/backend.h"
#include "core/error.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/data/augment.h"
#include "experiments/lab/data/dataset.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "nn/training/schedule.h"
#include "tests/lab/base/save_safetensors.h"

using namespace normlab;

namespace {

constexpr std::int64_t kSteps = 100, kWarmup = 10, kBatch = 64;
constexpr double kPeakRate = 1e-3, kClipNorm = 1.0;
constexpr std::uint64_t kSeed = 1;

/// The batches of all steps, as training sees them: [steps, batch, 32, 32, 3], cropped, flipped and normalised.
struct Batches {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
};

Batches make_batches(const ImageSet& train) {
  const auto order = permutation(stream_key(kSeed, "order", ""), train.size(), 0);
  const auto keys = augment_keys(train, kSeed);
  const PixelTable<float> table(train.channel_mean, train.channel_std);
  const MoveSteps augment{.crop_padding = 4, .flip = true};
  Batches batches;
  batches.images.resize(static_cast<std::size_t>(kSteps * kBatch * train.image_bytes()));
  for (std::int64_t i = 0; i < kSteps * kBatch; ++i) {
    const auto image = static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
    make_image(train, static_cast<std::int64_t>(image), augment, {keys[image], 0}, table,
               batches.images.data() + i * train.image_bytes());
    batches.labels.push_back(train.labels[image]);
  }
  return batches;
}

std::vector<std::uint64_t> dims(const Shape& shape) {
  std::vector<std::uint64_t> result;
  for (int i = 0; i < shape.rank(); ++i) result.push_back(static_cast<std::uint64_t>(shape[i]));
  return result;
}

template <class T>
TensorView view(std::string name, std::string dtype, std::vector<std::uint64_t> shape, const std::vector<T>& values) {
  return {std::move(name), std::move(dtype), std::move(shape), std::as_bytes(std::span(values))};
}

std::string model_json(const ViTConfig& c, std::string_view placement) {
  const nlohmann::json model{{"kind", "vit"},
                             {"image_size", c.image_size},
                             {"channels", c.channels},
                             {"patch_size", c.patch_size},
                             {"embed_dim", c.embed_dim},
                             {"depth", c.depth},
                             {"num_heads", c.num_heads},
                             {"mlp_dim", c.mlp_dim},
                             {"num_classes", c.num_classes},
                             {"pool", "gap"},
                             {"pos_embed", "learned"},
                             {"placement", placement}};
  return model.dump();
}

void export_run(const std::filesystem::path& folder, std::string_view placement, const Batches& batches) {
  ViTConfig config;
  config.embed_dim = 64;
  config.depth = 4;
  config.num_heads = 2;
  config.mlp_dim = 256;
  config.placement = find_placement(placement)->placement;
  EngineSettings settings;
  settings.max_batch = kBatch;
  ShardPool pool(1);
  Engine engine(cpu_backend(), pool, config, settings);
  initialise(engine.parameters(), config, kSeed);

  const ParameterSet& p = engine.parameters();
  std::vector<std::vector<float>> initial;  // the engine trains in place
  std::vector<TensorView> tensors;
  const auto keep_copy = [&](const std::string& name, const Tensor& t) {
    const float* values = t.data<float>();
    initial.emplace_back(values, values + t.size());
    tensors.push_back(view(name, "F32", dims(t.shape()), initial.back()));
  };
  for (std::size_t i = 0; i < p.parameters().size(); ++i)
    keep_copy("param/" + p.parameters()[i].name, p.value(static_cast<int>(i)));
  for (std::size_t i = 0; i < p.buffers().size(); ++i)
    keep_copy("buffer/" + p.buffers()[i].name, p.buffer(static_cast<int>(i)));

  std::vector<float> images = batches.images;
  std::vector<std::int32_t> labels = batches.labels;
  const Tensor all_images(images.data(), {kSteps, kBatch, 32, 32, 3}, DType::f32);
  const Tensor all_labels(labels.data(), {kSteps, kBatch}, DType::i32);
  std::vector<double> rates, losses, grad_norms;
  const Schedule schedule({}, kPeakRate, kSteps, kWarmup);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    engine.state().lr = schedule.rate(step);
    engine.state().clip_norm = kClipNorm;
    rates.push_back(engine.state().lr);
    losses.push_back(engine.train_step(all_images.slice(step, 1).reshape({kBatch, 32, 32, 3}),
                                       all_labels.slice(step, 1).reshape({kBatch})));
    grad_norms.push_back(engine.state().grad_norm);
  }
  CHECK(losses.back() < losses.front());

  const std::vector<std::uint64_t> steps{static_cast<std::uint64_t>(kSteps)};
  tensors.push_back(view("images", "F32", dims(all_images.shape()), images));
  tensors.push_back(view("labels", "I32", dims(all_labels.shape()), labels));
  tensors.push_back(view("rates", "F64", steps, rates));
  tensors.push_back(view("losses", "F64", steps, losses));
  tensors.push_back(view("grad_norms", "F64", steps, grad_norms));
  const OptimizerSettings& adamw = settings.optimizer;
  const nlohmann::json optimizer{{"beta1", adamw.beta1},
                                 {"beta2", adamw.beta2},
                                 {"eps", adamw.eps},
                                 {"weight_decay", adamw.weight_decay},
                                 {"clip_norm", kClipNorm}};
  save_safetensors(folder / (std::string(placement) + ".safetensors"),
                   {{"normlab.model", model_json(config, placement)}, {"normlab.optimizer", optimizer.dump()}},
                   std::move(tensors));
}

}  // namespace

TEST_CASE("twin: export a training run") {
  const char* out = std::getenv("NORMLAB_TWIN_OUT");
  const char* data = std::getenv("NORMLAB_DATA");
  if (out == nullptr || data == nullptr) {
    MESSAGE("skipped: set NORMLAB_TWIN_OUT=DIR and NORMLAB_DATA=DIR (with cifar10) to write runs for same_training.py");
    return;
  }
  std::filesystem::create_directories(out);
  DatasetConfig dataset;
  dataset.name = "cifar10";
  const Batches batches = make_batches(load_dataset(dataset, std::nullopt, 1).train);
  for (const std::string_view placement : {"pre_pre", "post_post", "dpn", "bn_ffnbn"}) {
    CAPTURE(placement);
    export_run(out, placement, batches);
  }
}
