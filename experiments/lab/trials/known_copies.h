// Results of data sets that are published without loss, but were read as JPEGs.
#pragma once

#include <string>

#include "experiments/lab/trials/trial_result.h"

namespace normlab {

/// Key of a result's provenance: jpeg_copy() of its data. Missing if they are no such copy, and in older results.
inline constexpr const char* kJpegCopy = "jpeg_copy";

/// jpeg_copy() of a result's data, as recorded. Older results do not record it; of these, the hash of the evaluation
/// images tells some. "": not known to be a copy.
std::string jpeg_copy_of(const TrialResult& result);

}  // namespace normlab
