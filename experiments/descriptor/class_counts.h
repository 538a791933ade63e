// Class counts of users' own datasets, known only from their files.
#pragma once

#include <cstdint>
#include <functional>

#include "experiments/descriptor/config.h"

namespace normlab {

/// Returns the number of classes that a dataset's files name. InputError if they are missing or unreadable.
using ClassCounts = std::function<std::int64_t(const DatasetConfig&)>;

}  // namespace normlab
