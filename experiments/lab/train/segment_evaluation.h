// Evaluates a segmentation network on whole images.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "experiments/lab/data/mask.h"
#include "experiments/lab/train/tasks.h"

namespace normlab {

/// Receives the predicted classes of an image at its stored size, in the order of the images.
using SeePrediction = std::function<void(std::int64_t image, const Mask& predicted)>;

/// Of the images that `call` names: PREFIXmiou over the whole slice, PREFIXpixel_accuracy and PREFIXloss, the mean over
/// all labelled pixels. Images are resized (EvalConfig::segment), cut into windows of the model's size whose logits
/// are averaged, and the logits are resized to the stored size. The predicted class is the first largest.
/// NonFiniteError names the first image whose logits are not finite, InputError a bad image or mask.
std::map<std::string, double> evaluate_segmentation(const SliceCall& call, const SeePrediction& see = nullptr);

}  // namespace normlab
