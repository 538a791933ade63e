// Datasets from a seed: "shapes" and "gratings", 32x32 RGB images.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/data/image_index.h"
#include "experiments/lab/descriptor/dataset_config.h"

namespace normlab {

std::vector<std::string> generated_classes(const DatasetConfig& config);

/// A slice of the `train_images` ("train") or `eval_images` ("test") images of `config.name`; keys are six-digit
/// indices. A left-right flip can turn one class into another. InputError: another split, fewer than one image or
/// more than a million.
ImageSet make_generated(const DatasetConfig& config, const SliceRequest& request);

}  // namespace normlab
