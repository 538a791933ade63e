// The time of a norm beside the time that its memory traffic alone takes.
#pragma once

#include <string>
#include <string_view>

#include "experiments/lab/bench/measure.h"
#include "nn/model/placement.h"

namespace normlab {

/// The input as batch norm sees it; `name` is the text given.
struct NormShape {
  std::string name;
  std::int64_t images, rows_per_image, cols;
  std::int64_t size() const { return images * rows_per_image * cols; }
};

/// "128x56x56x96": images first, channels last. With two axes, the first is split into images of 65, 64 or 1 tokens:
/// the first of these that divides it. InputError for anything else.
NormShape parse_norm_shape(const std::string& text);

struct NormTime {
  std::string_view norm;
  double rate;                             // bytes per second
  double train, train_bound, train_ratio;  // milliseconds
  double eval, eval_bound, eval_ratio;
};

class NormTimer {
 public:
  NormTimer(Backend& backend, ShardPool& pool, const Streams& streams, const NormShape& shape, DType dtype);
  /// Alternates streams, training and evaluation, since the memory's rate changes from second to second. The ratios
  /// are medians over rounds.
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
