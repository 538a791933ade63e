#include "nn/update_factors.h"

#include <charconv>
#include <cmath>

#include "core/visible_text.h"
#include "nn/model.h"

namespace normlab {
namespace {

/// The number behind `prefix` in `name`, or -1.
std::int64_t number_after(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return -1;
  std::int64_t number = -1;
  std::from_chars(name.data() + prefix.size(), name.data() + name.size(), number);
  return number;
}

bool precedes_all_blocks(std::string_view name) {
  for (const std::string_view begin : {"patch_embed.", "pos_embed", "cls_token", "dist_token", "stem."})
    if (name.starts_with(begin)) return true;
  return false;
}

/// BEiT's number of a layer: 0 before the blocks, 1 for the first block, blocks + 1 behind the last.
std::int64_t layer_number(const ViTConfig& c, std::string_view name) {
  if (precedes_all_blocks(name)) return 0;
  const std::int64_t block = number_after(name, "blocks.");
  return block < 0 ? c.depth + 1 : block + 1;
}

std::int64_t layer_number(const SwinConfig& c, std::string_view name) {
  if (precedes_all_blocks(name)) return 0;
  const std::int64_t stage = number_after(name, "stages.");
  if (stage < 0) return c.depth() + 1;
  std::int64_t before = 0;
  for (std::int64_t s = 0; s < stage; ++s) before += c.depths[static_cast<std::size_t>(s)];
  const std::int64_t block = number_after(name, concat("stages.", stage, ".blocks."));
  return block < 0 ? before : before + block + 1;
}

}  // namespace

bool fits(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0, star = pattern.npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;  // stands for nothing, until that does not do
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::vector<std::string> parameter_names(const ModelConfig& config) {
  ParameterSet set;
  make_model(set, config);
  std::vector<std::string> names;
  for (const ParameterInfo& p : set.parameters()) names.push_back(p.name);
  return names;
}

std::int64_t layers_above(const ModelConfig& config, std::string_view parameter) {
  return std::visit([&](const auto& c) { return block_count(c) + 1 - layer_number(c, parameter); }, config);
}

std::vector<UpdateFactors> update_factors(const ModelConfig& config, std::span<const ParameterInfo> parameters,
                                          double layer_decay, std::span<const Multiplier> multipliers) {
  std::vector<UpdateFactors> factors(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i)
    factors[i].lr = std::pow(layer_decay, double(layers_above(config, parameters[i].name)));
  std::vector<const Multiplier*> last(parameters.size(), nullptr);
  for (const Multiplier& multiplier : multipliers) {
    bool fitted = false;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (fits(multiplier.name, parameters[i].name)) {
        last[i] = &multiplier;
        fitted = true;
      }
    if (!fitted) throw InputError(concat("multipliers: no parameter fits ", in_quotes(multiplier.name)));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (last[i] != nullptr) {
      factors[i].lr *= last[i]->lr;
      factors[i].weight_decay = last[i]->weight_decay;
    }
  return factors;
}

}  // namespace normlab
