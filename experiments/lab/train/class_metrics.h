// The metrics of a slice whose images each have a class.
#pragma once

#include <map>
#include <string>

#include "experiments/lab/data/image_set.h"
#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/metrics/class_scores.h"

namespace normlab {

/// PREFIXaccuracy and what the trial measures on request (EvalMetric): PREFIXbalanced_accuracy, PREFIXtop5_accuracy and
/// PREFIXclass_accuracy/NAME of each class that has images. A name's control characters are spelt out.
std::map<std::string, double> class_metrics(const ClassScores& scores, const TrialConfig& trial, const ImageSet& images,
                                            const std::string& prefix);

}  // namespace normlab
