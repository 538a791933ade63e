// Class counts that only a dataset's files know.
#pragma once

#include <cstdint>
#include <functional>

#include "experiments/lab/descriptor/config.h"

namespace normlab {

/// InputError if the files are missing or unreadable.
using ClassCounts = std::function<std::int64_t(const DatasetConfig&)>;

}  // namespace normlab
