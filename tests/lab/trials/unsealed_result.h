// Results as versions wrote them before there were seals.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>

#include "experiments/lab/trials/store.h"

namespace normlab {

inline std::string unsealed_text(const TrialResult& result) {
  auto json = nlohmann::ordered_json::parse(write_trial_result(result));
  for (const char* key : {"files", "sha256"}) json.erase(key);
  json["schema"] = 1;
  return json.dump(2) + "\n";
}

inline void publish_unsealed(const TrialFolder& trial, const TrialResult& result) {
  std::filesystem::create_directories(trial.path());
  std::ofstream(trial.path() / "result.json") << unsealed_text(result);
}

}  // namespace normlab
