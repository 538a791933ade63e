#include "experiments/lab/statistics/rank_correlation.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace normlab {
namespace {

/// The rank of each value, less the mean rank.
std::vector<double> centred_ranks(std::span<const double> values) {
  std::vector<double> ranks;
  for (const double value : values) {
    const auto below = std::count_if(values.begin(), values.end(), [&](double other) { return other < value; });
    const auto equal = std::count(values.begin(), values.end(), value);
    ranks.push_back(double(below) + (double(equal) - double(values.size())) / 2);
  }
  return ranks;
}

}  // namespace

double spearman(std::span<const double> x, std::span<const double> y) {
  const std::vector<double> a = centred_ranks(x), b = centred_ranks(y);
  double products = 0, squares_a = 0, squares_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    products += a[i] * b[i];
    squares_a += a[i] * a[i];
    squares_b += b[i] * b[i];
  }
  return products / std::sqrt(squares_a * squares_b);
}

}  // namespace normlab
