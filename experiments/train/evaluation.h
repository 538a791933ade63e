// A network measured on a slice of images.
#pragma once

#include <map>
#include <string>

#include "experiments/data/dataset.h"
#include "experiments/results/correctness.h"
#include "experiments/train/batches.h"
#include "nn/engine.h"

namespace normlab {

/// Evaluates all of `images`, the evaluation slice of `batches`, and gives PREFIXaccuracy, a share, and PREFIXloss, the
/// mean. `right`, where given, is replaced by which images are right. The same for any number of threads.
std::map<std::string, double> evaluate_slice(Engine& engine, BatchSource& batches, const ImageSet& images,
                                             ShardPool& pool, const std::string& prefix, Correctness* right = nullptr);

}  // namespace normlab
