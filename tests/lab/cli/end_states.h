// The weights and metrics of finished trials, to compare runs.
#pragma once

#include <map>
#include <string>

#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/cli/program.h"

namespace normlab {

/// The weights that each finished trial ended with, and its metrics, by id.
inline std::map<std::string, std::string> end_states(const std::filesystem::path& out) {
  std::map<std::string, std::string> states;
  const ResultStore store(out);
  for (const std::string& id : store.trial_ids()) {
    const TrialFolder folder = store.trial(id);
    if (!folder.finished()) continue;
    const std::int64_t attempt = last_attempt(folder.path());
    const SafetensorsFile file = SafetensorsFile::read(folder.checkpoint(attempt));
    std::string& state = states[id];
    for (const TensorView& t : file.tensors())
      state += t.name + std::string(reinterpret_cast<const char*>(t.data.data()), t.data.size());
    state += text_of(folder.metrics(attempt));
  }
  return states;
}

}  // namespace normlab
