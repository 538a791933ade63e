// Compares what a paper prints, line by line, with the descriptors that repeat it.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/descriptor/slice.h"
#include "experiments/lab/descriptor/step_count.h"
#include "experiments/lab/train/cost.h"

namespace normlab {

/// What the paper prints, the setting that means it, and its value as JSON. Beside settings: "steps", "warmup_steps",
/// "parameters", "peak_lr", "layer_scale_init", and "M parameters", "G macs" (a norm's numbers counted) and
/// "G products" rounded to the digits given. "absent": the setting must not apply.
struct Line {
  const char *printed, *key, *value;
};
using Lines = std::vector<Line>;

inline Lines operator+(Lines a, const Lines& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline std::string file_of(const std::string& name) { return "experiments/" + name + ".json"; }

/// `value` rounded to as many digits after the point as `printed` has.
inline double rounded_as(double value, const std::string& printed) {
  const std::size_t point = printed.find('.');
  const double scale = point == printed.npos ? 1 : std::pow(10.0, double(printed.size() - point - 1));
  return std::round(value * scale) / scale;
}

/// The steps of a training. A length in steps needs no number of images, which data of one's own have only as files.
inline StepCount steps_of(const TrialConfig& config) {
  constexpr std::int64_t kOwnImages = 1'000'000'000;
  return count_steps(config.train, known_training_images(config.dataset).value_or(kOwnImages));
}

/// The value that a trial has for a line; null for a setting that does not apply.
inline nlohmann::json value_of(const TrialConfig& config, const nlohmann::json& settings, const Line& line) {
  const std::string key = line.key;
  const ModelCost cost = model_cost(config.model);
  if (key == "steps") return steps_of(config).total;
  if (key == "warmup_steps") return steps_of(config).warmup;
  if (key == "parameters") return cost.parameters;
  if (key == "M parameters") return rounded_as(double(cost.parameters) * 1e-6, line.value);
  if (key == "G macs") return rounded_as(double(cost.macs_with_norms()) * 1e-9, line.value);
  if (key == "G products") return rounded_as(double(cost.macs) * 1e-9, line.value);
  if (key == "peak_lr") {
    const OptimizerSettings& o = config.train.optimizer;
    return o.lr_batch > 0 ? o.lr * double(config.train.batch_size) / double(o.lr_batch) : o.lr;
  }
  if (key == "layer_scale_init")
    return layer_scale_init(placement_of(config.model).layer_scale,
                            std::visit([](const auto& c) { return block_count(c); }, config.model));
  std::string pointer = "/" + key;
  for (char& c : pointer)
    if (c == '.') c = '/';
  const nlohmann::json::json_pointer at(pointer);
  return settings.contains(at) ? settings.at(at) : nlohmann::json();
}

/// Whether a row's label has `row` as one of its parts; every label has "".
inline bool names_row(const std::string& label, const std::string& row) {
  const std::size_t at = label.find(row), end = at + row.size();
  if (row.empty()) return true;
  if (at == label.npos) return false;
  const bool begins = at == 0 || row[0] == '=' || label[at - 1] == ' ' || label[at - 1] == '=';
  const bool ends = end == label.size() || label[end] == ',';
  return (begins && ends) || names_row(label.substr(at + 1), row);
}

/// Every line must agree with every row of the descriptor that `row` names, or be listed as a deviation with
/// both values; a deviation that the lines speak of must be one. Returns the keys of the deviations met.
inline std::set<std::string> check_lines(const std::string& name, const std::string& row, const Lines& lines) {
  const Experiment experiment = load_experiment(file_of(name));
  std::set<std::string> met;
  int rows = 0;
  for (const Cell& cell : experiment.rows) {
    if (!names_row(cell.label, row)) continue;
    ++rows;
    const TrialConfig& config = first_trial(experiment, cell).config;
    const nlohmann::json settings = nlohmann::json::parse(full_json(config));
    for (const Line& line : lines) {
      INFO(name, ", ", cell.label, ": ", std::string(line.printed), " -> ", std::string(line.key));
      const nlohmann::json here = value_of(config, settings, line);
      if (line.value == std::string("absent")) {
        CHECK(here.is_null());
        continue;
      }
      const nlohmann::json printed = nlohmann::json::parse(line.value);
      const Deviation* listed = nullptr;
      for (const Deviation& d : experiment.paper.deviations)
        if (d.key == line.key) listed = &d;
      if (listed == nullptr) {
        CHECK_MESSAGE(here == printed, here.dump(), " here, ", printed.dump(), " printed, and no deviation is listed");
        continue;
      }
      met.insert(listed->key);
      CHECK_MESSAGE(here != printed, "listed as a deviation, and is none");
      CHECK_MESSAGE(nlohmann::json::parse(listed->paper) == printed, "the deviation says ", listed->paper);
      CHECK_MESSAGE(nlohmann::json::parse(listed->here) == here, "the deviation says ", listed->here, ", it is ",
                    here.dump());
    }
  }
  CHECK_MESSAGE(rows > 0, name, " has no row with ", row);
  return met;
}

/// The same for lines that must speak of every deviation of the descriptor.
inline void check_table(const std::string& name, const std::string& row, const Lines& lines) {
  const std::set<std::string> met = check_lines(name, row, lines);
  for (const Deviation& d : load_experiment(file_of(name)).paper.deviations)
    CHECK_MESSAGE(met.count(d.key) == 1, d.where, ": no line of the paper speaks of ", d.key);
}

}  // namespace normlab
