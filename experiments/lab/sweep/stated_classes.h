// What finished and running trials say about data that are not at hand.
#pragma once

#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// The number of classes that trials on the same dataset state: those of the last run of `stem`, otherwise all trials
/// in the store. Where they state none, or several, `otherwise` decides.
ClassCounts stated_classes(const ResultStore& store, const std::string& stem, const ClassCounts& otherwise);

}  // namespace normlab
