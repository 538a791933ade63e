// A results folder that has everything a sweep leaves: trials that are done, diverged, failed, stopped, resumed and
// retried, all that may be kept of checkpoints, decisions of `tune` and of two-stage seeds.
#pragma once

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/sweep/stages.h"
#include "experiments/lab/sweep/worker.h"
#include "experiments/lab/train/keep.h"
#include "experiments/lab/train/trial.h"
#include "tests/damage/forked.h"

namespace normlab {

class ResultsFolder {
 public:
  /// Trains in `folder`/out. std::runtime_error where a run fails.
  explicit ResultsFolder(const std::filesystem::path& folder) : folder_(folder) {
    describe("finished", R"([{"model.placement": ["pre_pre", "dpn"]}, )" + kDiverging + "]",
             R"("baseline": {"model.placement": "pre_pre"}, "seeds": 2)");
    describe("all",
             R"([{"model.placement": ["pre_pre", "dpn"]}, )" + kDiverging + R"(, {"model.placement": ["sub_ln"]}])",
             R"("baseline": {"model.placement": "pre_pre"}, "seeds": 2)");
    describe(
        "tuned", R"([{"model.placement": ["pre_pre", "post_post"]}])",
        R"("baseline": {"model.placement": "pre_pre"}, "seeds": 2, "tune": [{"axes": {"train.optimizer.lr": [0.001, 0.01]},
                                      "dataset": {"train": "train[:30]", "eval": "train[30:40]"}}])");
    describe("staged", R"([{"model.placement": ["pre_pre", "bn_ffnbn"]}])",
             R"("baseline": {"model.placement": "pre_pre"}, "seeds": {"first": 2, "max": 3, "gain_halfwidth": 0.001})");
    describe("kept", R"([{"model.placement": ["normformer"]}])", R"("seeds": 2, "checkpoint": {"keep": "weights"})");

    const Experiment all = load("all");
    const std::vector<std::size_t>&dpn = all.rows[1].trials, &open = all.rows[3].trials;
    train(all.trials[dpn[1]], 5);  // continues below as a second attempt
    for (const char* stem : {"finished", "tuned", "staged", "kept"}) run({stem});
    run({"finished", "--retry", "diverged"});
    train(all.trials[open[0]], 6);
    const Trial& failed = all.trials[open[1]];
    make_folders(store().trial(failed.id).path());
    store().trial(failed.id).write_config(full_json(failed.config));
    publish_failure(store().trial(failed.id), failed, "out of memory");
    apply_keep(store().trial(all.trials[all.rows[0].trials[0]].id), KeepCheckpoint::none);
    store().write_plan("all", plan_json(all));
    for (const char* stem : kStems) call({"table", descriptor(stem)});  // notes how many seeds there are
  }

  static constexpr const char* kStems[] = {"all", "finished", "tuned", "staged", "kept"};
  std::string descriptor(const std::string& stem) const { return (folder_ / (stem + ".json")).string(); }
  Experiment load(const std::string& stem) const { return next_stage(load_experiment(descriptor(stem)), store()); }
  ResultStore store() const { return ResultStore(folder_ / "out"); }

 private:
  inline static const std::string kDiverging =
      R"({"model.placement": ["post_post"], "train.optimizer": [{"name": "sgd", "lr": 1e18}]})";
  static constexpr const char* kData =
      R"({"name": "shapes", "train_images": 60, "eval_images": 40, "train": "train[:40]", "minival": "train[40:]",
          "allow_absent_classes": true})";

  void describe(const std::string& stem, const std::string& sweep, const std::string& rest) const {
    std::ofstream(descriptor(stem)) << R"({"about": "for damage", "dataset": )" << kData << R"(,
      "model": {"kind": "vit", "patch_size": 16, "embed_dim": 8, "mlp_dim": 16, "depth": 1, "num_heads": 2,
                "pool": "gap"},
      "train": {"epochs": 3, "batch_size": 10, "eval_every_epochs": 1, "ema": {"decay": 0.9}},
      "sweep": )" << sweep << ", " << rest
                                    << "}";
  }
  Outcome call(std::vector<std::string> words) const {
    words.insert(words.end(), {"--out", store().out().string()});
    return run_forked(words, folder_);
  }
  void run(std::vector<std::string> words) const {
    words[0] = descriptor(words[0]);
    words.insert(words.begin(), "run");
    words.insert(words.end(), {"--workers", "1", "--threads", "1"});
    if (const Outcome done = call(words); done.code != 0) throw std::runtime_error(done.err);
  }
  void train(const Trial& trial, std::int64_t steps) const {
    const TrialFolder folder = store().trial(trial.id);
    make_folders(folder.path());
    folder.write_config(full_json(trial.config));
    const std::optional<Claim> claim = folder.claim();
    TrialOptions options;
    options.stop_at = steps;
    run_trial(trial.config, trial.id, load_dataset(trial.config.dataset, std::nullopt, 1), folder, &*claim, options);
  }

  std::filesystem::path folder_;
};

}  // namespace normlab
