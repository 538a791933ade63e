// A descriptor's "probes": steps at which signal and gradients are measured. They do not affect results, so they are
// not part of a trial or its id.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/descriptor/problems.h"

namespace normlab {

/// A step, counted from 0, and its place in the descriptor: "file:line:column: /probes/signal/0".
struct ProbeStep {
  std::int64_t step = 0;
  std::string where;
};

struct ProbeConfig {
  std::vector<ProbeStep> signal, gradients;  // as written
  std::int64_t gradients_every = 0;          // steps 0, n, 2 n, ... instead of the list; 0: the list

  bool empty() const { return signal.empty() && gradients.empty() && gradients_every == 0; }
  bool signal_at(std::int64_t step) const { return has(signal, step); }
  bool gradients_at(std::int64_t step) const {
    return gradients_every > 0 ? step % gradients_every == 0 : has(gradients, step);
  }

 private:
  static bool has(const std::vector<ProbeStep>& steps, std::int64_t step) {
    return std::any_of(steps.begin(), steps.end(), [&](const ProbeStep& s) { return s.step == step; });
  }
};

/// Reports and omits invalid entries: an unknown key, anything but a list of steps (or a number, for `gradients`), a
/// step that is negative, not an integer, or repeated.
ProbeConfig read_probes(const JsonNode& node, Problems& problems);

/// InputError, one line per step, if `probes` ask for steps beyond the `steps` of `training` (its name in the message).
void require_within_training(const ProbeConfig& probes, std::int64_t steps, const std::string& training);

}  // namespace normlab
