#include "experiments/statistics/holm.h"

#include <algorithm>
#include <numeric>

namespace normlab {

std::vector<double> holm_adjusted(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] < p[b]; });
  std::vector<double> adjusted(p.size());
  double worst = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    worst = std::max(worst, std::min(1.0, double(p.size() - rank) * p[order[rank]]));
    adjusted[order[rank]] = worst;
  }
  return adjusted;
}

}  // namespace normlab
