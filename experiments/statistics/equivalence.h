// Two one-sided tests, Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987): is a difference within
// +-margin? Equivalent at level alpha just where the 1 - 2 alpha interval lies inside the margins.
#pragma once

namespace normlab {

struct Equivalence {
  double mean = 0, low = 0, high = 0;           // the 1 - 2 alpha interval, in the unit of the values
  double p_above_lower = 1, p_below_upper = 1;  // p value of "not above -margin", of "not below +margin"
  double p = 1;                                 // the larger of the two
  bool equivalent = false;                      // -margin < low and high < margin
};

/// For an estimate with its standard error > 0 on `freedom` > 0 degrees (that of a Comparison of many_to_one.h, say; it
/// is a statement about this row by itself). margin > 0.
Equivalence equivalence(double mean, double standard_error, double freedom, double margin, double alpha = 0.05);

}  // namespace normlab
