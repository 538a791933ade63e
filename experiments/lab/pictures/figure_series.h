// Parts of figures: which measurements of the trials a line or panel shows.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/pictures/figures.h"

namespace normlab {

using Lines = std::vector<const MetricsLine*>;
/// Which measurements of a trial a panel shows; their mean is taken.
using Pick = std::function<Lines(const TrialCurves&)>;

/// The measurements with values whose names begin so, in order.
Lines measured(const TrialCurves& trial, std::string_view prefix);
/// The last `count` of them.
Pick last_of(std::string_view prefix, std::size_t count);
/// The start, up to three later steps that most trials measured, and the last measurements before a divergence.
struct Moment {
  std::string words;
  Pick pick;
};
std::vector<Moment> moments(const FigureInput& input, const std::string& prefix);

/// The plan's rows that the table shows, in its order, and a row's label and settings.
std::vector<std::size_t> shown_rows(const FigureInput& input);
std::string label_of(const FigureInput& input, std::size_t row);
/// A row's series without points.
ChartSeries series_of(const FigureInput& input, std::size_t row);
const TrialConfig& config_of(const FigureInput& input, std::size_t row);

/// The layers that the measurements name after any of these prefixes, in the order in which data passes them.
std::vector<std::string> layers_of(const FigureInput& input, const std::vector<std::string>& prefixes,
                                   const std::function<bool(const std::string&)>& wanted = nullptr);
/// "blocks.3.attn" is "3 attn", "stages.1.blocks.3.attn" is "1.3 attn", "patch_embed" is "embed".
std::vector<std::string> short_names(const std::vector<std::string>& layers);
std::string short_name(std::string layer);
/// At most `most` of the values, evenly spread, with the first and the last.
template <class T>
std::vector<T> spread(const std::vector<T>& values, std::size_t most) {
  if (values.size() <= most) return values;
  std::vector<T> out;
  for (std::size_t i = 0; i < most; ++i) out.push_back(values[i * (values.size() - 1) / (most - 1)]);
  return out;
}

/// Mean of a metric over the picked measurements of a trial.
std::optional<double> mean_of(const Lines& lines, const std::string& metric);
/// A series of each row by layer: the mean over its seeds of what `pick` selects. `prefix_of` may depend on the row.
std::vector<ChartSeries> by_layer(const FigureInput& input, const std::vector<std::string>& layers,
                                  const std::function<std::string(std::size_t)>& prefix_of, const Pick& pick);
/// A series of each row by step.
std::vector<ChartSeries> by_step(const FigureInput& input, const std::string& metric);
/// The last measurement of a row's first seed that has a list of that name; null if there is none.
const MetricsLine* with_list(const FigureInput& input, std::size_t row, const std::string& name);

/// "Left out, without any metrics: a; b": the rows of the table that no chart shows; "" for none.
std::string left_out_words(const std::vector<Chart>& charts, const FigureInput& input);
/// `before`, and the chart with its axes set if it has panels.
std::vector<Chart> finished(Chart chart, ChartScale values, std::vector<Chart> before = {});
/// Adds the series to panels of at most kChartStyles lines, and keeps the rows of a strip together if they fit. The
/// panels of a larger strip all show its baseline. Without a heading they are called by values_name.
void add_panels(Chart& chart, const std::string& heading, const std::string& values_name,
                std::vector<ChartSeries> series, bool drawn = true);
/// by_layer() as panels, of a metric that has the same name in all rows.
void add_layers(Chart& chart, const FigureInput& input, const std::vector<std::string>& layers,
                const std::string& heading, const std::string& values_name, const std::string& prefix, const Pick& pick,
                bool drawn = true);

}  // namespace normlab
