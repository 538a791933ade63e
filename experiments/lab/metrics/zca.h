// Whitening: the linear map after which the columns of a sample are uncorrelated and have variance 1.
#pragma once

#include <cstddef>
#include <vector>

namespace normlab {

/// Mean and covariance of rows that arrive in portions.
class Moments {
 public:
  explicit Moments(std::size_t width) : width_(width), sums_(width), products_(width * width) {}
  /// rows [n, width]
  void add(const std::vector<double>& rows);
  std::vector<double> mean() const;
  /// [width, width], divided by the number of rows.
  std::vector<double> covariance() const;

 private:
  std::size_t width_;
  double count_ = 0;
  std::vector<double> sums_, products_;
};

/// (C + eps I)^(-1/2), symmetric, for the covariance C [width, width] (ZCA: Bell and Sejnowski 1997, "The 'independent
/// components' of natural scenes are edge filters"). Throws InputError if C is not finite, or if eps is too small.
std::vector<double> zca(std::vector<double> covariance, std::size_t width, double eps);

}  // namespace normlab
