// The distribution of the largest of several estimates that share the noise of one baseline, for
// simultaneous intervals. Dunnett, "A multiple comparison procedure for comparing several treatments with a
// control", JASA 50 (1955).
#pragma once

#include <cstddef>
#include <vector>

namespace normlab {

/// k standard normal variables X_i = load_i U + sqrt(1 - load_i^2) Z_i, with U and Z_i independent and standard normal.
/// The correlation of X_i and X_j is load_i load_j. 0 <= load < 1.
struct SharedNoise {
  struct Row {
    double load = 0;
    std::size_t count = 1;  // number of variables with this load
  };
  std::vector<Row> rows{};

  std::size_t size() const;  // k
  /// k variables with one load: sqrt(1/2) if each row has as many runs as the baseline.
  static SharedNoise common(std::size_t k, double load);
};

/// The loads whose products approximate the off-diagonal correlations best in least squares (k x k matrix, none
/// negative). Hsu, "The factor analytic approach to simultaneous inference in the general linear model", Journal
/// of Computational and Graphical Statistics 1 (1992). Exact for two variables and wherever the correlations are
/// such products. `counts`: how many variables each line of the matrix represents; its diagonal is the correlation
/// among these.
SharedNoise nearest_shared_noise(const std::vector<std::vector<double>>& correlations,
                                 const std::vector<std::size_t>& counts);

/// P(max |X_i| / S <= critical) for each of `criticals`, where S^2 is an independent chi-square over its `freedom`
/// degrees. By quadrature, with an error below 1e-10. 1 for k = 0.
std::vector<double> joint_t_probabilities(const SharedNoise& noise, double freedom,
                                          const std::vector<double>& criticals);

/// The critical value at which that probability is `level` in (0, 1), for k > 0. Results are cached. Thread-safe.
double joint_t_critical(const SharedNoise& noise, double freedom, double level);

/// A group of rows with one baseline: the true gains are zero, with these standard errors, in the order of noise.rows.
struct ChanceGroup {
  SharedNoise noise{};
  std::vector<double> standard_errors{};
};

/// Expected value of the largest gain over all groups, which are independent of each other. By quadrature, with an
/// error below 1e-8 of the largest standard error. 0 for one row or none.
double expected_best(const std::vector<ChanceGroup>& groups);

}  // namespace normlab
