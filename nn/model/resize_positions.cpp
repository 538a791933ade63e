#include "nn/model/resize_positions.h"

#include "core/backend.h"

namespace normlab {

std::string to_string(const PatchGrid& grid) { return concat(grid.height, "x", grid.width); }

ResizedPositions resize_positions(std::span<const float> table, std::int64_t dim, PatchGrid from, PatchGrid to,
                                  std::int64_t prefix, Resampling method) {
  if (dim < 1 || prefix < 0 || from.height < 1 || from.width < 1 || to.height < 1 || to.width < 1)
    throw InputError(concat("positions ", to_string(from), " to ", to_string(to), ", width ", dim, ", ", prefix,
                            " prefix tokens: a grid has no points"));
  if (static_cast<std::int64_t>(table.size()) != (prefix + from.size()) * dim)
    throw InputError(concat("positions: a table of ", table.size(), " values is not ", prefix, " prefix tokens and a ",
                            to_string(from), " grid of width ", dim));
  const std::string prefix_words =
      prefix == 0 ? "" : concat(", ", prefix, " prefix token", prefix > 1 ? "s" : "", " kept");
  if (from == to) return {{table.begin(), table.end()}, concat("positions ", to_string(from), " as they are")};

  const auto head = table.begin() + prefix * dim;
  std::vector<double> image(head, table.end()), resized(static_cast<std::size_t>(to.size() * dim));
  const ResampleDims dims{.batch = 1,
                          .height = from.height,
                          .width = from.width,
                          .channels = dim,
                          .out_height = to.height,
                          .out_width = to.width,
                          .method = method};
  cpu_backend().resample(dims, Tensor(image.data(), {from.size(), dim}, DType::f64),
                         Tensor(resized.data(), {to.size(), dim}, DType::f64));
  ResizedPositions result{
      {table.begin(), head},
      concat("positions ", to_string(from), " -> ", to_string(to), " by ", to_string(method), prefix_words)};
  for (const double value : resized) result.table.push_back(static_cast<float>(value));
  return result;
}

}  // namespace normlab
