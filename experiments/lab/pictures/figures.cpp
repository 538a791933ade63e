#include "experiments/lab/pictures/figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/metrics/saturation.h"
#include "experiments/lab/pictures/figure_series.h"
#include "experiments/lab/pictures/report.h"
#include "experiments/lab/train/probes.h"
#include "nn/probes/probes.h"
#include "nn/probes/site_probe.h"

namespace normlab {
namespace {

/// The caption of a chart whose lines are means.
std::string means(const std::string& caption) { return caption + " Lines: means over the seeds."; }

/// A panel by layer: the patch embedding, the branches and the head, over the last measured steps.
std::vector<Chart> depth_charts(const FigureInput& input, Chart chart, const std::string& prefix,
                                const std::string& values_name) {
  const std::vector<std::string> layers = layers_of(input, {prefix}, [](const std::string& layer) {
    return layer == "patch_embed" || layer.ends_with(".attn") || layer.ends_with(".mlp") || layer == "head";
  });
  chart.categories = short_names(layers);
  add_layers(chart, input, layers, "", values_name, prefix, last_of(prefix, input.last));
  return finished(std::move(chart), ChartScale::logarithmic);
}

std::vector<Chart> draw_xspp(const FigureInput& input) {
  Chart chart{"xspp", "Signal by residual branch",
              means("AFSM and AFV: squared mean and variance of the residual stream after each branch; AFVR: variance "
                    "of what the branch adds. Rows whose main norm is batch norm are measured per channel, the others "
                    "per position."),
              "block and branch"};
  const std::vector<std::string> layers = layers_of(input, {"afsm.position/", "afsm.channel/"});
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
  Chart chart{"gradients", "Gradient norm by depth",
              means(fmt::format("Norm of each layer's gradient before clipping, mean over the last {} measured steps; "
                                "the patch embedding first.",
                                input.last)),
              "layer"};
  return depth_charts(input, std::move(chart), "grad_norm/", "gradient norm");
}

std::vector<Chart> draw_embedding(const FigureInput& input) {
  Chart chart{"embedding", "Gradient norm of the patch embedding by step", means("Before clipping."), "step"};
  add_panels(chart, "", "gradient norm", by_step(input, "grad_norm/patch_embed"));
  return finished(std::move(chart), ChartScale::logarithmic);
}

std::vector<Chart> draw_updates(const FigureInput& input) {
  Chart depth{"updates", "Update by depth",
              means(fmt::format("Norm of a step's update over the norm of the weights, mean over the last {} measured "
                                "steps.",
                                input.last)),
              "layer"};
  Chart steps{"updates-by-step", "Update by step", means("Norm of the whole update over the norm of all weights."),
              "step"};
  add_panels(steps, "", "update over weights, whole network", by_step(input, "update/global"));
  return finished(std::move(steps), ChartScale::logarithmic,
                  depth_charts(input, std::move(depth), "update/", "update over weights"));
}

std::vector<Chart> draw_attention(const FigureInput& input) {
  Chart chart{"attention", "Attention by layer and step",
              means("Entropy of a query's attention weights in nats, and the largest score before the softmax, over "
                    "16 training images."),
              "block and branch"};
  const std::vector<std::string> layers = layers_of(input, {"attention.entropy/"});
  chart.categories = short_names(layers);
  for (const Moment& moment : moments(input, "attention."))
    for (const auto& [measure, words] : {std::pair{"entropy", "Entropy"}, {"largest_logit", "Largest logit"}})
      add_layers(chart, input, layers, fmt::format("{}, {}", words, moment.words), words,
                 fmt::format("attention.{}/", measure), moment.pick);
  return finished(std::move(chart), ChartScale::automatic);
}

std::vector<Chart> draw_activations(const FigureInput& input) {
  Chart chart{"activations", "Inputs of the norms",
              means("Moments of each norm's input over a batch, at the last measured step; the kurtosis of a Gaussian "
                    "is 3."),
              "site"};
  const std::vector<std::string> sites = layers_of(input, {"activation.mean/"});
  chart.categories = short_names(sites);
  for (const std::string measure : {"mean", "variance", "kurtosis", "lowest", "highest", "count"})
    add_layers(chart, input, sites, measure, measure, "activation." + measure + "/", last_of("activation.", 1),
               measure != "count");

  Chart bins{
      "activations-histogram", "Histograms of the norms' inputs",
      "Share of the values per unit, at the last measured step of the first seed. Bins reach from a power of two "
      "to the next; the one at zero holds what is smaller.",
      "value, in powers of two"};
  constexpr double kZero = 2 * kBinOctaves;
  for (std::size_t b = 0; b < kActivationBins; ++b) bins.categories.push_back(number_label(bin_edge(b)));
  for (const double size : {100.0, 1.0, 0.01, 0.0, -0.01, -1.0, -100.0}) {  // from left to right: minus these
    const double from_zero = size == 0 ? 0 : std::log2(std::abs(size)) + kBinOctaves + 0.5;
    bins.marks.emplace_back(kZero - std::copysign(from_zero, size), number_label(-size));
  }
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
      for (std::size_t b = first; b < last; ++b) {
        const double wide = bin_edge(b) == 0 ? std::ldexp(2, -kBinOctaves) : std::abs(bin_edge(b));
        const double density = counts[b] / all / wide;
        if (counts[b] > 0) one.points.push_back({double(b), density, density, density, 1});
      }
    }
    const std::size_t before = bins.panels.size();
    add_panels(bins, label_of(input, row), "share per unit", std::move(series));
    for (std::size_t p = before; p < bins.panels.size(); ++p) bins.panels[p].row = row;
  }
  return finished(std::move(bins), ChartScale::logarithmic, finished(std::move(chart), ChartScale::automatic));
}

std::vector<Chart> draw_mapping(const FigureInput& input) {
  const std::vector<std::string> sites = layers_of(input, {"mapping.curvature/"});
  std::vector<std::string> wanted = input.sites;
  for (const std::string& site : wanted)
    if (!sites.empty() && std::find(sites.begin(), sites.end(), site) == sites.end())
      throw InputError("--sites: " + unknown_word("site", site, {sites.begin(), sites.end()}));
  if (wanted.empty()) {
    std::vector<std::string> attention;
    for (const std::string& site : sites)
      if (site.ends_with("attn.pre")) attention.push_back(site);
    wanted = spread(attention.empty() ? sites : attention, 3);
  }
  constexpr std::size_t kGroups = 4;
  const bool tokens = input.colour == MappingColour::token;
  Chart points{
      "mapping", "Input and output of norms",
      fmt::format("Output of the norm before its gain and bias, of a formula its result, against its input, for some "
                  "positions of 8 training images at the last measured step of the first seed; "
                  "colours: {}. Line: the fitted curve, scale times tanh or erf of slope times x.",
                  tokens ? "tokens in quarters of the sequence" : "channels in quarters"),
      "input"};
  for (const std::size_t row : shown_rows(input))
    for (const std::string& site : wanted) {
      const MetricsLine* line = with_list(input, row, "mapping.in/" + site);
      const std::string groups = (tokens ? "mapping.token/" : "mapping.channel/") + site;
      if (line == nullptr || !line->lists.contains("mapping.out/" + site) || !line->lists.contains(groups)) continue;
      const std::vector<double>&in = line->lists.at("mapping.in/" + site), &out = line->lists.at("mapping.out/" + site);
      const std::vector<double>& group = line->lists.at(groups);
      ChartPanel& panel = points.panels.emplace_back();
      panel.heading = label_of(input, row) + ", " + short_name(site);
      panel.values_name = "output";
      panel.row = row;
      const double most = group.empty() ? 0 : *std::max_element(group.begin(), group.end()) + 1;
      std::vector<double> inputs{0};
      for (std::size_t g = 0; g < kGroups; ++g)
        panel.series.push_back(
            {fmt::format("{} from {:.0f}", tokens ? "token" : "channel", std::ceil(most * double(g) / double(kGroups))),
             {},
             g + 1,
             ChartLook::dots});
      for (std::size_t i = 0; i < std::min({in.size(), out.size(), group.size()}); ++i) {
        const double place = group[i] / most;
        if (!(place >= 0 && place < 1)) continue;  // an edited archive may have null
        const auto g = std::size_t(place * double(kGroups));
        panel.series[g].points.push_back({in[i], out[i], out[i], out[i], 1});
        if (std::isfinite(in[i])) inputs.push_back(in[i]);
      }
      const auto [low, high] = central_range(inputs, 0.05, 2);
      const auto value = [&](const char* name) {
        const auto found = line->values.find(fmt::format("mapping.{}/{}", name, site));
        return found == line->values.end() ? 0.0 : found->second;
      };
      const SaturationShape shape = mapping_shape(config_of(input, row));
      ChartSeries fit{fmt::format("fit, curvature {:.2g}", value("curvature")), {}, 0, ChartLook::shape};
      for (int k = 0; k <= 60; ++k) {
        const double x = low + (high - low) * k / 60;
        const double y = value("scale") * saturated(shape, value("slope") * x);
        fit.points.push_back({x, y, y, y, 1});
      }
      panel.series.push_back(std::move(fit));
      panel.across = make_axis(low, high, 4);
    }
  Chart depth{"mapping-curvature", "Curvature of the norms by depth",
              means("Slope of the fitted curve times the root mean square of the input: near 0 the norm is "
                    "linear, above 1 most values are where the curve has bent. Last measured step."),
              "site"};
  std::vector<std::string> inside;
  for (const std::string& site : sites)
    if (site.find(".attn.") != site.npos || site.find(".mlp.") != site.npos) inside.push_back(site);
  depth.categories = short_names(inside);
  add_layers(depth, input, inside, "", "curvature", "mapping.curvature/", last_of("mapping.", 1));
  return finished(std::move(depth), ChartScale::automatic, finished(std::move(points), ChartScale::central));
}

std::vector<Chart> draw_stem_scale(const FigureInput& input) {
  Chart chart{"stem_scale", "Gain and bias of stem.patch_in",
              "One value per pixel and colour of a patch; mean over the seeds at the last measured step.", "pixel"};
  for (const std::size_t row : shown_rows(input))
    for (const char* what : {"gain", "bias"}) {
      const std::string name = fmt::format("stem_scale.{}", what);
      std::vector<double> sum;
      std::size_t seeds = 0;
      for (const TrialCurves& trial : input.trials) {
        const auto line = std::find_if(trial.lines.rbegin(), trial.lines.rend(),
                                       [&](const MetricsLine& l) { return l.lists.contains(name); });
        if (trial.row != row || line == trial.lines.rend()) continue;
        const std::vector<double>& values = line->lists.at(name);
        sum.resize(values.size());
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
        ++seeds;
      }
      if (seeds == 0) continue;
      const TrialConfig& config = config_of(input, row);
      const std::int64_t side = network(config.model).patch_size;
      const std::int64_t colours = channels(config.model);
      ChartPanel& panel = chart.panels.emplace_back();
      panel.heading = label_of(input, row) + ", " + what;
      panel.row = row;
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
  std::vector<std::string> metrics{"train/loss", "eval/loss", "train/accuracy", "eval/accuracy"};
  if (std::find(metrics.begin(), metrics.end(), input.table.metric) == metrics.end())
    metrics.push_back(input.table.metric);
  std::vector<MetricCurves> curves;
  for (const std::string& metric : metrics) curves.push_back(metric_curves(input.experiment, input.trials, metric));
  if (!input.overlay) return curve_charts(input.experiment, input.table, curves);
  Chart chart{"curves", "Learning curves", means("Each metric by step."), "step"};
  for (const MetricCurves& metric : curves) {
    const auto [name, scale] = curve_unit(metric.metric);
    std::vector<ChartSeries> series;
    for (const std::size_t row : shown_rows(input)) {
      if (metric.rows[row].band.empty()) continue;
      series.push_back(series_of(input, row));
      series.back().points = curve_of(metric.rows[row], scale, ChartLook::base).points;
    }
    add_panels(chart, name, name, std::move(series));
  }
  return finished(std::move(chart), ChartScale::central);
}

std::vector<Chart> draw_without_block(const FigureInput& input) {
  Chart chart{"without_block", "Loss of the trained network without one block",
              means("Evaluation loss of the trained network when one block passes its input on unchanged; "
                    "\"all\": with all blocks."),
              "block left out"};
  std::vector<std::string> blocks = layers_of(input, {"without_block.loss/"});
  std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) { return std::stoll(a) < std::stoll(b); });
  if (blocks.empty()) return {};
  std::vector<ChartSeries> series = by_layer(
      input, blocks, [](std::size_t) { return "without_block.loss/"; }, last_of("without_block.", 1));
  for (ChartSeries& row : series) {
    for (BandPoint& point : row.points) point.at += 1;
    BandPoint all;
    for (const TrialCurves& trial : input.trials)
      if (label_of(input, trial.row) == row.label)
        if (const auto loss = mean_of(last_of("eval/loss", 1)(trial), "eval/loss")) all.add(*loss);
    if (all.n > 0) row.points.insert(row.points.begin(), all);
  }
  chart.categories = blocks;
  chart.categories.insert(chart.categories.begin(), "all");
  add_panels(chart, "", "evaluation loss", std::move(series));
  return finished(std::move(chart), ChartScale::central);
}

/// The table's gains, or its values.
std::vector<Chart> draw_strip(const FigureInput& input) {
  std::vector<Chart> charts = strip_charts(input.table);
  for (Chart& chart : charts) chart.name = &chart == charts.data() ? "strip" : "strip-values";
  return charts;
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
    {"strip", "gains over the baseline", std::nullopt, draw_strip},
    {"curves", "losses and accuracies by step", std::nullopt, draw_curves},
    {"without_block", "loss without each block", std::nullopt, draw_without_block},
};

}  // namespace

std::span<const FigureRow> figure_rows() { return kFigures; }

std::string missing_words(const FigureRow& figure, const FigureInput& input) {
  if (figure.draw == draw_strip) return "no row has a finished trial";
  if (figure.word == "lr_sensitivity") return "the descriptor does not sweep over train.optimizer.lr";
  if (std::all_of(input.trials.begin(), input.trials.end(), [](const TrialCurves& t) { return t.lines.empty(); }))
    return "no trial has written metrics; run the experiment, or give an archive of `normlab export --full`";
  if (figure.word == "without_block")
    return "no trial has evaluated it; set \"probes\": {\"without_block\": true} and run again, which costs one "
           "evaluation per block at the end of each training";
  if (!figure.probe) return "no trial has the numbers";
  const ProbeRow& probe = row_of(*figure.probe);
  const std::string cost = probe.cost > 1 ? fmt::format("about {:.0f}%", 100 * (probe.cost - 1)) : "no measurable time";
  return fmt::format(
      "no trial has been measured by the probe \"{}\" ({}); set \"probes\": {{\"{}\": 100}} and run again; it adds {} "
      "to each measured step",
      probe.word, probe.doc, probe.word, cost);
}

std::vector<Chart> draw_figure(const FigureRow& figure, const FigureInput& input) {
  std::vector<Chart> charts = figure.draw(input);
  if (!charts.empty() && figure.draw != draw_strip) charts.front().left_out = left_out_words(charts, input);
  return charts;
}

std::vector<Chart> measured_charts(const FigureInput& input) {
  std::vector<Chart> charts;
  for (const FigureRow& figure : kFigures)
    if (figure.probe || figure.draw == draw_without_block)
      for (Chart& chart : draw_figure(figure, input)) charts.push_back(std::move(chart));
  return charts;
}

Chart rates_chart(const TableModel& table) {
  Chart chart{"lr_sensitivity", "Final training loss by learning rate",
              means("At most the loss of the first step, which a diverged seed counts with; a cross marks "
                    "it."),
              "learning rate"};
  std::vector<ChartSeries> series;
  std::vector<std::string> single;
  for (const TableLine& line : table.lines) {
    if (line.rates.size() < 2) {
      single.push_back(line.label);
      continue;
    }
    ChartSeries& row = series.emplace_back(ChartSeries{line.label, {}});
    row.strip = line.strip;
    row.baseline = line.is_baseline;
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
  if (!single.empty()) chart.left_out = "Left out, with fewer than two learning rates: " + joined(single, "; ");
  add_panels(chart, "", "training loss at the end", std::move(series));
  set_chart_axes(chart, ChartScale::logarithmic, ChartScale::linear);
  return chart;
}

}  // namespace normlab
