// What a network says of the images of a batch, read on the host.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/tensor.h"

namespace normlab {

/// What a network says of an image where that is no number.
struct NonFiniteAnswer {
  std::int64_t image = 0;  // of the batch
  std::int64_t logit = 0;  // the class; below 0: its logits are finite, and its loss is not
  double value = 0.0;
  /// "the logit of class 3 is nan", "the loss is inf".
  std::string text() const;
};

/// Writes the losses [B] and predicted classes [B] of B images, and their logits [B, classes] where `to_logits` is
/// given. `losses` may be an empty tensor, which writes none. Returns the first answer that is not finite, by image;
/// each such image has the prediction -1.
std::optional<NonFiniteAnswer> write_answers(const Tensor& logits, const Tensor& losses, std::span<double> to_losses,
                                             std::span<std::int32_t> to_predictions, std::span<double> to_logits);

/// Element i of a tensor of f32, f64 or bf16.
double number_at(const Tensor& t, std::int64_t i);

}  // namespace normlab
