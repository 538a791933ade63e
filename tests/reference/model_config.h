// A fixture's `config` in the words of the project.
#pragma once

#include "experiments/lab/base/strict_json.h"
#include "nn/training/engine.h"
#include "tests/reference/fixture.h"

namespace normlab::reference {

struct ModelCase {
  ModelConfig config;
  bool training = true;
  double progress = 1;
  LossKind loss = LossKind::softmax;
  bool soft_targets = false;
};

/// Takes the keys of a model; the caller takes its own and calls finish(). InputError for a word that has no meaning
/// here.
ModelCase read_model(ObjectReader& reader);
/// The same for a case of op swin.
ModelCase read_swin(ObjectReader& reader);

/// Fills parameters and buffers from `param/` and `const/`. InputError unless both sides have the same ones.
void load_parameters(const Fixture& fixture, ParameterSet& parameters);

}  // namespace normlab::reference
