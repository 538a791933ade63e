// Data sets that are made from a seed, always at hand: "shapes" and "gratings", ten classes of 32x32 RGB pictures.
#pragma once

#include <string>
#include <vector>

#include "experiments/data/image_index.h"
#include "experiments/descriptor/dataset_config.h"

namespace normlab {

std::vector<std::string> generated_classes(const std::string& name);

/// The slice of `train_images` ("train") or `eval_images` ("test") pictures of the set `config.name`; keys are
/// six-digit indices. A left-right flip would turn one class into another. InputError: another split, fewer than one
/// image or more than a million.
ImageSet make_generated(const DatasetConfig& config, const SliceRequest& request);

}  // namespace normlab
