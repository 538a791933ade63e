// A small sweep with made-up results.
#pragma once

#include <filesystem>
#include <fstream>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/tables/sweep_table.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/base/temporary_folder.h"

namespace normlab {

/// Two placements at two rates, two seeds each.
struct SmallSweep {
  explicit SmallSweep(const char* seeds = "2") : store(folder / "out") {
    std::ofstream(folder / "small.json") << R"({
      "about": "Which one?", "dataset": {"name": "shapes"},
      "model": {"kind": "vit", "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
      "train": {"steps": 10, "batch_size": 4, "optimizer": {"lr": 0.01}},
      "sweep": {"model.placement": ["pre_pre", "dpn"], "train.optimizer.lr": [0.001, 0.01]},
      "baseline": {"model.placement": "pre_pre"}, "seeds": )"
                                         << seeds << "}";
    experiment = load_experiment(folder / "small.json");
  }

  TrialResult result(std::size_t t) const {
    const Trial& trial = experiment.trials[t];
    TrialResult result;
    result.id = trial.id;
    result.seed = trial.config.seed;
    result.attempt = 1;
    result.metrics = {{"eval/accuracy", 0.5 + 0.01 * double(t) + 0.003 * double(t * t % 5)}, {"eval/loss", 1.5}};
    result.provenance = {{"version", "1"}, {"device", "cpu"}};
    return result;
  }
  void publish(std::size_t t, const TrialResult& result) const {
    const TrialFolder trial = store.trial(experiment.trials[t].id);
    trial.write_config(full_json(experiment.trials[t].config));
    trial.publish_result(result);
  }
  void publish_all() const {
    for (std::size_t t = 0; t < experiment.trials.size(); ++t) publish(t, result(t));
  }
  TableModel model(const TableOptions& options = {}) const { return sweep_table_model(experiment, store, options); }
  std::filesystem::path result_file(std::size_t t) const {
    return store.trial(experiment.trials[t].id).path() / "result.json";
  }

  TemporaryFolder folder;
  ResultStore store;
  Experiment experiment;
};

}  // namespace normlab
