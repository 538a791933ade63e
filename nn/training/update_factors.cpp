#include "nn/training/update_factors.h"

#include <cmath>

#include "core/visible_text.h"
#include "nn/model/freeze.h"
#include "nn/model/text_tower.h"

namespace normlab {

std::vector<UpdateFactors> update_factors(const ModelConfig& config, std::span<const ParameterInfo> parameters,
                                          double layer_decay, std::span<const Multiplier> multipliers) {
  std::vector<UpdateFactors> factors(parameters.size());
  const std::int64_t blocks = block_count(config);
  const auto* vit = std::get_if<ViTConfig>(&config);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::int64_t of_tower = parameters[i].place.stage == kTextStage ? vit->text.depth : blocks;
    factors[i].lr = std::pow(layer_decay, double(of_tower + 1 - parameters[i].place.layer));
  }
  std::vector<const Multiplier*> last(parameters.size(), nullptr);
  for (const Multiplier& multiplier : multipliers) {
    bool fitted = false;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (fits(multiplier.name, parameters[i].name)) {
        last[i] = &multiplier;
        fitted = true;
      }
    if (!fitted) throw InputError(concat("multipliers: no parameter matches ", in_quotes(multiplier.name)));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (last[i] != nullptr) {
      factors[i].lr *= last[i]->lr;
      factors[i].weight_decay = last[i]->weight_decay;
    }
  return factors;
}

}  // namespace normlab
