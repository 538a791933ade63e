#include "experiments/lab/metrics/zca.h"

#include <algorithm>
#include <cmath>

#include "core/cpu/blas.h"
#include "core/error.h"

namespace normlab {
namespace {

/// a b, all [n, n].
std::vector<double> product(const std::vector<double>& a, const std::vector<double>& b, std::size_t n) {
  std::vector<double> c(n * n);
  const auto size = static_cast<std::int64_t>(n);
  gemm(false, false, size, size, size, 1.0, a.data(), size, b.data(), size, 0.0, c.data(), size);
  return c;
}

}  // namespace

void Moments::add(const std::vector<double>& rows) {
  const auto n = static_cast<std::int64_t>(rows.size() / width_), width = static_cast<std::int64_t>(width_);
  for (std::size_t i = 0; i < rows.size(); ++i) sums_[i % width_] += rows[i];
  gemm(true, false, width, width, n, 1.0, rows.data(), width, rows.data(), width, 1.0, products_.data(), width);
  count_ += double(n);
}

std::vector<double> Moments::mean() const {
  std::vector<double> out = sums_;
  for (double& value : out) value /= count_;
  return out;
}

std::vector<double> Moments::covariance() const {
  const std::vector<double> m = mean();
  std::vector<double> out(products_.size());
  for (std::size_t i = 0; i < width_; ++i)
    for (std::size_t k = 0; k < width_; ++k) out[i * width_ + k] = products_[i * width_ + k] / count_ - m[i] * m[k];
  return out;
}

std::vector<double> zca(std::vector<double> c, std::size_t width, double eps) {
  double norm = 0;
  for (std::size_t i = 0; i < width; ++i) c[i * width + i] += eps;
  for (const double value : c) norm += value * value;
  norm = std::sqrt(norm);
  if (!std::isfinite(norm)) throw InputError("whiten: the covariance of the patches is not finite");
  // Coupled Newton iteration: y approaches (C / |C|)^(1/2), and z its inverse (Higham 2008, "Functions of Matrices",
  // section 6.7).
  std::vector<double> y(c), z(width * width);
  for (double& value : y) value /= norm;
  for (std::size_t i = 0; i < width; ++i) z[i * width + i] = 1;
  constexpr int kMostSteps = 100;
  for (int step = 0; step < kMostSteps; ++step) {
    std::vector<double> t = product(z, y, width);
    double off = 0;
    for (std::size_t i = 0; i < t.size(); ++i) {
      const double one = i / width == i % width ? 1 : 0;
      off = std::max(off, std::abs(t[i] - one));
      t[i] = (3 * one - t[i]) / 2;
    }
    if (off < 1e-9) {
      for (double& value : z) value /= std::sqrt(norm);
      return z;
    }
    y = product(y, t, width);
    z = product(t, z, width);
  }
  throw InputError(concat("whiten: eps ", eps, " is too small: the pixels of these patches are nearly dependent"));
}

}  // namespace normlab
