// Whether Fashion-MNIST is here, for tests on real images.
#pragma once

#include <string>

#include "experiments/lab/data/dataset_place.h"

namespace normlab {

/// "" if it is here, else the line to skip with.
inline std::string without_fashion_mnist() {
  try {
    find_dataset_place({.name = "fashion_mnist"}, std::nullopt);
    return "";
  } catch (const InputError&) {
    return "skipped: Fashion-MNIST is not here; on Debian and Ubuntu: apt-get install dataset-fashion-mnist";
  }
}

}  // namespace normlab
