// Networks of other programs with images and logits, made by tests/reference/timm_twin.py --fixture, and functions for
// tests of them.
#pragma once

#include <filesystem>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/weights/convert.h"
#include "experiments/lab/weights/convert_files.h"
#include "nn/model/init.h"
#include "nn/model/model.h"
#include "nn/training/engine.h"
#include "tests/lab/base/tensor_values.h"

namespace normlab {

struct NetworkFile {
  const char* name;
  NameScheme scheme;
};
inline constexpr NetworkFile kNetworkFiles[] = {
    {"timm_vit", NameScheme::timm},         {"timm_deit3", NameScheme::timm},  {"timm_gap", NameScheme::timm},
    {"big_vision", NameScheme::big_vision}, {"augreg", NameScheme::augreg},    {"timm_distilled", NameScheme::timm},
    {"timm_swin", NameScheme::timm},        {"timm_swiglu", NameScheme::timm}, {"timm_gated", NameScheme::timm},
    {"timm_registers", NameScheme::timm},   {"timm_dinov3", NameScheme::timm}, {"timm_eva02", NameScheme::timm}};

inline std::filesystem::path network_folder() { return "tests/lab/weights/fixtures"; }
inline std::filesystem::path network_path(const NetworkFile& file) {
  return network_folder() / (std::string(file.name) + (stored_as_npz(file.scheme) ? ".npz" : ".safetensors"));
}
inline SafetensorsFile expected_file() { return SafetensorsFile::read(network_folder() / "expected.safetensors"); }
inline std::string network_json(const NetworkFile& file) { return expected_file().metadata().at(file.name); }
inline ModelConfig network_model(const NetworkFile& file) { return read_model_option(network_json(file)); }
inline ViTConfig network_vit(const NetworkFile& file) { return std::get<ViTConfig>(network_model(file)); }

/// A network without an engine.
struct Weights {
  ParameterSet weights;
  explicit Weights(const ModelConfig& config, std::uint64_t seed = 0) {
    make_model(weights, config);
    weights.allocate(DType::f32, 0);
    initialise(weights, config, seed);
  }
};

/// The logits of the fixtures' images, with a mean and a deviation of one half.
inline std::vector<double> logits_of(const ParameterSet& weights, const ModelConfig& config) {
  const SafetensorsFile expected = expected_file();
  const std::vector<std::uint8_t> bytes = values_of<std::uint8_t>(expected.get("images"));
  const auto count = static_cast<std::int64_t>(expected.get("images").shape[0]);
  std::vector<float> pixels;
  for (const std::uint8_t byte : bytes) pixels.push_back((float(byte) / 255.0f - 0.5f) / 0.5f);
  ShardPool pool(1);
  Engine engine(cpu_backend(), pool, config, {});
  for (std::size_t i = 0; i < weights.parameters().size(); ++i) {
    const Tensor from = weights.read(int(i)), to = engine.parameters().value(int(i));
    std::copy_n(from.data<float>(), from.size(), to.data<float>());
  }
  std::vector<std::int32_t> labels(std::size_t(count), 0), predictions(labels);
  std::vector<double> losses(std::size_t(count), 0.0), logits(std::size_t(count * num_classes(config)), 0.0);
  const auto broken = engine.evaluate(
      Tensor(pixels.data(), {count, image_size(config)[0], image_size(config)[1], channels(config)}, DType::f32),
      Tensor(labels.data(), {count}, DType::i32), losses, predictions, logits);
  if (broken) throw std::runtime_error(broken->text());
  return logits;
}

/// Every parameter and buffer, in their order.
inline std::vector<float> all_values(const ParameterSet& set) {
  std::vector<float> values;
  const auto add = [&](const Tensor& t) { values.insert(values.end(), t.data<float>(), t.data<float>() + t.size()); };
  for (std::size_t i = 0; i < set.parameters().size(); ++i) add(set.read(int(i)));
  for (std::size_t i = 0; i < set.buffers().size(); ++i) add(set.buffer(int(i)));
  return values;
}

/// Numbers that no two parameters share.
inline void fill_with_counts(ParameterSet& set) {
  float next = 1.0f;
  const auto fill = [&](const Tensor& t) {
    for (std::int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] = next++;
  };
  for (std::size_t i = 0; i < set.parameters().size(); ++i) fill(set.value(int(i)));
  for (std::size_t i = 0; i < set.buffers().size(); ++i) fill(set.buffer(int(i)));
}

}  // namespace normlab
