#include "experiments/lab/cli/explain_init.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/visible_text.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/fields.h"
#include "nn/model/init.h"
#include "nn/model/model.h"

namespace normlab {
namespace {

/// Running moments (Welford).
struct Moments {
  std::int64_t count = 0;
  double mean = 0.0, squares = 0.0;
  double least = std::numeric_limits<double>::infinity(), most = -least;
  void add(double v) {
    ++count;
    const double off = v - mean;
    mean += off / double(count);
    squares += off * (v - mean);
    least = std::min(least, v);
    most = std::max(most, v);
  }
  double deviation() const { return std::sqrt(squares / double(count - 1)); }
};

std::string in_words(const InitRule& rule) {
  const std::string source = rule.source.empty() ? "" : fmt::format(" ({})", rule.source);
  const std::string gain = rule.gain == 1 ? "" : fmt::format(", times {:.4g}", rule.gain);
  switch (rule.distribution) {
    case Distribution::constant:
      return rule.scale == 0 ? "zero" : rule.scale == 1 ? "one" : fmt::format("{:.6g}", rule.scale);
    case Distribution::uniform:
      return fmt::format("uniform within ±{:.4g}{}{}", rule.scale, source, gain);
    case Distribution::normal:
      return fmt::format("normal, deviation {:.4g}{}{}", rule.scale, source, gain);
    case Distribution::truncated_normal:
      return fmt::format("normal, deviation {:.4g} before the cut at ±{:.4g}{}{}", rule.scale, rule.scale * rule.cut,
                         source, gain);
  }
  return "";
}

/// A parameter, or the same parameter in several blocks.
struct ParameterGroup {
  ParameterInfo first;
  std::string tail;  // of its name, after the place
  std::vector<std::int64_t> blocks{};
  InitRule rule;
  Moments moments{};
};

std::string group_name(const ParameterGroup& p) { return p.first.place.prefix(runs_name(p.blocks)) + p.tail; }

std::vector<ParameterGroup> parameter_groups(const ModelConfig& model, std::uint64_t seed) {
  ParameterSet parameters;  // declared only: values are drawn one at a time
  const auto network = make_model(parameters, model);
  std::vector<ParameterGroup> out;
  for (std::size_t i = 0; i < parameters.parameters().size(); ++i) {
    const ParameterInfo& info = parameters.parameters()[i];
    const InitRule rule = init_rule(parameters, static_cast<int>(i), model);
    const std::string tail = info.name.substr(info.place.prefix().size());
    auto same = std::find_if(out.begin(), out.end(), [&](const ParameterGroup& p) {
      return p.first.place.stage == info.place.stage && p.tail == tail && p.first.shape == info.shape && p.rule == rule;
    });
    if (same == out.end()) same = out.insert(out.end(), {info, tail, {}, rule});
    same->blocks.push_back(info.place.block);
    if (rule.distribution == Distribution::constant) continue;
    const StreamKey stream = init_stream(seed, info.name);
    for (std::int64_t v = 0; v < info.shape.size(); ++v)
      same->moments.add(static_cast<float>(initial_value(rule, stream, static_cast<std::uint64_t>(v))));
  }
  return out;
}

}  // namespace

void print_wrapped(const std::string& label, std::size_t indent, const std::string& text) {
  std::string head = label;
  for (const std::string& line : wrapped(visible(text), text_columns() - indent)) {
    print_text("{:<{}}{}\n", head, indent, line);
    head.clear();
  }
}

std::string init_word(const ModelConfig& model) {
  const auto* vit = std::get_if<ViTConfig>(&model);
  return init_text(vit != nullptr ? vit->init : InitConfig(Init::timm));
}

void print_init(const Trial& trial) {
  const ModelConfig& model = trial.config.model;
  print_wrapped("", 0, trial.label);
  print_wrapped("", 0, fmt::format("init {}, {} parameters", init_word(model), model_cost(model).parameters));
  for (const ParameterGroup& p : parameter_groups(model, trial.config.seed)) {
    print_wrapped("", 0, fmt::format("{} {}: {}", group_name(p), p.first.shape.str(), in_words(p.rule)));
    if (p.moments.count == 0) continue;
    const std::string deviation = p.moments.count > 1 ? fmt::format("std {:.4g}, ", p.moments.deviation()) : "";
    print_wrapped("", 4,
                  fmt::format("drawn: mean {:.2g}, {}min {:.4g}, max {:.4g}", p.moments.mean, deviation,
                              p.moments.least, p.moments.most));
  }
}

}  // namespace normlab
