// A network's outputs for the images of a batch, read on the host.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "nn/probes/probes.h"

namespace normlab {

/// A non-finite output for an image.
struct NonFiniteAnswer {
  std::int64_t image = 0;  // index in the batch
  std::int64_t logit = 0;  // the class; negative if the logits are finite but the loss is not
  double value = 0.0;
  /// "the logit of class 3 is nan", "the loss is inf".
  std::string text() const;
};

/// Writes the losses [B] and predicted classes [B] of B images, and their logits [B, classes] if `to_logits` is given.
/// Writes no losses if `losses` is an empty tensor. Returns the non-finite output of the first image that has one; each
/// such image gets the prediction -1.
std::optional<NonFiniteAnswer> write_answers(const Tensor& logits, const Tensor& losses, std::span<double> to_losses,
                                             std::span<std::int32_t> to_predictions, std::span<double> to_logits);

}  // namespace normlab
