#include "experiments/lab/pictures/figure_series.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "nn/model/sites.h"

namespace normlab {
namespace {

bool begins(const MetricsLine& line, std::string_view prefix) {
  const auto at = line.values.lower_bound(std::string(prefix));
  return at != line.values.end() && at->first.starts_with(prefix);
}

/// Names sorted so that numbers count: "blocks.2" before "blocks.10", attention before the MLP, the stem first.
bool before(const std::string& a, const std::string& b) {
  const auto key = [](const std::string& name) {
    std::vector<std::int64_t> numbers{name.starts_with("blocks.") || name.starts_with("stages.")    ? 1
                                      : name.starts_with("patch_embed") || name.starts_with("stem") ? 0
                                                                                                    : 2};
    for (std::size_t i = 0; i < name.size(); ++i)
      if (std::isdigit(static_cast<unsigned char>(name[i])) && i > 0 && name[i - 1] == '.') {
        numbers.push_back(std::stoll(name.substr(i)));
      }
    return numbers;
  };
  const auto ka = key(a), kb = key(b);
  const auto place = [](const std::string& name) {  // on the way of the data through a block
    return std::find_if(std::begin(kSites), std::end(kSites), [&](const SiteRow& s) { return name.ends_with(s.path); });
  };
  if (ka != kb) return ka < kb;
  return place(a) != place(b) ? place(a) < place(b) : a < b;
}

}  // namespace

Lines measured(const TrialCurves& trial, std::string_view prefix) {
  Lines out;
  for (const MetricsLine& line : trial.lines)
    if (begins(line, prefix)) out.push_back(&line);
  return out;
}

Pick last_of(std::string_view prefix, std::size_t count) {
  return [=](const TrialCurves& trial) {
    Lines lines = measured(trial, prefix);
    if (lines.size() > count) lines.erase(lines.begin(), lines.end() - std::ptrdiff_t(count));
    return lines;
  };
}

std::vector<std::size_t> shown_rows(const FigureInput& input) {
  std::vector<std::size_t> rows;
  for (const TableLine& line : input.table.lines)
    if (line.is_planned()) rows.push_back(line.plan_index);
  return rows;
}

std::string label_of(const FigureInput& input, std::size_t row) { return input.experiment.rows[row].label; }

const TrialConfig& config_of(const FigureInput& input, std::size_t row) {
  return first_trial(input.experiment, input.experiment.rows[row]).config;
}

std::string short_name(std::string name) {
  if (name == "patch_embed") return std::string("embed");
  if (name.starts_with("stages.")) {
    name.erase(0, 7);
    if (const auto at = name.find(".blocks."); at != name.npos) name.replace(at, 8, 1, '.');
  }
  if (name.starts_with("blocks.")) name.erase(0, 7);
  for (const char* branch : {".attn", ".mlp"})
    if (const auto at = name.find(branch); at != name.npos) name[at] = ' ';
  return name;
}

std::vector<std::string> layers_of(const FigureInput& input, const std::vector<std::string>& prefixes,
                                   const std::function<bool(const std::string&)>& wanted) {
  std::set<std::string> names;
  for (const TrialCurves& trial : input.trials)
    for (const MetricsLine& line : trial.lines)
      for (const std::string& prefix : prefixes)
        for (auto at = line.values.lower_bound(prefix); at != line.values.end() && at->first.starts_with(prefix); ++at)
          if (const std::string layer = at->first.substr(prefix.size()); !wanted || wanted(layer)) names.insert(layer);
  std::vector<std::string> layers(names.begin(), names.end());
  std::sort(layers.begin(), layers.end(), before);
  return layers;
}

std::optional<double> mean_of(const Lines& lines, const std::string& metric) {
  double sum = 0;
  std::size_t n = 0;
  for (const MetricsLine* line : lines)
    if (const auto found = line->values.find(metric); found != line->values.end() && std::isfinite(found->second))
      sum += found->second, ++n;
  return n > 0 ? std::optional(sum / double(n)) : std::nullopt;
}

ChartSeries series_of(const FigureInput& input, std::size_t row) {
  ChartSeries series{label_of(input, row), {}};
  const std::optional<std::size_t> baseline = input.experiment.rows[row].baseline;
  series.strip = baseline.value_or(0);
  series.baseline = baseline == row;
  return series;
}

namespace {

/// The lines of each panel: strips side by side as long as they fit, and a larger strip in equal parts.
std::vector<std::vector<ChartSeries>> panels_of(std::vector<ChartSeries> series) {
  std::stable_sort(series.begin(), series.end(),
                   [](const ChartSeries& a, const ChartSeries& b) { return a.strip < b.strip; });
  std::vector<std::vector<ChartSeries>> panels;
  for (auto from = series.begin(), to = from; from != series.end(); from = to) {
    to = std::find_if(from, series.end(), [&](const ChartSeries& s) { return s.strip != from->strip; });
    const auto lines = std::size_t(to - from);
    if (!panels.empty() && panels.back().size() + lines <= kChartStyles) {
      panels.back().insert(panels.back().end(), from, to);
      continue;
    }
    const auto base = lines > kChartStyles ? std::find_if(from, to, [](const auto& s) { return s.baseline; }) : to;
    const bool shared = base != to;
    if (shared) std::rotate(from, base, base + 1);  // to the front
    const std::size_t others = lines - shared, most = kChartStyles - shared, parts = (others + most - 1) / most;
    for (std::size_t p = 0; p < parts; ++p) {
      std::vector<ChartSeries>& panel = panels.emplace_back();
      if (shared) panel.push_back(*from), panel.back().again = p > 0;
      const auto rest = from + shared;
      panel.insert(panel.end(), rest + std::ptrdiff_t(others * p / parts),
                   rest + std::ptrdiff_t(others * (p + 1) / parts));
    }
  }
  return panels;
}

}  // namespace

std::vector<ChartSeries> by_layer(const FigureInput& input, const std::vector<std::string>& layers,
                                  const std::function<std::string(std::size_t)>& prefix_of, const Pick& pick) {
  std::vector<ChartSeries> all;
  for (const std::size_t row : shown_rows(input)) {
    ChartSeries series = series_of(input, row);
    const std::string prefix = prefix_of(row);
    std::vector<BandPoint> points(layers.size());
    for (const TrialCurves& trial : input.trials) {
      if (trial.row != row) continue;
      const Lines lines = pick(trial);
      for (std::size_t i = 0; i < layers.size() && !lines.empty(); ++i)
        if (const auto value = mean_of(lines, prefix + layers[i])) points[i].add(*value);
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      points[i].at = double(i);
      if (points[i].n > 0) series.points.push_back(points[i]);
    }
    if (!series.points.empty()) all.push_back(std::move(series));
  }
  return all;
}

std::vector<ChartSeries> by_step(const FigureInput& input, const std::string& metric) {
  std::vector<ChartSeries> all;
  const MetricCurves curves = metric_curves(input.experiment, input.trials, metric);
  for (const std::size_t row : shown_rows(input)) {
    ChartSeries series = series_of(input, row);
    series.points = curves.rows[row].band;
    if (!series.points.empty()) all.push_back(std::move(series));
  }
  return all;
}

void add_panels(Chart& chart, const std::string& heading, const std::string& values_name,
                std::vector<ChartSeries> series, bool drawn) {
  std::vector<std::vector<ChartSeries>> panels = panels_of(std::move(series));
  for (std::size_t p = 0; p < panels.size(); ++p) {
    ChartPanel& panel = chart.panels.emplace_back();
    panel.heading = heading;
    if (panels.size() > 1) panel.part = fmt::format("{} of {}", p + 1, panels.size());
    panel.values_name = values_name;
    panel.drawn = drawn;
    panel.series = std::move(panels[p]);
    for (std::size_t i = 0; i < panel.series.size(); ++i) panel.series[i].style = i;
  }
}

std::vector<std::string> short_names(const std::vector<std::string>& layers) {
  std::vector<std::string> names;
  for (const std::string& layer : layers) names.push_back(short_name(layer));
  return names;
}

std::vector<Moment> moments(const FigureInput& input, const std::string& prefix) {
  std::map<std::int64_t, std::size_t> steps;
  std::size_t with = 0;
  bool diverged = false;
  for (const TrialCurves& trial : input.trials) {
    const Lines lines = measured(trial, prefix);
    with += !lines.empty();
    diverged = diverged || (trial.state == TrialState::diverged && !lines.empty());
    for (const MetricsLine* line : lines) ++steps[line->step];
  }
  std::vector<std::int64_t> common;
  for (const auto& [step, count] : steps)
    if (2 * count >= with) common.push_back(step);
  std::vector<Moment> out;
  for (const std::int64_t step : spread(common, 4))
    out.push_back({step == 0 ? "step 0, the start" : fmt::format("step {}", step), [=](const TrialCurves& trial) {
                     Lines lines = measured(trial, prefix);
                     std::erase_if(lines, [&](const MetricsLine* line) { return line->step != step; });
                     return lines;
                   }});
  if (diverged)
    out.push_back({"last measurement before a divergence", [=](const TrialCurves& trial) {
                     return trial.state == TrialState::diverged ? last_of(prefix, 1)(trial) : Lines();
                   }});
  return out;
}

const MetricsLine* with_list(const FigureInput& input, std::size_t row, const std::string& name) {
  for (const TrialCurves& trial : input.trials)
    if (trial.row == row)
      for (auto line = trial.lines.rbegin(); line != trial.lines.rend(); ++line)
        if (line->lists.contains(name)) return &*line;
  return nullptr;
}

std::string left_out_words(const std::vector<Chart>& charts, const FigureInput& input) {
  std::set<std::string> drawn;
  for (const Chart& chart : charts)
    for (const ChartPanel& panel : chart.panels) {
      if (!panel.drawn) continue;
      if (panel.row) drawn.insert(label_of(input, *panel.row));
      for (const ChartSeries& series : panel.series) drawn.insert(series.label);
    }
  std::vector<std::string> idle, unmeasured;
  for (const std::size_t row : shown_rows(input)) {
    if (drawn.contains(label_of(input, row))) continue;
    const bool measured = std::any_of(input.trials.begin(), input.trials.end(),
                                      [&](const TrialCurves& t) { return t.row == row && !t.lines.empty(); });
    (measured ? unmeasured : idle).push_back(label_of(input, row));
  }
  std::string words;
  for (const auto& [why, rows] :
       {std::pair(", without any metrics: ", &idle), std::pair(", without what this figure shows: ", &unmeasured)})
    if (!rows->empty()) words += concat(words.empty() ? "Left out" : "; and", why, joined(*rows, "; "));
  return words;
}

std::vector<Chart> finished(Chart chart, ChartScale values, std::vector<Chart> before) {
  if (chart.panels.empty()) return before;
  set_chart_axes(chart, ChartScale::linear, values);
  before.push_back(std::move(chart));
  return before;
}

void add_layers(Chart& chart, const FigureInput& input, const std::vector<std::string>& layers,
                const std::string& heading, const std::string& values_name, const std::string& prefix, const Pick& pick,
                bool drawn) {
  add_panels(chart, heading, values_name,
             by_layer(
                 input, layers, [&](std::size_t) { return prefix; }, pick),
             drawn);
}

}  // namespace normlab
