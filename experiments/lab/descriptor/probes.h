// A descriptor's "probes": what is measured during a training, and at which steps. They do not affect results, so they
// are not part of a trial or its id.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/field.h"
#include "experiments/lab/descriptor/problems.h"

namespace normlab {

enum class ProbeKind : std::uint8_t {
  signal,
  gradients,
  updates,
  attention,
  activations,
  mapping,
  stem_scale,
  batch_accuracy
};
inline constexpr std::size_t kProbes = 8;

/// A step, counted from 0, and its place in the descriptor: "file:line:column: /probes/signal/0".
struct ProbeStep {
  std::int64_t step = 0;
  std::string where;
};

/// The steps of one probe.
struct ProbeSteps {
  std::vector<ProbeStep> listed;  // as written
  std::int64_t every = 0;         // steps 0, n, 2 n, ... too; 0: only the list
  std::int64_t last = 0;          // of these, keep only so many before the training's end; 0: all

  bool empty() const { return listed.empty() && every == 0; }
  bool at(std::int64_t step) const { return lists(step) || (every > 0 && step % every == 0); }
  /// Whether the measurement of that step waits for the training's end, and may then be dropped.
  bool waits(std::int64_t step) const { return last > 0 && !lists(step); }
  /// The steps that a training of `trained` steps keeps, in order.
  std::vector<std::int64_t> kept(std::int64_t trained) const;

 private:
  bool lists(std::int64_t step) const {
    return std::any_of(listed.begin(), listed.end(), [&](const ProbeStep& s) { return s.step == step; });
  }
};

template <std::same_as<ProbeSteps> T>
constexpr auto rows_of(const T*) {
  return Fields{field("at", &T::listed), field("every", &T::every, "", kFromOne),
                field("last", &T::last, "", kFromOne)};
}

struct ProbeConfig {
  ProbeSteps signal, gradients, updates, attention, activations, mapping, stem_scale, batch_accuracy;
  bool without_block = false;  // after the training, evaluate without each block

  const ProbeSteps& of(ProbeKind kind) const;
  ProbeSteps& of(ProbeKind kind) { return const_cast<ProbeSteps&>(std::as_const(*this).of(kind)); }
  bool at(ProbeKind kind, std::int64_t step) const { return of(kind).at(step); }
  bool empty() const;
};

struct ProbeRow {
  ProbeKind kind;
  ProbeSteps ProbeConfig::*steps;
  std::string_view word;     // its key under "probes"
  std::string_view metrics;  // what the names of its metrics begin with
  std::string_view doc;      // what is measured
  double cost;  // time of a measured step over that of another, about; docs/tables.md says how it was taken
};
/// In the order of ProbeKind.
inline constexpr std::array<ProbeRow, kProbes> kProbeRows{{
    {ProbeKind::signal, &ProbeConfig::signal, "signal", "af", "moments of the residual stream and its branches", 1.2},
    {ProbeKind::gradients, &ProbeConfig::gradients, "gradients", "grad_norm/", "norm of each layer's gradient", 1.0},
    {ProbeKind::updates, &ProbeConfig::updates, "updates", "update/",
     "norm of each layer's update over that of its weights", 1.0},
    {ProbeKind::attention, &ProbeConfig::attention, "attention", "attention.",
     "entropy and largest logit of each layer's attention", 1.05},
    {ProbeKind::activations, &ProbeConfig::activations, "activations", "activation.",
     "moments and histogram of each norm's input", 1.15},
    {ProbeKind::mapping, &ProbeConfig::mapping, "mapping", "mapping.",
     "points of each norm's input and output before its gain", 1.15},
    {ProbeKind::stem_scale, &ProbeConfig::stem_scale, "stem_scale", "stem_scale",
     "gain and bias of the norm at stem.patch_in", 1.0},
    {ProbeKind::batch_accuracy, &ProbeConfig::batch_accuracy, "batch_accuracy", "train/batch_accuracy",
     "accuracy on the augmented images of the step, as the training sees them", 1.0},
}};
inline constexpr const ProbeRow& row_of(ProbeKind kind) { return kProbeRows[static_cast<std::size_t>(kind)]; }
inline const ProbeSteps& ProbeConfig::of(ProbeKind kind) const { return this->*row_of(kind).steps; }
template <std::same_as<ProbeConfig> T>
constexpr auto rows_of(const T*) {
  return std::apply(
      [](const auto&... row) {
        return Fields{field("without_block", &T::without_block), field(row.word, row.steps)...};
      },
      kProbeRows);
}

/// The time that the probes add to the steps of a training, as a share of it, about (ProbeRow::cost).
double added_time(const ProbeConfig& probes, std::int64_t steps);

/// InputError, one line per step, if `probes` ask for steps beyond the `steps` of `training` (its name in the message).
void require_within_training(const ProbeConfig& probes, std::int64_t steps, const std::string& training);

}  // namespace normlab
