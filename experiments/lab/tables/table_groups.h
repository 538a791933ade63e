// Means over the benchmarks of a sweep, as rows of its table.
#pragma once

#include <string>
#include <vector>

#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/tables/table_model.h"

namespace normlab {

/// Appends to the rows, for each group, the mean over its benchmarks: a row for each combination of the other axes. A
/// seed's value is the mean over the benchmarks, so that intervals and gains are those of any row: over training
/// randomness, paired by seed. A seed for which a benchmark has no value has none, and a remark names the benchmarks
/// that lack a row or a value.
void add_benchmark_means(TableInput& input, const std::vector<BenchmarkGroup>& groups, const TableOptions& options);

}  // namespace normlab
