#include "nn/model.h"

#include "nn/init.h"
#include "nn/swin.h"
#include "nn/vit.h"

namespace normlab {

bool uses_batch_norm(const ModelConfig& config) {
  const Placement& placement = placement_of(config);
  return uses_batch_norm(placement) || placement.merge.kind == NormKind::batch_norm;  // which a ViT has not
}

ModelCost model_cost(const ModelConfig& config) {
  return std::visit([](const auto& c) { return model_cost(c); }, config);
}

std::vector<ConfigProblem> validate(const ModelConfig& config) {
  return std::visit([](const auto& c) { return validate(c); }, config);
}

std::unique_ptr<Model> make_model(ParameterSet& parameters, const ModelConfig& config) {
  if (const auto* swin = std::get_if<SwinConfig>(&config)) return std::make_unique<Swin>(parameters, *swin);
  return std::make_unique<ViT>(parameters, std::get<ViTConfig>(config));
}

void initialise(ParameterSet& parameters, const ModelConfig& config, std::uint64_t seed) {
  std::visit([&](const auto& c) { initialise(parameters, c, seed); }, config);
}

}  // namespace normlab
