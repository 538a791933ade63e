// Several estimates that share the noise of one baseline: the distribution of the largest, for simultaneous intervals.
// Dunnett, "A multiple comparison procedure for comparing several treatments with a control", JASA 50 (1955).
#pragma once

#include <cstddef>
#include <vector>

namespace normlab {

/// k standard normal variables X_i = load_i U + sqrt(1 - load_i^2) Z_i; U and Z_i independent and standard normal. X_i
/// and X_j have the correlation load_i load_j. 0 <= load < 1.
struct SharedNoise {
  struct Row {
    double load = 0;
    std::size_t count = 1;  // so many variables have this load
  };
  std::vector<Row> rows{};

  std::size_t size() const;  // k
  /// k variables with one load: sqrt(1/2) where each row and the baseline have equally many runs.
  static SharedNoise common(std::size_t k, double load);
};

/// The loads whose products come nearest, in squares, to the correlations off the diagonal (k x k, none negative): Hsu,
/// "The factor analytic approach to simultaneous inference in the general linear model", Journal of Computational and
/// Graphical Statistics 1 (1992). Exact for two variables and wherever correlations are such products. `counts`: how
/// many variables each line of the matrix stands for; its diagonal is the correlation among these.
SharedNoise nearest_shared_noise(const std::vector<std::vector<double>>& correlations,
                                 const std::vector<std::size_t>& counts);

/// P(max |X_i| / S <= critical) for each of `criticals`, S^2 an independent chi-square over its `freedom` degrees. By
/// quadrature, error below 1e-10. 1 for k = 0.
std::vector<double> joint_t_probabilities(const SharedNoise& noise, double freedom,
                                          const std::vector<double>& criticals);

/// The critical value at which that is `level` in (0, 1), k > 0. Kept by its arguments: asked again, it costs a
/// look-up. Any thread may ask.
double joint_t_critical(const SharedNoise& noise, double freedom, double level);

/// A group of rows with one baseline: gains have no true mean and these standard errors, in the order of noise.rows.
struct ChanceGroup {
  SharedNoise noise{};
  std::vector<double> standard_errors{};
};

/// Expected value of the largest gain of all groups; between groups there is nothing in common. By quadrature, error
/// below 1e-8 of the largest standard error. 0 for one row or none.
double expected_best(const std::vector<ChanceGroup>& groups);

}  // namespace normlab
