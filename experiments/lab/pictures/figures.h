// The figures of an experiment: each a chart of what its trials measured, or a reason why it cannot be drawn.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/words.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/pictures/chart.h"
#include "experiments/lab/tables/table_model.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

/// What the colours of mapped points stand for.
enum class MappingColour : std::uint8_t { token, channel };
constexpr auto stated_words(MappingColour) { return words<MappingColour>("token", "channel"); }

struct FigureInput {
  const Experiment& experiment;
  const TableModel& table;                 // its lines, in their order, are the rows that are drawn
  const std::vector<TrialCurves>& trials;  // of read_curves()
  std::size_t last = 10;                   // measurements that `gradients` and `updates` average
  std::vector<std::string> sites{};        // of `mapping`; none: attn.pre of the first, middle and last block
  MappingColour colour = MappingColour::token;
  bool overlay = false;  // `curves`: the rows of a metric in one panel
};

struct FigureRow {
  std::string_view word, doc;
  std::optional<ProbeKind> probe;  // the measurements it draws; none: those of every training
  std::vector<Chart> (*draw)(const FigureInput&);
};
/// In the order of `normlab report --help`. `lr_sensitivity` has no `draw`: see rates_chart().
std::span<const FigureRow> figure_rows();
/// What `draw` draws. If some rows of the table have nothing to draw, the first chart names them.
std::vector<Chart> draw_figure(const FigureRow& figure, const FigureInput& input);

/// Why a figure without numbers has none, and what to do: which probe to set, and what it costs.
std::string missing_words(const FigureRow& figure, const FigureInput& input);

/// The charts of all probes that have measured something, for a report.
std::vector<Chart> measured_charts(const FigureInput& input);

/// Final loss by learning rate, from the table of --lr-sensitivity.
Chart rates_chart(const TableModel& table);

}  // namespace normlab
