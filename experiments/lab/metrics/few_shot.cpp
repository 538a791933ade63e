#include "experiments/lab/metrics/few_shot.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/cpu/blas.h"

namespace normlab {
namespace {

constexpr double kConstantFeature = 100, kDeviationEps = 1e-5;

/// Replaces b [n, columns] by the solution x of a x = b; `a` [n, n] is symmetric and positive definite, and is
/// overwritten (Cholesky).
void solve_in_place(std::vector<double>& a, std::size_t n, std::vector<double>& b, std::size_t columns) {
  for (std::size_t j = 0; j < n; ++j) {
    double* const row_j = &a[j * n];
    for (std::size_t k = 0; k < j; ++k) row_j[j] -= row_j[k] * row_j[k];
    row_j[j] = std::sqrt(row_j[j]);
    for (std::size_t i = j + 1; i < n; ++i) {
      double* const row_i = &a[i * n];
      double sum = row_i[j];
      for (std::size_t k = 0; k < j; ++k) sum -= row_i[k] * row_j[k];
      row_i[j] = sum / row_j[j];
    }
  }
  const auto row = [&](std::size_t i) { return b.data() + i * columns; };
  const auto subtract = [&](std::size_t i, double factor, std::size_t k) {
    for (std::size_t c = 0; c < columns; ++c) row(i)[c] -= factor * row(k)[c];
  };
  const auto divide = [&](std::size_t i) {
    for (std::size_t c = 0; c < columns; ++c) row(i)[c] /= a[i * n + i];
  };
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) subtract(i, a[i * n + k], k);
    divide(i);
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) subtract(i, a[k * n + i], k);
    divide(i);
  }
}

/// op(A) op(B), [m, n], of matrices stored without gaps; k is the summed dimension.
std::vector<double> product(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k,
                            const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> c(m * n);
  const auto size = [](std::size_t value) { return static_cast<std::int64_t>(value); };
  gemm(transpose_a, transpose_b, size(m), size(n), size(k), 1.0, a.data(), size(transpose_a ? m : k), b.data(),
       size(transpose_b ? k : n), 0.0, c.data(), size(n));
  return c;
}

}  // namespace

std::vector<std::size_t> few_shot_choice(std::span<const std::int32_t> labels, std::int64_t classes, std::uint64_t seed,
                                         std::int64_t shots) {
  std::vector<std::vector<std::size_t>> of_class(static_cast<std::size_t>(classes));
  for (std::size_t i = 0; i < labels.size(); ++i) of_class[static_cast<std::size_t>(labels[i])].push_back(i);
  NumpyRandom random(seed);
  std::vector<std::size_t> chosen;
  for (std::vector<std::size_t>& images : of_class) {
    random.shuffle(images);
    images.resize(std::min(images.size(), static_cast<std::size_t>(shots)));
    chosen.insert(chosen.end(), images.begin(), images.end());
  }
  return chosen;
}

FewShotClassifier::FewShotClassifier(const Features& train, std::span<const std::int32_t> labels, std::int64_t classes,
                                     double l2)
    : width_(train.width), classes_(static_cast<std::size_t>(classes)), mean_(width_), deviation_(width_) {
  const std::size_t n = train.rows(), wide = width_ + 1;
  for (std::size_t f = 0; f < width_; ++f) {
    for (std::size_t i = 0; i < n; ++i) mean_[f] += train.values[i * width_ + f] / double(n);
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) squares += std::pow(train.values[i * width_ + f] - mean_[f], 2);
    deviation_[f] = std::sqrt(squares / double(n)) + kDeviationEps;
  }
  const std::vector<double> x = standardised(train);
  std::vector<double> y(n * classes_, -1.0);
  for (std::size_t i = 0; i < n; ++i) y[i * classes_ + static_cast<std::size_t>(labels[i])] = 1.0;
  const auto add_ridge = [l2](std::vector<double>& a, std::size_t side) {
    for (std::size_t i = 0; i < side; ++i) a[i * side + i] += l2;
  };
  // The same solution by the smaller system.
  if (n >= wide) {
    std::vector<double> a = product(true, false, wide, wide, n, x, x);
    add_ridge(a, wide);
    weights_ = product(true, false, wide, classes_, n, x, y);
    solve_in_place(a, wide, weights_, classes_);
  } else {
    std::vector<double> a = product(false, true, n, n, wide, x, x);
    add_ridge(a, n);
    solve_in_place(a, n, y, classes_);
    weights_ = product(true, false, wide, classes_, n, x, y);
  }
}

std::vector<double> FewShotClassifier::standardised(const Features& features) const {
  std::vector<double> x;
  x.reserve(features.rows() * (width_ + 1));
  for (std::size_t i = 0; i < features.rows(); ++i) {
    for (std::size_t f = 0; f < width_; ++f) x.push_back((features.row(i)[f] - mean_[f]) / deviation_[f]);
    x.push_back(kConstantFeature);
  }
  return x;
}

std::vector<double> FewShotClassifier::scores(const Features& test) const {
  return product(false, false, test.rows(), classes_, width_ + 1, standardised(test), weights_);
}

std::vector<std::int32_t> FewShotClassifier::predictions(const Features& test) const {
  const std::vector<double> all = scores(test);
  std::vector<std::int32_t> best;
  for (std::size_t i = 0; i < test.rows(); ++i) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * classes_);
    best.push_back(
        static_cast<std::int32_t>(std::max_element(first, first + static_cast<std::ptrdiff_t>(classes_)) - first));
  }
  return best;
}

std::array<std::uint32_t, 8> numpy_seed_words(std::uint64_t seed) {
  constexpr std::uint32_t kHash = 0x931E8875, kHashOut = 0x58F38DED, kMixLeft = 0xCA01F9DD, kMixRight = 0x4973F715;
  std::uint32_t constant = 0x43B0D7E5;
  const auto hashed = [&](std::uint32_t value, std::uint32_t multiplier) {
    value ^= constant;
    constant *= multiplier;
    value *= constant;
    return value ^ value >> 16;
  };
  const std::uint32_t entropy[] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), 0, 0};
  std::array<std::uint32_t, 4> pool{};
  for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = hashed(entropy[i], kHash);
  for (std::size_t source = 0; source < pool.size(); ++source)
    for (std::size_t target = 0; target < pool.size(); ++target) {
      if (source == target) continue;
      const std::uint32_t mixed = kMixLeft * pool[target] - kMixRight * hashed(pool[source], kHash);
      pool[target] = mixed ^ mixed >> 16;
    }
  constant = 0x8B51F9DD;
  std::array<std::uint32_t, 8> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = hashed(pool[i % pool.size()], kHashOut);
  return words;
}

NumpyRandom::NumpyRandom(std::uint64_t seed) {
  const auto words = numpy_seed_words(seed);
  const auto wide = [&](std::size_t first) {
    const auto number = [&](std::size_t i) { return std::uint64_t(words[i]) | std::uint64_t(words[i + 1]) << 32; };
    return Wide(number(first)) << 64 | number(first + 2);
  };
  increment_ = wide(4) << 1 | 1;
  step();
  state_ += wide(0);
  step();
}

void NumpyRandom::step() {
  constexpr Wide kMultiplier = Wide(2549297995355413924U) << 64 | 4865540595714422341U;
  state_ = state_ * kMultiplier + increment_;
}

std::uint64_t NumpyRandom::next64() {
  step();
  return std::rotr(static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_),
                   static_cast<int>(state_ >> 122));
}

std::uint32_t NumpyRandom::next32() {
  if (has_upper_half_) {
    has_upper_half_ = false;
    return upper_half_;
  }
  const std::uint64_t number = next64();
  upper_half_ = static_cast<std::uint32_t>(number >> 32);
  has_upper_half_ = true;
  return static_cast<std::uint32_t>(number);
}

std::uint32_t NumpyRandom::at_most(std::uint32_t most) {
  if (most == 0) return 0;
  const std::uint32_t mask = ~std::uint32_t{0} >> std::countl_zero(most);
  while (true)
    if (const std::uint32_t number = next32() & mask; number <= most) return number;
}

}  // namespace normlab
