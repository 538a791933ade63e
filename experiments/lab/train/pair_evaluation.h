// Zero-shot classification and retrieval by an image tower and a text tower.
#pragma once

#include "experiments/lab/train/tasks.h"

namespace normlab {

/// accuracy: of the class whose texts are most similar to the image. text_recall1, image_recall1: how often the text
/// most similar to an image is its own, and the image most similar to a text; equal texts count as one. loss: in
/// batches of train.batch_size. NonFiniteError names the first image or text whose vector is not finite.
std::map<std::string, double> evaluate_pairs(const SliceCall& call);

}  // namespace normlab
