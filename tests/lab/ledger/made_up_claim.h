// A claim with made-up results.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "experiments/lab/ledger/ledger.h"
#include "tests/lab/pictures/fake_results.h"

namespace normlab {

/// A sweep of two placements, 3 seeds, with made-up results.
struct MadeUpClaim {
  explicit MadeUpClaim(const std::string& tests, const std::string& more = R"("scale": "twin",)")
      : store(folder / "out") {
    experiment = experiment_of(folder,
                               R"({
      "dataset": {"name": "shapes"},
      "model": {"kind": "vit", "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
      "train": {"batch_size": 4, "optimizer": {"lr": 0.01}},
      "sweep": {"train.epochs": [1], "model.placement": ["pre_pre", "dpn"]},
      "baseline": {"model.placement": "pre_pre"}, "seeds": 3,
      "claim": {"source": "A paper, Table 1", "says": "It helps.", "printed": "+2", )" +
                                   more + "\"tests\": [" + tests + "]}}",
                               "07-it-helps.json");
  }
  /// `probes`: a measurement "probe/x" of dpn by seed. `copy`: jpeg_copy() of the data.
  void finish(double gain, const std::map<std::uint64_t, double>& probes = {}, const std::string& copy = "") const {
    for (const Trial& trial : experiment.trials) {
      if (store.finished(trial.id)) continue;
      const double noise = 0.001 * double((7 * trial.config.seed + 3 * trial.row) % 5);
      const double accuracy = 0.5 + noise + (trial.row == 1 ? gain : 0);
      fake_metrics(store, trial, accuracy, kFakeEvaluations - 1);
      MetricsLog log(store.trial(trial.id).metrics(1));
      MetricsLine line{45, 0.9, {{"train/loss", 1.2}}};
      if (trial.row == 1 && probes.contains(trial.config.seed)) line.values["probe/x"] = probes.at(trial.config.seed);
      if (const auto found = measured.find(trial.config.seed); trial.row == 1 && found != measured.end())
        line.values.insert(found->second.begin(), found->second.end());
      log.append(line);
      log.append({50, 1.0, fake_values(trial, accuracy, kFakeEvaluations)});
      TrialResult result = fake_result(trial, TrialEnd::done, accuracy);
      if (!copy.empty()) result.provenance["jpeg_copy"] = copy;
      store.trial(trial.id).publish_result(result);
    }
  }
  LedgerLine line() const { return judge_claim(experiment, store, folder / "times.jsonl"); }

  TemporaryFolder folder;
  ResultStore store;
  Experiment experiment;
  std::map<std::uint64_t, std::map<std::string, double>> measured;  // of dpn, by seed
};

inline const std::string kGain = R"({"kind": "gain", "where": "placement = dpn", "range": [0, null]})";

}  // namespace normlab
