// One trial of a few steps, run within the test.
#pragma once

#include <string>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/train/trial.h"
#include "tests/lab/base/temporary_folder.h"

namespace normlab {

struct SmallTrial {
  TrialConfig config;
  std::string id;
  DataPair data;

  /// 24 steps of 10 generated images in 4 epochs, evaluated after each epoch.
  static TrialConfig settings() {
    TrialConfig c;
    c.dataset.train_images = 80;
    c.dataset.eval_images = 30;
    c.dataset.train = "train[:60]";
    c.dataset.minival = "train[60:]";
    c.dataset.allow_absent_classes = true;
    ViTConfig model;
    model.image_size = {32, 32};
    model.channels = 3;
    model.num_classes = 10;
    model.patch_size = 16;
    model.embed_dim = 8;
    model.mlp_dim = 32;
    model.depth = 1;
    model.num_heads = 2;
    model.placement = find_placement("pre_pre")->placement;
    c.model = model;
    c.train.epochs = 4;
    c.train.batch_size = 10;
    c.train.schedule.warmup_steps = 4;
    return c;
  }
  /// Of images and their captions.
  static TrialConfig of_pairs() {
    TrialConfig c = settings();
    c.dataset.label = ShapesLabel::kind;
    c.dataset.captions = true;
    ViTConfig& vit = std::get<ViTConfig>(c.model);
    vit.num_classes = 5;
    vit.task = Task::contrast;
    vit.text = {.vocabulary = 40, .length = 24, .embed_dim = 8, .depth = 1, .num_heads = 2, .mlp_dim = 16};
    c.eval.templates = {"a red {} at the top", "a {}"};
    return c;
  }
  static TrialConfig diverging() {
    TrialConfig c = settings();
    c.train.optimizer.name = OptimizerName::sgd;
    c.train.optimizer.lr = 1e30;
    return c;
  }
  explicit SmallTrial(const TrialConfig& c)
      : config(c), id(trial_id(c)), data(load_dataset(c.dataset, std::nullopt, 1)) {}

  /// Starts or resumes the trial in `out` with a new attempt. Returns the outcome.
  TrialOutcome run(const std::filesystem::path& out, TrialOptions options = {}) const {
    const TrialFolder folder = ResultStore(out).trial(id);
    folder.write_config(full_json(config));
    const std::optional<Claim> claim = folder.claim();
    if (!claim) throw std::runtime_error("the trial cannot be claimed");
    return run_trial(config, id, data, folder, &*claim, options);
  }
  TrialFolder folder(const std::filesystem::path& out) const { return ResultStore(out).trial(id); }
  /// Stops after `step` steps, with a checkpoint.
  static TrialOptions until(std::int64_t step) {
    TrialOptions options;
    options.stop_at = step;
    return options;
  }
};

}  // namespace normlab
