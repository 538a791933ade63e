#include "experiments/lab/pictures/figures.h"

#include <fmt/core.h>

#include <algorithm>

#include "experiments/lab/pictures/figure_series.h"
#include "experiments/lab/pictures/probe_figures.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

std::vector<Chart> draw_curves(const FigureInput& input) {
  Chart chart = chart_of("curves", "Loss and accuracy by step",
                         concat("Losses on the left axis, accuracies on the right.", kMeanOfSeeds), "step");
  struct Curve {
    const char *metric, *label;
    bool right;
  };
  std::map<std::size_t, ChartPanel> panels;
  std::size_t style = 0;
  for (const Curve& curve :
       {Curve{"train/loss", "training loss", false}, Curve{"eval/loss", "evaluation loss", false},
        Curve{"train/accuracy", "training accuracy", true}, Curve{"eval/accuracy", "evaluation accuracy", true}}) {
    std::map<std::string, ChartSeries> of_row;
    for (ChartSeries& series : by_step(input, curve.metric)) of_row[series.label] = std::move(series);
    for (const std::size_t row : shown_rows(input)) {
      const auto found = of_row.find(label_of(input, row));
      if (found == of_row.end()) continue;
      ChartPanel& panel = panels[row];
      panel.heading = found->first;
      panel.values_name = "loss";
      if (curve.right) panel.right_name = "accuracy";
      ChartSeries series = found->second;
      series.label = curve.label;
      series.style = style;
      series.right = curve.right;
      panel.series.push_back(std::move(series));
    }
    ++style;
  }
  for (const std::size_t row : shown_rows(input))
    if (panels.contains(row)) chart.panels.push_back(std::move(panels[row]));
  return finished(std::move(chart), ChartScale::linear);
}

std::vector<Chart> draw_without_block(const FigureInput& input) {
  Chart chart = chart_of("without_block", "Loss of the trained network without one block",
                         concat("Evaluation loss of the trained network when one block passes its input on unchanged; "
                                "\"all\": with all blocks.",
                                kMeanOfSeeds),
                         "block left out");
  std::vector<std::string> blocks = layers_of(input, {"without_block.loss/"}, [](const std::string&) { return true; });
  std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) { return std::stoll(a) < std::stoll(b); });
  if (blocks.empty()) return {};
  std::vector<ChartSeries> series = by_layer(
      input, blocks, [](std::size_t) { return "without_block.loss/"; }, last_of("without_block.", 1));
  for (ChartSeries& row : series) {
    for (BandPoint& point : row.points) point.at += 1;
    BandPoint all;
    for (const FigureTrial& trial : input.trials)
      if (label_of(input, trial.row) == row.label)
        if (const auto loss = mean_of(last_of("eval/loss", 1)(trial), "eval/loss")) all.add(*loss);
    if (all.n > 0) row.points.insert(row.points.begin(), all);
  }
  chart.categories = blocks;
  chart.categories.insert(chart.categories.begin(), "all");
  add_panels(chart, "Evaluation loss", "loss", std::move(series));
  return finished(std::move(chart), ChartScale::linear);
}

constexpr FigureRow kFigures[] = {
    {"xspp", "AFSM, AFV and AFVR by residual branch", ProbeKind::signal, draw_xspp},
    {"gradients", "gradient norm by depth", ProbeKind::gradients, draw_gradients},
    {"embedding", "gradient norm of the patch embedding by step", ProbeKind::gradients, draw_embedding},
    {"stem_scale", "gain and bias of stem.patch_in as pictures", ProbeKind::stem_scale, draw_stem_scale},
    {"mapping", "output of norms against their input", ProbeKind::mapping, draw_mapping},
    {"attention", "entropy and largest logit by layer", ProbeKind::attention, draw_attention},
    {"activations", "moments and histograms of the norms' inputs", ProbeKind::activations, draw_activations},
    {"updates", "norm of the update over that of the weights", ProbeKind::updates, draw_updates},
    {"lr_sensitivity", "final loss by learning rate", std::nullopt, nullptr},
    {"strip", "gains over the baseline", std::nullopt, nullptr},
    {"curves", "losses and accuracies by step", std::nullopt, draw_curves},
    {"without_block", "loss without each block", std::nullopt, draw_without_block},
};

}  // namespace

std::span<const FigureRow> figure_rows() { return kFigures; }

FigureInput read_figures(const Experiment& experiment, const ResultStore& store, const TableModel& table) {
  FigureInput input{experiment, table, {}, {}};
  for (std::size_t r = 0; r < experiment.rows.size(); ++r)
    for (const std::size_t t : experiment.rows[r].trials) {
      const Trial& trial = experiment.trials[t];
      try {
        const TrialFolder folder = store.trial(trial.id);
        const TrialStatus status = folder.status();
        const bool curves = !status.result || has_curve(folder, *status.result);
        input.trials.push_back(
            {r, trial.config.seed, status.state, curves ? trial_metrics(folder, status) : std::vector<MetricsLine>()});
      } catch (const Error& error) {
        input.problems.push_back({trial.label, error.what(), error.code()});
      }
    }
  return input;
}

std::string missing_words(const FigureRow& figure, const FigureInput& input) {
  if (std::all_of(input.trials.begin(), input.trials.end(), [](const FigureTrial& t) { return t.lines.empty(); }))
    return "no trial has written metrics; run the experiment, or give an archive of `normlab export --full`";
  if (figure.word == "without_block")
    return "no trial has evaluated it; set \"probes\": {\"without_block\": true} and run again, which costs one "
           "evaluation per block at the end of each training";
  if (figure.word == "lr_sensitivity") return "the descriptor does not sweep over train.optimizer.lr";
  if (!figure.probe) return "no trial has the numbers";
  const ProbeRow& probe = row_of(*figure.probe);
  const std::string cost = probe.cost > 1 ? fmt::format("about {:.0f}%", 100 * (probe.cost - 1)) : "no measurable time";
  return fmt::format(
      "no trial has been measured by the probe \"{}\" ({}); set \"probes\": {{\"{}\": 100}} and run again; it adds {} "
      "to "
      "each measured step",
      probe.word, probe.doc, probe.word, cost);
}

std::vector<Chart> measured_charts(const FigureInput& input) {
  std::vector<Chart> charts;
  for (const FigureRow& figure : kFigures)
    if (figure.draw && figure.draw != draw_curves)
      for (Chart& chart : figure.draw(input)) charts.push_back(std::move(chart));
  return charts;
}

Chart rates_chart(const TableModel& table) {
  Chart chart = chart_of("lr_sensitivity", "Final training loss by learning rate",
                         concat("At most the loss of the first step, which a diverged seed counts with; a cross marks "
                                "it.",
                                kMeanOfSeeds),
                         "learning rate");
  std::vector<ChartSeries> series;
  for (const TableLine& line : table.lines) {
    if (line.rates.size() < 2) continue;
    ChartSeries& row = series.emplace_back(ChartSeries{line.label, {}});
    for (const TableRate& rate : line.rates) {
      if (rate.runs.empty()) continue;
      BandPoint& point = row.points.emplace_back();
      point.at = rate.rate;
      for (const TableRate::Run& run : rate.runs) {
        point.add(run.loss);
        if (run.diverged)
          row.crosses.push_back({rate.rate, run.loss, fmt::format("seed {}: diverged at {}", run.seed, rate.rate)});
      }
    }
  }
  add_panels(chart, "Training loss at the end", "loss", std::move(series));
  set_chart_axes(chart, ChartScale::logarithmic, ChartScale::linear);
  return chart;
}

Chart strip_chart(const TableModel& table) {
  const bool gains = std::any_of(table.lines.begin(), table.lines.end(), [](const auto& l) { return !!l.baseline; });
  Chart chart =
      chart_of("strip", (gains ? "Gains over the baseline in " : "Values of ") + table.metric,
               "Values of the table: gain of each row, or its mean without a baseline, with the interval.", "quantity");
  ChartPanel& panel = chart.panels.emplace_back();
  panel.heading = table.metric;
  for (const TableLine& line : table.lines) {
    const std::optional<double> value = line.baseline ? line.gain.value : line.mean.value;
    if (!value) continue;
    const double width = line.half_width.value.value_or(0),
                 low = line.baseline ? line.gain_low.value.value_or(*value) : *value - width,
                 high = line.baseline ? line.gain_high.value.value_or(*value) : *value + width;
    panel.series.push_back({line.label, {{double(chart.categories.size()), *value, low, high, line.n}}});
    chart.categories.push_back(line.baseline ? "gain" : "mean");
  }
  return chart;
}

}  // namespace normlab
