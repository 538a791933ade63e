#include "experiments/sweep/plan_file.h"

#include <nlohmann/json.hpp>

namespace normlab {

std::string plan_json(const Experiment& experiment) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const Cell& row : experiment.rows) {
    Json trials = Json::array();
    for (const std::size_t t : row.trials)
      trials.push_back({{"id", experiment.trials[t].id}, {"seed", experiment.trials[t].config.seed}});
    Json out{{"label", row.label}, {"trials", std::move(trials)}};
    if (row.baseline) out["baseline"] = experiment.rows[*row.baseline].label;
    for (const auto& [axis, label] : row.axes) out["axes"][axis] = label;
    rows.push_back(std::move(out));
  }
  return Json{{"about", experiment.about}, {"rows", std::move(rows)}}.dump(2) + "\n";
}

}  // namespace normlab
