#include "experiments/figures/figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "experiments/figures/figure_series.h"
#include "experiments/results/exported.h"
#include "experiments/statistics/saturation.h"
#include "nn/probes.h"
#include "nn/site_probe.h"

namespace normlab {
namespace {

bool is_branch(const std::string& layer) { return layer.ends_with(".attn") || layer.ends_with(".mlp"); }

std::vector<Chart> finished(Chart chart, ChartScale values) {
  if (chart.panels.empty()) return {};
  set_chart_axes(chart, ChartScale::linear, values);
  return {std::move(chart)};
}

constexpr const char* kMeanOfSeeds = " Lines: means over the seeds.";

std::vector<Chart> draw_xspp(const FigureInput& input) {
  Chart chart = chart_of("xspp", "Signal by residual branch",
                         concat("AFSM and AFV: squared mean and variance of the residual stream after each branch; "
                                "AFVR: variance of what the branch adds. Rows whose main norm is batch norm are "
                                "measured per channel, the others per position.",
                                kMeanOfSeeds),
                         "block and branch");
  const std::vector<std::string> layers =
      layers_of(input, {"afsm.position/", "afsm.channel/"}, [](const std::string&) { return true; });
  chart.categories = short_names(layers);
  for (const Moment& moment : moments(input, "afsm."))
    for (const auto& [measure, words] : {std::pair{"afsm", "AFSM"}, {"afv", "AFV"}, {"afvr", "AFVR"}})
      add_panels(chart, fmt::format("{}, {}", words, moment.words), words,
                 by_layer(
                     input, layers,
                     [&, name = measure](std::size_t row) {
                       return fmt::format("{}.{}/", name,
                                          word_of(probe_axis(placement_of(config_of(input, row).model))));
                     },
                     moment.pick));
  return finished(std::move(chart), ChartScale::logarithmic);
}

std::vector<Chart> draw_gradients(const FigureInput& input) {
  Chart chart = chart_of("gradients", "Gradient norm by depth",
                         fmt::format("Norm of each layer's gradient before clipping, mean over the last {} measured "
                                     "steps; the patch embedding first.{}",
                                     input.last, kMeanOfSeeds),
                         "layer");
  const std::vector<std::string> layers = layers_of(input, {"grad_norm/"}, [](const std::string& layer) {
    return layer == "patch_embed" || is_branch(layer) || layer == "head";
  });
  chart.categories = short_names(layers);
  add_panels(chart, "Gradient norm", "norm",
             by_layer(
                 input, layers, [](std::size_t) { return "grad_norm/"; }, last_of("grad_norm/", input.last)));
  return finished(std::move(chart), ChartScale::logarithmic);
}

std::vector<Chart> draw_embedding(const FigureInput& input) {
  Chart chart = chart_of("embedding", "Gradient norm of the patch embedding by step",
                         concat("Before clipping.", kMeanOfSeeds), "step");
  add_panels(chart, "Gradient norm of the patch embedding", "norm", by_step(input, "grad_norm/patch_embed"));
  return finished(std::move(chart), ChartScale::logarithmic);
}

std::vector<Chart> draw_updates(const FigureInput& input) {
  Chart chart = chart_of("updates", "Update by depth",
                         fmt::format("Norm of a step's update over the norm of the weights, mean over the last {} "
                                     "measured steps.{}",
                                     input.last, kMeanOfSeeds),
                         "layer");
  const std::vector<std::string> layers = layers_of(input, {"update/"}, [](const std::string& layer) {
    return layer == "patch_embed" || is_branch(layer) || layer == "head";
  });
  chart.categories = short_names(layers);
  add_panels(chart, "Update over weights", "ratio",
             by_layer(
                 input, layers, [](std::size_t) { return "update/"; }, last_of("update/", input.last)));
  std::vector<Chart> charts = finished(std::move(chart), ChartScale::logarithmic);
  Chart steps = chart_of("updates-by-step", "Update by step",
                         concat("Norm of the whole update over the norm of all weights.", kMeanOfSeeds), "step");
  add_panels(steps, "Update over weights, whole network", "ratio", by_step(input, "update/global"));
  for (Chart& more : finished(std::move(steps), ChartScale::logarithmic)) charts.push_back(std::move(more));
  return charts;
}

std::vector<Chart> draw_attention(const FigureInput& input) {
  Chart chart = chart_of("attention", "Attention by layer and step",
                         concat("Entropy of a query's attention weights in nats, and the largest score before the "
                                "softmax, over 16 training images.",
                                kMeanOfSeeds),
                         "block and branch");
  const std::vector<std::string> layers =
      layers_of(input, {"attention.entropy/"}, [](const std::string&) { return true; });
  chart.categories = short_names(layers);
  for (const Moment& moment : moments(input, "attention."))
    for (const auto& [measure, words] : {std::pair{"entropy", "Entropy"}, {"largest_logit", "Largest logit"}})
      add_panels(chart, fmt::format("{}, {}", words, moment.words), words,
                 by_layer(
                     input, layers, [name = measure](std::size_t) { return fmt::format("attention.{}/", name); },
                     moment.pick));
  return finished(std::move(chart), ChartScale::automatic);
}

std::vector<Chart> draw_activations(const FigureInput& input) {
  Chart chart = chart_of("activations", "Inputs of the norms",
                         concat("Moments of each norm's input over a batch, at the last measured step; the kurtosis of "
                                "a Gaussian is 3.",
                                kMeanOfSeeds),
                         "site");
  const std::vector<std::string> sites =
      layers_of(input, {"activation.mean/"}, [](const std::string&) { return true; });
  chart.categories = short_names(sites);
  for (const char* measure : {"mean", "variance", "kurtosis", "lowest", "highest", "count"})
    add_panels(chart, measure, measure,
               by_layer(
                   input, sites, [=](std::size_t) { return fmt::format("activation.{}/", measure); },
                   last_of("activation.", 1)),
               std::string_view(measure) != "count");
  std::vector<Chart> charts = finished(std::move(chart), ChartScale::automatic);

  Chart bins =
      chart_of("activations-histogram", "Histograms of the norms' inputs",
               "Share of the values per power of two, at the last measured step of the first seed.", "value from");
  for (std::size_t b = 0; b < kActivationBins; ++b) bins.categories.push_back(fmt::format("{:.2g}", bin_edge(b)));
  for (const std::size_t row : shown_rows(input)) {
    std::vector<ChartSeries> series;
    std::vector<std::string> of_row;
    for (const std::string& site : sites)
      if (with_list(input, row, "activation.bins/" + site) != nullptr) of_row.push_back(site);
    for (const std::string& site : spread(of_row, 4)) {
      const MetricsLine* line = with_list(input, row, "activation.bins/" + site);
      const std::vector<double>& counts = line->lists.at("activation.bins/" + site);
      double all = 0;
      for (const double count : counts) all += count;
      ChartSeries& one = series.emplace_back(ChartSeries{short_name(site), {}});
      std::size_t first = 0, last = counts.size();
      while (first < last && counts[first] == 0) ++first;
      while (last > first && counts[last - 1] == 0) --last;
      for (std::size_t b = first; b < last; ++b)
        one.points.push_back({double(b), counts[b] / all, counts[b] / all, counts[b] / all, 1});
    }
    add_panels(bins, label_of(input, row), "share", std::move(series));
  }
  for (Chart& more : finished(std::move(bins), ChartScale::linear)) charts.push_back(std::move(more));
  return charts;
}

std::vector<Chart> draw_mapping(const FigureInput& input) {
  const std::vector<std::string> sites =
      layers_of(input, {"mapping.curvature/"}, [](const std::string&) { return true; });
  std::vector<std::string> wanted = input.sites;
  if (wanted.empty()) {
    std::vector<std::string> attention;
    for (const std::string& site : sites)
      if (site.ends_with("attn.pre")) attention.push_back(site);
    wanted = spread(attention.empty() ? sites : attention, 3);
  }
  constexpr std::size_t kGroups = 4;
  const bool tokens = input.colour == MappingColour::token;
  Chart points = chart_of("mapping", "Input and output of norms",
                          fmt::format("Output of the norm before its gain and bias against its input, for some "
                                      "positions of 8 training images at the last measured step of the first seed; "
                                      "colours: {}. Line: the fitted curve, scale times tanh or erf of slope times x.",
                                      tokens ? "tokens in quarters of the sequence" : "channels in quarters"),
                          "input");
  for (const std::size_t row : shown_rows(input))
    for (const std::string& site : wanted) {
      const MetricsLine* line = with_list(input, row, "mapping.in/" + site);
      if (line == nullptr || !line->lists.contains("mapping.out/" + site)) continue;
      const std::vector<double>&in = line->lists.at("mapping.in/" + site), &out = line->lists.at("mapping.out/" + site);
      const std::vector<double>& group = line->lists.at((tokens ? "mapping.token/" : "mapping.channel/") + site);
      ChartPanel& panel = points.panels.emplace_back();
      panel.heading = label_of(input, row) + ", " + short_name(site);
      panel.values_name = "output";
      const double most = group.empty() ? 0 : *std::max_element(group.begin(), group.end()) + 1;
      double low = 0, high = 0;
      for (std::size_t g = 0; g < kGroups; ++g)
        panel.series.push_back(
            {fmt::format("{} from {:.0f}", tokens ? "token" : "channel", std::ceil(most * double(g) / double(kGroups))),
             {},
             g + 1,
             ChartLook::dots});
      for (std::size_t i = 0; i < std::min({in.size(), out.size(), group.size()}); ++i) {
        const auto g = std::min(kGroups - 1, std::size_t(group[i] / most * double(kGroups)));
        panel.series[g].points.push_back({in[i], out[i], out[i], out[i], 1});
        low = std::min(low, in[i]);
        high = std::max(high, in[i]);
      }
      const auto value = [&](const char* name) {
        const auto found = line->values.find(fmt::format("mapping.{}/{}", name, site));
        return found == line->values.end() ? 0.0 : found->second;
      };
      const bool erf = placement_of(config_of(input, row).model).attn.pre.kind == NormKind::derf;
      ChartSeries fit{fmt::format("fit, curvature {:.2g}", value("curvature")), {}, 0, ChartLook::shape};
      for (int k = 0; k <= 60; ++k) {
        const double x = low + (high - low) * k / 60;
        const double y =
            value("scale") * saturated(erf ? SaturationShape::erf : SaturationShape::tanh, value("slope") * x);
        fit.points.push_back({x, y, y, y, 1});
      }
      panel.series.push_back(std::move(fit));
    }
  std::vector<Chart> charts;
  if (!points.panels.empty()) {
    set_chart_axes(points, ChartScale::linear, ChartScale::linear, true);
    charts.push_back(std::move(points));
  }

  Chart depth = chart_of("mapping-curvature", "Curvature of the norms by depth",
                         concat("Slope of the fitted curve times the root mean square of the input: near 0 the norm is "
                                "linear, above 1 most values are where the curve has bent. Last measured step.",
                                kMeanOfSeeds),
                         "site");
  std::vector<std::string> inside;
  for (const std::string& site : sites)
    if (site.find(".attn.") != site.npos || site.find(".mlp.") != site.npos) inside.push_back(site);
  depth.categories = short_names(inside);
  add_panels(depth, "Curvature", "curvature",
             by_layer(
                 input, inside, [](std::size_t) { return "mapping.curvature/"; }, last_of("mapping.", 1)));
  for (Chart& more : finished(std::move(depth), ChartScale::automatic)) charts.push_back(std::move(more));
  return charts;
}

std::vector<Chart> draw_stem_scale(const FigureInput& input) {
  Chart chart =
      chart_of("stem_scale", "Gain and bias of stem.patch_in",
               "One value per pixel and colour of a patch; mean over the seeds at the last measured step.", "pixel");
  for (const std::size_t row : shown_rows(input))
    for (const char* what : {"gain", "bias"}) {
      const std::string name = fmt::format("stem_scale.{}", what);
      std::vector<double> sum;
      std::size_t seeds = 0;
      for (const FigureTrial& trial : input.trials) {
        if (trial.row != row) continue;
        for (auto line = trial.lines.rbegin(); line != trial.lines.rend(); ++line) {
          const auto found = line->lists.find(name);
          if (found == line->lists.end()) continue;
          sum.resize(found->second.size());
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += found->second[i];
          ++seeds;
          break;
        }
      }
      if (seeds == 0) continue;
      const TrialConfig& config = config_of(input, row);
      const std::int64_t side = std::visit([](const auto& model) { return model.patch_size; }, config.model);
      const std::int64_t colours = channels(config.model);
      ChartPanel& panel = chart.panels.emplace_back();
      panel.heading = label_of(input, row) + ", " + what;
      for (std::int64_t c = 0; c < colours; ++c) {
        ChartPixels& picture = panel.pixels.emplace_back();
        picture.label = colours == 3 ? std::string(1, "RGB"[c]) : fmt::format("channel {}", c);
        picture.width = side;
        for (std::int64_t i = c; i < std::int64_t(sum.size()); i += colours)
          picture.values.push_back(sum[std::size_t(i)] / double(seeds));
      }
    }
  return finished(std::move(chart), ChartScale::linear);
}

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
        const bool curves = folder.exported() == nullptr || folder.exported()->metrics;
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
    return fmt::format(
        "{}: no trial has written metrics; run the experiment, or give an archive of `normlab export --full`",
        figure.word);
  if (figure.word == "without_block")
    return fmt::format(
        "{}: no trial has evaluated it; set \"probes\": {{\"without_block\": true}} and run again, which costs one "
        "evaluation per block at the end of each training",
        figure.word);
  if (figure.word == "lr_sensitivity")
    return fmt::format("{}: the descriptor does not sweep over train.optimizer.lr", figure.word);
  if (!figure.probe) return fmt::format("{}: no trial has the numbers", figure.word);
  const ProbeRow& probe = row_of(*figure.probe);
  return fmt::format(
      "{}: no trial has measured {}; set \"probes\": {{\"{}\": {}}} and run again; a measured step takes about {} "
      "times as long as another",
      figure.word, probe.doc, probe.word, *figure.probe == ProbeKind::gradients ? "100" : "[0, 1000]", probe.cost);
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
                         concat("At most the loss of the first step, which a diverged seed counts with.", kMeanOfSeeds),
                         "learning rate");
  std::vector<ChartSeries> series;
  for (const TableLine& line : table.lines) {
    if (line.rates.size() < 2) continue;
    ChartSeries& row = series.emplace_back(ChartSeries{line.label, {}});
    for (const TableRate& rate : line.rates) {
      if (rate.runs.empty()) continue;
      BandPoint& point = row.points.emplace_back();
      point.at = rate.rate;
      for (const TableRate::Run& run : rate.runs) point.add(run.loss);
    }
  }
  add_panels(chart, "Training loss at the end", "loss", std::move(series));
  set_chart_axes(chart, ChartScale::logarithmic, ChartScale::linear);
  return chart;
}

Chart strip_chart(const TableModel& table) {
  Chart chart =
      chart_of("strip", "Gains over the baseline in " + table.metric,
               "Values of the table: gain of each row, or its mean without a baseline, with the interval.", "row");
  ChartPanel& panel = chart.panels.emplace_back();
  panel.heading = table.metric;
  for (const TableLine& line : table.lines) {
    const Figure &value = line.baseline ? line.gain : line.mean,
                 &half = line.baseline ? line.gain_half_width : line.half_width;
    if (!value.value) continue;
    const double width = half.value.value_or(0);
    panel.series.push_back(
        {line.label,
         {{double(chart.categories.size()), *value.value, *value.value - width, *value.value + width, line.n}}});
    chart.categories.push_back(line.baseline ? "gain" : "value");
  }
  return chart;
}

}  // namespace normlab
