#include "experiments/statistics/equivalence.h"

#include <algorithm>

#include "core/error.h"
#include "experiments/statistics/student.h"

namespace normlab {

Equivalence equivalence(double mean, double standard_error, double freedom, double margin, double alpha) {
  if (!(margin > 0)) throw InputError(concat("margin of equivalence: ", margin, "; expected more than 0"));
  const double reach = student_t_two_sided_quantile(2 * alpha, freedom) * standard_error;
  Equivalence result{.mean = mean, .low = mean - reach, .high = mean + reach};
  result.p_above_lower = student_t_cdf(-(mean + margin) / standard_error, freedom);
  result.p_below_upper = student_t_cdf(-(margin - mean) / standard_error, freedom);
  result.p = std::max(result.p_above_lower, result.p_below_upper);
  result.equivalent = -margin < result.low && result.high < margin;
  return result;
}

}  // namespace normlab
