// Several estimates that share parts of their noise: the distribution of the largest, for simultaneous intervals.
// Dunnett, JASA 50 (1955), where all share one baseline; the same with a factor for each group of seeds where the seeds
// that rows have differ.
#pragma once

#include <cstddef>
#include <vector>

namespace normlab {

/// k standard normal variables X_i = sum_f loads[i][f] U_f + sqrt(1 - sum_f loads[i][f]^2) Z_i; U and Z independent and
/// standard normal. Every row has the same number of loads, their squares sum to less than 1.
struct SharedNoise {
  struct Row {
    std::vector<double> loads{};
    std::size_t count = 1;  // so many variables have these loads
    bool operator==(const Row& other) const = default;
  };
  std::vector<Row> rows{};

  std::size_t size() const;  // k
  /// k variables whose correlation is load^2 each with each: load = sqrt(1/2) for equal numbers of runs.
  static SharedNoise common(std::size_t k, double load);
};

/// P(max |X_i| / S <= critical), S^2 an independent chi-square over its `freedom` degrees. One factor: quadrature,
/// error below 1e-9. More: a fixed lattice, error about 1e-4. 1 for k = 0.
double joint_t_probability(const SharedNoise& noise, double freedom, double critical);

/// The same for many critical values at once, in their order.
std::vector<double> joint_t_probabilities(const SharedNoise& noise, double freedom,
                                          const std::vector<double>& criticals);

/// The critical value at which that is `level` in (0, 1). Kept by its arguments: asked again, it costs a look-up. Any
/// thread may ask.
double joint_t_critical(const SharedNoise& noise, double freedom, double level);

/// A group of rows with one baseline: gains have no true mean and these standard errors, in the order of noise.rows.
struct ChanceGroup {
  SharedNoise noise{};
  std::vector<double> standard_errors{};
};

/// Expected value of the largest gain of all groups; between groups there is nothing in common. Error below 1e-6 of the
/// largest standard error with one factor, 1e-3 with more. 0 for one row or none.
double expected_best(const std::vector<ChanceGroup>& groups);

}  // namespace normlab
