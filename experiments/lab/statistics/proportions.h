// Exact intervals of proportions, and the exact comparison of two runs on the same images.
#pragma once

#include <cstdint>

#include "experiments/lab/metrics/correctness.h"

namespace normlab {

struct Bounds {
  double low = 0, high = 0;
};

/// Interval of hits / n by Clopper and Pearson, Biometrika 26 (1934): covers at least `level`, two-sided.
/// 0 <= hits <= n; {0, 1} for n = 0.
Bounds clopper_pearson(std::int64_t hits, std::int64_t n, double level = 0.95);

/// Exact two-sided p value of McNemar's test, Psychometrika 12 (1947), from the images that only one of two runs
/// classifies correctly: twice the smaller binomial tail at 1/2, at most 1. It compares these two runs, not
/// their settings.
double mcnemar_p(std::int64_t only_first, std::int64_t only_second);

struct McNemar {
  std::int64_t images = 0, both = 0, only_first = 0, only_second = 0, neither = 0;
  double p = 1;
};

/// InputError if the two were evaluated on different data: another number of images or another hash.
McNemar mcnemar(const Correctness& first, const Correctness& second);

}  // namespace normlab
