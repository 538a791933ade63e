// The best of several rows that truly do not differ.
#pragma once

#include <vector>

namespace normlab {

/// Expected value of the largest gain if all true gains are 0. Each group holds the standard errors > 0 of rows that
/// share a baseline, whose gains correlate by 1/2; the groups are independent of each other. By quadrature, with an
/// error below 1e-8 of the largest standard error. 0 for one row or none.
double expected_best(const std::vector<std::vector<double>>& groups);

}  // namespace normlab
