// The settings of any model, and access to those that all models share.
#pragma once

#include <variant>

#include "core/words.h"
#include "nn/model/swin_config.h"
#include "nn/model/vit_config.h"

namespace normlab {

/// The alternatives are in the order of ModelKind.
using ModelConfig = std::variant<ViTConfig, SwinConfig>;
enum class ModelKind : std::uint8_t { vit, swin };
constexpr auto stated_words(ModelKind) { return words<ModelKind>("vit", "swin"); }
inline ModelKind kind_of(const ModelConfig& config) { return ModelKind(config.index()); }

/// Blocks of the whole network.
inline std::int64_t block_count(const ViTConfig& config) { return config.depth; }
inline std::int64_t block_count(const SwinConfig& config) { return config.depth(); }
inline std::int64_t block_count(const ModelConfig& config) {
  return std::visit([](const auto& c) { return block_count(c); }, config);
}

/// The settings that every model has.
inline const NetworkConfig& network(const ModelConfig& config) {
  return std::visit([](const NetworkConfig& c) -> const NetworkConfig& { return c; }, config);
}
inline NetworkConfig& network(ModelConfig& config) {
  return std::visit([](NetworkConfig& c) -> NetworkConfig& { return c; }, config);
}
inline const std::array<std::int64_t, 2>& image_size(const ModelConfig& config) { return network(config).image_size; }
inline std::int64_t channels(const ModelConfig& config) { return network(config).channels; }
inline std::int64_t num_classes(const ModelConfig& config) { return network(config).num_classes; }
inline const Placement& placement_of(const ModelConfig& config) { return network(config).placement; }
inline Task task_of(const ModelConfig& config) {
  const auto* vit = std::get_if<ViTConfig>(&config);
  return vit != nullptr ? vit->task : Task::classify;
}
bool uses_batch_norm(const ModelConfig& config);
/// Whether there is a text tower.
inline bool has_text(const ModelConfig& config) { return task_of(config) == Task::contrast; }

std::vector<BlockSizes> block_sizes(const ModelConfig& config);
/// Values of the widest activations that one block holds at a time for an image.
std::int64_t widest_layer(const ModelConfig& config);
/// Cost of a valid configuration, from its declared parts. Padding tokens of incomplete windows count, since they
/// are computed.
ModelCost model_cost(const ModelConfig& config);
std::vector<ConfigProblem> validate(const ModelConfig& config);

}  // namespace normlab
