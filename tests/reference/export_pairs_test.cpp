// Writes the loss and gradients of image-text training for PyTorch to repeat: see lit_twin.py beside this file.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/backend.h"
#include "experiments/lab/base/safetensors.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/lab/base/save_safetensors.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {

constexpr std::int64_t kPairs = 12;

std::vector<std::uint64_t> dims(const Shape& shape) {
  std::vector<std::uint64_t> result;
  for (int i = 0; i < shape.rank(); ++i) result.push_back(static_cast<std::uint64_t>(shape[i]));
  return result;
}

void export_pairs(const std::filesystem::path& folder, LossKind loss) {
  ViTConfig config = small_vit("pre_pre");
  config.task = Task::contrast;
  config.text = {.vocabulary = 31, .length = 6, .embed_dim = 32, .depth = 3, .num_heads = 4, .mlp_dim = 64};
  EngineSettings settings;
  settings.max_batch = kPairs;
  settings.images_per_shard = 5;
  settings.precision = Precision::fp64;
  settings.loss = loss;
  settings.freeze = {"stem", "blocks", "final"};
  ShardPool pool(2);
  Engine engine(cpu_backend(), pool, config, settings);
  initialise(engine.parameters(), config, 1);
  const Batch data(config, kPairs, DType::f64);
  std::vector<std::int32_t> words;
  for (std::int64_t i = 0; i < kPairs * config.text.length; ++i)
    words.push_back(static_cast<std::int32_t>((7 * i + i * i / 3) % 31));
  const Tensor texts(words.data(), {kPairs, config.text.length}, DType::i32);
  std::vector<double> features;
  engine.features(data.images, features);
  const std::vector<double> losses{engine.forward_backward(data.images, texts)};
  engine.sum_gradients();

  std::vector<TensorView> tensors;
  const auto add = [&](const std::string& name, const char* dtype, const Shape& shape, const void* values,
                       std::size_t bytes) {
    tensors.push_back({name, dtype, dims(shape), {static_cast<const std::byte*>(values), bytes}});
  };
  const auto add_tensor = [&](const std::string& name, const Tensor& t) {
    add(name, "F64", t.shape(), t.raw(), t.bytes());
  };
  const ParameterSet& p = engine.parameters();
  for (std::size_t i = 0; i < p.parameters().size(); ++i) {
    const ParameterInfo& info = p.parameters()[i];
    if (!info.name.starts_with("text.")) continue;
    add_tensor("param/" + info.name, p.read(int(i)));
    add_tensor("grad/" + info.name, p.gradient(0, int(i)));
  }
  add("features", "F64", {kPairs, config.embed_dim}, features.data(), features.size() * sizeof(double));
  add("texts", "I32", texts.shape(), words.data(), texts.bytes());
  add("loss", "F64", {1}, losses.data(), sizeof(double));
  const nlohmann::json text{
      {"loss", word_of(loss)}, {"depth", config.text.depth}, {"num_heads", config.text.num_heads}};
  save_safetensors(folder / (std::string(word_of(loss)) + ".safetensors"), {{"normlab.text", text.dump()}},
                   std::move(tensors));
}

}  // namespace

TEST_CASE("twin: export image-text training") {
  const char* out = std::getenv("NORMLAB_TWIN_OUT");
  if (out == nullptr) {
    MESSAGE("skipped: set NORMLAB_TWIN_OUT=DIR to write files for lit_twin.py");
    return;
  }
  std::filesystem::create_directories(out);
  for (const LossKind loss : {LossKind::softmax, LossKind::sigmoid}) export_pairs(out, loss);
}
