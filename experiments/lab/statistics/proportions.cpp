#include "experiments/lab/statistics/proportions.h"

#include <algorithm>

#include "core/error.h"
#include "experiments/lab/statistics/distributions.h"

namespace normlab {

Bounds clopper_pearson(std::int64_t hits, std::int64_t n, double level) {
  const double tail = (1 - level) / 2, k = double(hits), misses = double(n - hits);
  // The upper bound is one minus the lower bound of the misses, which is accurate near 1.
  return {.low = hits == 0 ? 0 : inverse_regularised_beta(tail, k, misses + 1),
          .high = hits == n ? 1 : 1 - inverse_regularised_beta(tail, misses, k + 1)};
}

double mcnemar_p(std::int64_t only_first, std::int64_t only_second) {
  const std::int64_t n = only_first + only_second, k = std::min(only_first, only_second);
  if (n == 0) return 1;
  return std::min(1.0, 2 * fair_binomial_cdf(double(k), double(n)));
}

McNemar mcnemar(const Correctness& first, const Correctness& second) {
  if (first.images() != second.images() || first.data_hash() != second.data_hash())
    throw InputError(concat("the two runs were evaluated on different images: ", first.images(), " (",
                            first.data_hash(), ") and ", second.images(), " (", second.data_hash(),
                            "); expected the same"));
  McNemar result;
  result.images = first.images();
  for (std::int64_t i = 0; i < first.images(); ++i)
    ++(first[i] ? (second[i] ? result.both : result.only_first) : (second[i] ? result.only_second : result.neither));
  result.p = mcnemar_p(result.only_first, result.only_second);
  return result;
}

}  // namespace normlab
