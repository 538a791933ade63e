// The time of one norm of any kind beside the time that memory alone would take.
#pragma once

#include <string>
#include <string_view>

#include "experiments/cli/bench_measure.h"
#include "nn/placement.h"

namespace normlab {

/// What is normalised, as batch norm sees it; `name` as it was given.
struct NormShape {
  std::string name;
  std::int64_t images, rows_per_image, cols;
  std::int64_t size() const { return images * rows_per_image * cols; }
};

/// "128x56x56x96": images first, channels last. Of two axes the first is cut into images of 65 tokens, of 64, or of
/// one, whichever divides it. InputError for anything else.
NormShape parse_norm_shape(const std::string& text);

struct NormTime {
  std::string_view norm;
  double rate;                             // bytes a second
  double train, train_bound, train_ratio;  // milliseconds
  double eval, eval_bound, eval_ratio;
};

/// Measures norms on tensors of one shape.
class NormTimer {
 public:
  NormTimer(Backend& backend, ShardPool& pool, const Streams& streams, const NormShape& shape, DType dtype);
  /// Rounds of the streams, of training and of evaluation in turns for `seconds`, since the memory's rate changes from
  /// one second to the next; the ratios are medians of those of the rounds.
  NormTime measure(NormKind kind, double seconds) const;

 private:
  Backend& backend_;
  ShardPool& pool_;
  const Streams& streams_;
  NormShape shape_;
  Arena memory_;
  Tensor x_, dy_;
};

}  // namespace normlab
