#include "experiments/lab/metrics/mean_iou.h"

#include <cmath>
#include <limits>
#include <numeric>

namespace normlab {

std::int64_t ConfusionMatrix::total() const { return std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0}); }

std::vector<std::int64_t> ConfusionMatrix::labelled() const {
  std::vector<std::int64_t> rows;
  for (std::int64_t c = 0; c < classes_; ++c)
    rows.push_back(
        std::accumulate(counts_.begin() + c * classes_, counts_.begin() + (c + 1) * classes_, std::int64_t{0}));
  return rows;
}

std::vector<double> ConfusionMatrix::iou() const {
  std::vector<double> out;
  for (std::int64_t c = 0; c < classes_; ++c) {
    std::int64_t row = 0, column = 0;
    for (std::int64_t k = 0; k < classes_; ++k) {
      row += counts_[static_cast<std::size_t>(c * classes_ + k)];
      column += counts_[static_cast<std::size_t>(k * classes_ + c)];
    }
    const std::int64_t both = counts_[static_cast<std::size_t>(c * classes_ + c)], either = row + column - both;
    out.push_back(either == 0 ? std::numeric_limits<double>::quiet_NaN() : double(both) / double(either));
  }
  return out;
}

double ConfusionMatrix::mean_iou() const {
  double sum = 0;
  std::int64_t present = 0;
  for (const double one : iou())
    if (!std::isnan(one)) sum += one, ++present;
  return sum / double(present);
}

double ConfusionMatrix::pixel_accuracy() const {
  std::int64_t right = 0;
  for (std::int64_t c = 0; c < classes_; ++c) right += counts_[static_cast<std::size_t>(c * classes_ + c)];
  return double(right) / double(total());
}

}  // namespace normlab
