// Distribution functions in double precision. If a probability near 1 would lose its digits, its complement is also
// provided. tests/reference/statistics_twin.py compares them with SciPy.
#pragma once

#include <vector>

namespace normlab {

/// log |Gamma(x)|. Thread-safe, unlike std::lgamma.
double log_gamma(double x);

/// I_x(a, b) for a, b > 0 and 0 <= x <= 1. y = 1 - x is a separate argument, since near x = 1 the difference
/// loses digits.
double regularised_beta(double a, double b, double x, double y);

/// The x with I_x(a, b) = probability, 0 <= probability <= 1.
double inverse_regularised_beta(double probability, double a, double b);

/// P(a, x), the lower incomplete gamma function over Gamma(a), for a > 0 and x >= 0, and its complement Q(a, x).
double regularised_gamma(double a, double x);
double regularised_gamma_upper(double a, double x);

/// P(X <= x) for chi-square with `freedom` > 0 degrees, and its inverse for a probability in (0, 1).
double chi_square_cdf(double x, double freedom);
double chi_square_quantile(double probability, double freedom);

/// Points and weights (density included, sum 1) for integrals over S, where S^2 is chi-square over its `freedom` > 0
/// degrees. For integrands that are smooth functions of log S on the scale `width`.
struct SpreadNodes {
  std::vector<double> s, weight;
};
SpreadNodes spread_nodes(double freedom, double width);

}  // namespace normlab
