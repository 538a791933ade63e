#include "experiments/lab/pictures/probe_figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/metrics/saturation.h"
#include "experiments/lab/pictures/figure_series.h"
#include "experiments/lab/train/probes.h"
#include "nn/probes/probes.h"
#include "nn/probes/site_probe.h"

namespace normlab {
namespace {

bool is_branch(const std::string& layer) { return layer.ends_with(".attn") || layer.ends_with(".mlp"); }

/// A panel by layer: the patch embedding, the branches and the head, over the last measured steps.
std::vector<Chart> depth_charts(const FigureInput& input, Chart chart, const std::string& prefix,
                                const std::string& heading, const std::string& values_name) {
  const std::vector<std::string> layers = layers_of(input, {prefix}, [](const std::string& layer) {
    return layer == "patch_embed" || is_branch(layer) || layer == "head";
  });
  chart.categories = short_names(layers);
  add_panels(chart, heading, values_name,
             by_layer(
                 input, layers, [&](std::size_t) { return prefix; }, last_of(prefix, input.last)));
  return finished(std::move(chart), ChartScale::logarithmic);
}

}  // namespace

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
  return depth_charts(input,
                      chart_of("gradients", "Gradient norm by depth",
                               fmt::format("Norm of each layer's gradient before clipping, mean over the last {} "
                                           "measured steps; the patch embedding first.{}",
                                           input.last, kMeanOfSeeds),
                               "layer"),
                      "grad_norm/", "Gradient norm", "norm");
}

std::vector<Chart> draw_embedding(const FigureInput& input) {
  Chart chart = chart_of("embedding", "Gradient norm of the patch embedding by step",
                         concat("Before clipping.", kMeanOfSeeds), "step");
  add_panels(chart, "Gradient norm of the patch embedding", "norm", by_step(input, "grad_norm/patch_embed"));
  return finished(std::move(chart), ChartScale::logarithmic);
}

std::vector<Chart> draw_updates(const FigureInput& input) {
  std::vector<Chart> charts =
      depth_charts(input,
                   chart_of("updates", "Update by depth",
                            fmt::format("Norm of a step's update over the norm of the weights, mean over the last {} "
                                        "measured steps.{}",
                                        input.last, kMeanOfSeeds),
                            "layer"),
                   "update/", "Update over weights", "ratio");
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
  Chart points = chart_of("mapping", "Input and output of norms",
                          fmt::format("Output of the norm before its gain and bias against its input, for some "
                                      "positions of 8 training images at the last measured step of the first seed; "
                                      "colours: {}. Line: the fitted curve, scale times tanh or erf of slope times x.",
                                      tokens ? "tokens in quarters of the sequence" : "channels in quarters"),
                          "input");
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
      const double most = group.empty() ? 0 : *std::max_element(group.begin(), group.end()) + 1;
      double low = 0, high = 0;
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
        low = std::min(low, in[i]);
        high = std::max(high, in[i]);
      }
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

}  // namespace normlab
