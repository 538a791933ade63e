// A network measured on a slice of images, and what is said where that gives no numbers.
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
/// NonFiniteError names the first image whose logits or loss are not finite; there is no accuracy then.
std::map<std::string, double> evaluate_slice(Engine& engine, BatchSource& batches, const ImageSet& images,
                                             ShardPool& pool, const std::string& prefix, Correctness* right = nullptr);

/// NonFiniteError names the first tensor of a checkpoint of `engine` that is not finite: a network may answer in finite
/// numbers all the same, as tanh of infinity is 1.
void require_finite_state(Engine& engine);

}  // namespace normlab
