// Distributions in double precision, by Boost.Math. tests/reference/statistics_twin.py compares them with SciPy.
#pragma once

#include <functional>

namespace normlab {

/// The x with I_x(a, b) = probability, from 0 to 1, where I is the regularised incomplete beta function and a, b > 0.
double inverse_regularised_beta(double probability, double a, double b);

/// P(X <= k) for X binomial (n, 1/2).
double fair_binomial_cdf(double k, double n);

/// A sd estimated with `freedom` > 0 degrees lies, for normal values, with probability `level` between sd * low and
/// sd * high (equal tails of the chi-square distribution). Everything proportional to the sd has the same range.
struct SdRange {
  double low = 1, high = 1;
};
SdRange sd_range(double freedom, double level = 0.95);

/// P(F >= ratio) for F with these degrees of freedom > 0.
double f_tail(double ratio, double above, double below);

/// P(T >= t), where T has `freedom` > 0 degrees of freedom; accurate also if it is small.
double student_t_tail(double t, double freedom);

/// P(|T| >= |t|), and the t with P(|T| > t) = probability in (0, 1).
inline double student_t_two_sided(double t, double freedom) { return 2 * student_t_tail(t < 0 ? -t : t, freedom); }
double student_t_two_sided_quantile(double probability, double freedom);

/// Probability that |T| exceeds `critical`, where T is noncentral t with `freedom` > 0 degrees and noncentrality `shift`
/// (true gain over standard error).
double t_test_power(double shift, double freedom, double critical);

/// The shift > 0 at which that probability is `power` in (0, 1); 0 if it is larger even without a gain. The smallest gain
/// that such a test detects with this power is the shift times the standard error.
double smallest_shift(double freedom, double critical, double power = 0.8);

/// log Gamma at x > 0, and its first two derivatives.
double log_gamma(double x);
double digamma(double x);
double trigamma(double x);

/// A zero of the continuous `f` between `low` and `high`, where its signs differ or one is 0.
double zero_between(const std::function<double(double)>& f, double low, double high);

}  // namespace normlab
