// Image-text trainings from their first step to their result.
#include <doctest/doctest.h>

#include <cmath>

#include "experiments/lab/base/files.h"
#include "experiments/lab/train/evaluation.h"
#include "experiments/lab/train/stored_features.h"
#include "experiments/lab/train/verify.h"
#include "experiments/lab/weights/convert_files.h"
#include "tests/devices.h"
#include "tests/lab/train/small_trial.h"

using namespace normlab;

namespace {

TrialConfig pairs() {
  TrialConfig c = SmallTrial::of_pairs();
  c.train.freeze = {"stem", "blocks", "final"};
  c.train.loss = LossKind::sigmoid;
  return c;
}

std::map<std::string, double> metrics(const SmallTrial& trial, const TemporaryFolder& folder) {
  return trial.folder(folder.path()).load_result()->metrics;
}

}  // namespace

TEST_CASE("pairs: a training gives accuracy, recalls and loss, the same for any number of threads") {
  const SmallTrial trial(pairs());
  const TemporaryFolder one, three;
  REQUIRE(trial.run(one.path()) == TrialOutcome::done);
  TrialOptions options;
  options.threads = 3;
  options.data_threads = 2;
  REQUIRE(trial.run(three.path(), options) == TrialOutcome::done);
  const auto found = metrics(trial, one);
  for (const char* name : {"eval/accuracy", "eval/text_recall1", "eval/image_recall1", "minival/accuracy"}) {
    CAPTURE(std::string(name));
    REQUIRE(found.contains(name));
    CHECK(found.at(name) >= 0);
    CHECK(found.at(name) <= 1);
  }
  CHECK(std::isfinite(found.at("eval/loss")));
  CHECK(found == metrics(trial, three));
  CHECK(read_file(trial.folder(one.path()).log(1)).find("inputs are computed once: 110 images") != std::string::npos);
}

TEST_CASE("pairs: a resumed training has the same bits, and can be verified") {
  TrialConfig c = pairs();
  c.train.loss = LossKind::softmax;
  c.train.ema.decay = 0.9;
  const SmallTrial trial(c);
  const TemporaryFolder whole, halves;
  REQUIRE(trial.run(whole.path()) == TrialOutcome::done);
  REQUIRE(trial.run(halves.path(), SmallTrial::until(7)) == TrialOutcome::stopped);
  REQUIRE(trial.run(halves.path()) == TrialOutcome::done);
  CHECK(metrics(trial, whole) == metrics(trial, halves));
  VerifyOptions from_start;
  from_start.from = 0;
  const VerifyReport report = verify_trial(trial.config, trial.folder(whole.path()), trial.data, from_start);
  CHECK_FALSE(report.difference);
  CHECK(report.result);
}

TEST_CASE("pairs: stored features change no bit, and augmented images are not stored") {
  TrialConfig c = pairs();
  const SmallTrial trial(c);
  const TemporaryFolder once, anew;
  REQUIRE(trial.run(once.path()) == TrialOutcome::done);
  TrialOptions options;
  options.probes.of(ProbeKind::gradients).listed.push_back({.step = 0, .where = "train"});
  REQUIRE(trial.run(anew.path(), options) == TrialOutcome::done);
  CHECK(metrics(trial, once) == metrics(trial, anew));
  c.train.augment.crop_padding = 2;
  CHECK(feature_plan(c, {60, 30, 20}).obstacle == "train.augment.crop_padding changes the images");
  c.train.freeze = {"stem"};
  CHECK(feature_plan(c, {60, 30, 20}).width == 0);
  const SmallTrial both(c);
  const TemporaryFolder folder;
  CHECK(both.run(folder.path()) == TrialOutcome::done);
}

TEST_CASE("pairs: a trained network is evaluated again from its checkpoint") {
  on_each_device([] {
    const SmallTrial trial(pairs());
    const TemporaryFolder folder;
    TrialOptions options;
    options.backend = &current_device().backend;
    REQUIRE(trial.run(folder.path(), options) == TrialOutcome::done);
    const WeightFile file = read_weight_file(trial.folder(folder.path()).checkpoint(1));
    auto again = evaluate_again(trial.config, file, trial.data, 2, current_device().backend);
    auto before = metrics(trial, folder);
    before.erase("train/loss");
    before.erase(kFirstLoss);
    CHECK(again == before);
  });
}

TEST_CASE("pairs: scenes are learnt") {
  TrialConfig c = pairs();
  c.dataset = {.captions = true, .train_images = 600, .eval_images = 100, .label = ShapesLabel::colour};
  ViTConfig& vit = std::get<ViTConfig>(c.model);
  vit.num_classes = 8;
  vit.patch_size = 8;
  vit.embed_dim = vit.text.embed_dim = 32;
  vit.mlp_dim = vit.text.mlp_dim = 64;
  c.train.freeze = {};
  c.train.loss = LossKind::softmax;
  c.train.batch_size = 50;
  c.train.epochs = 12;
  c.train.eval_every_epochs = 0;
  c.train.optimizer.lr = 3e-3;
  c.eval.templates = {"a {} disc", "a {} square"};
  const SmallTrial trial(c);
  const TemporaryFolder folder;
  REQUIRE(trial.run(folder.path()) == TrialOutcome::done);
  CHECK(metrics(trial, folder).at("eval/accuracy") > 0.3);  // of 8 colours
}

TEST_CASE("pairs: a vocabulary larger than the tower's is refused with both sizes") {
  TrialConfig c = pairs();
  std::get<ViTConfig>(c.model).text.vocabulary = 20;
  const SmallTrial trial(c);
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(trial.run(folder.path()),
                       "model.text.vocabulary is 20, but the vocabulary, the words of the captions of shapes, has 34 "
                       "numbers with the end mark; set it to 34 or more",
                       InputError);
}
