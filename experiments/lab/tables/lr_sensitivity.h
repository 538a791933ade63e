// How much the training loss depends on the learning rate: Wortsman et al., "Small-scale proxies for large-scale
// Transformer training instabilities" (2023, arXiv:2309.14322).
#pragma once

#include <optional>
#include <span>

#include "experiments/lab/tables/table_model.h"

namespace normlab {

/// The training loss that a run counts with: that at the end, at most that at the start. No final loss: it diverged.
double counted_loss(std::optional<double> final_loss, double first_loss);

/// The mean of the counted losses of runs that differ in their rate, minus the lowest of them. At least one loss.
double lr_sensitivity(std::span<const double> losses);

/// Whether each factor between neighbours is near the mean factor: its logarithm within a tenth, so that 1, 3, 10, 30
/// are evenly spaced and 1, 2, 5, 10 are not. `rates`: ascending, above 0.
bool evenly_spaced(std::span<const double> rates);

/// The axis of rates.
inline constexpr std::string_view kRateAxis = "train.optimizer.lr";

/// A table without the axis of rates: a row for each combination of the other axes, whose metric is the sensitivity. A
/// seed has a value if it has a result at each rate of its row; rows gain on a baseline with the same rates. TableRow::
/// rates holds the losses, and the best mean of `options.metric`.
///
/// InputError if no row has two rates, if a rate is not above 0, and for results without the losses that it needs.
TableInput lr_sensitivity_input(const TableInput& swept, const TableOptions& options);

/// The options of that table: those given, for its metric.
TableOptions lr_sensitivity_options(TableOptions options);

}  // namespace normlab
