// The classes of data sets of one's own, whose number only their files can tell.
#pragma once

#include <cstdint>
#include <functional>

#include "experiments/descriptor/config.h"

namespace normlab {

/// How many classes the files of a data set name. InputError where they are not there or cannot be read.
using ClassCounts = std::function<std::int64_t(const DatasetConfig&)>;

}  // namespace normlab
