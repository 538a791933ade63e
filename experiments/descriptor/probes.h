// "probes" of a descriptor: steps at which the signal and the gradients of a training are measured. They change what is
// recorded and no result, so they are no part of a trial and of its id.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/descriptor/problems.h"

namespace normlab {

/// A step, 0 the first, and where the descriptor asks for it: "file:line:column: /probes/signal/0".
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

/// The value of "probes". What is wrong is noted and left out: an unknown key, anything but a list of steps (for
/// `gradients` a number as well), a step that is negative, no integer, or given twice.
ProbeConfig read_probes(const JsonNode& node, Problems& problems);

/// Throws InputError, one line a step, where `probes` ask for steps that `training` (its name in the message) of
/// `steps` steps does not have.
void require_within_training(const ProbeConfig& probes, std::int64_t steps, const std::string& training);

}  // namespace normlab
