#include "nn/training/answers.h"

#include <cmath>

#include "core/nonfinite.h"

namespace normlab {

std::string NonFiniteAnswer::text() const {
  return logit < 0 ? concat("the loss is ", nonfinite_word(value))
                   : concat("the logit of class ", logit, " is ", nonfinite_word(value));
}

std::optional<NonFiniteAnswer> write_answers(const Tensor& logits, const Tensor& losses, std::span<double> to_losses,
                                             std::span<std::int32_t> to_predictions, std::span<double> to_logits) {
  const std::int64_t batch = logits.shape()[0], classes = logits.shape()[1];
  std::optional<NonFiniteAnswer> first;
  for (std::int64_t i = 0; i < batch; ++i) {
    const auto at = static_cast<std::size_t>(i);
    bool finite = true;
    const auto check = [&](std::int64_t logit, double value) {
      if (std::isfinite(value)) return;
      finite = false;
      if (!first) first = {i, logit, value};
    };
    std::int64_t best = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      const double z = number_at(logits, i * classes + c);
      check(c, z);
      if (z > number_at(logits, i * classes + best)) best = c;
      if (!to_logits.empty()) to_logits[static_cast<std::size_t>(i * classes + c)] = z;
    }
    if (losses) check(-1, to_losses[at] = number_at(losses, i));
    to_predictions[at] = finite ? static_cast<std::int32_t>(best) : -1;
  }
  return first;
}

}  // namespace normlab
