// Constructs any of the models.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nn/model/any_model.h"
#include "nn/model/model_config.h"
#include "nn/model/norm_formula.h"

namespace normlab {

/// Declares all parameters. Throws InputError with every problem of `config`.
std::unique_ptr<Model> make_model(ParameterSet& parameters, const ModelConfig& config);

/// A batch norm whose statistics training takes from batches: one whose parameters `freeze` leaves to training.
struct BatchStatistic {
  std::string name;      // "blocks.0.attn.pre"
  const NormSpec* spec;  // in `config`
  std::int64_t rows;     // values of a channel, per image
};
/// A formula that a descriptor gives, of a norm or an activation, where it sees so many channels, tokens and blocks;
/// `name` is the first such place.
struct FormulaAt {
  std::string name;
  const NormFormula* function;
  formula::Site site;
  bool is_activation = false;
};
std::vector<FormulaAt> formulas_of(const ModelConfig& config);
/// Whether formulas compute something: also activations that are words, but for gelu in a plain MLP, and what attention
/// does to its heads.
bool runs_formulas(const ModelConfig& config);
/// In the order of the parameters. `config` must be valid; patterns that stand for nothing freeze nothing.
std::vector<BatchStatistic> batch_statistics(const ModelConfig& config, std::span<const std::string> freeze);

}  // namespace normlab
