// Variances that borrow from each other. Smyth, "Linear models and empirical Bayes methods for assessing differential
// expression in microarray experiments", Statistical Applications in Genetics and Molecular Biology 3 (2004).
#pragma once

#include <span>
#include <vector>

namespace normlab {

/// A variance with the degrees of freedom of its estimate. In the squared unit of the values.
struct Variance {
  double value = 0, freedom = 0;
};

/// The distribution from which the true variances of several rows are drawn: value * freedom / chi-square(freedom),
/// estimated from the mean and spread of log variances (Smyth's method; limma's fitFDist). Infinite freedom: the
/// variances spread no more than chance makes them, and `value` is their mean. Freedom 0 for fewer than two. All
/// variances and freedoms > 0.
Variance prior_variance(std::span<const Variance> rows);

/// The row's variance, drawn towards the prior's as far as degrees of freedom weigh: (d0 s0^2 + d v) / (d0 + d) on
/// d0 + d degrees. With few rows d0 is uncertain, so a row borrows the smallest of half of the prior's degrees, four
/// times its own, and half of what the `rows` - 1 others have. A row with a variance that so many degrees exceed in
/// fewer than one of ten cases borrows proportionally less, in the spirit of Phipson et al., Annals of Applied
/// Statistics 10 (2016). `normlab bench intervals` simulates what follows from these numbers.
Variance moderated(const Variance& row, const Variance& prior, std::size_t rows);

}  // namespace normlab
