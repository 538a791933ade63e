// "eval": {"metrics": [...]}, which changes no trial.
#include <doctest/doctest.h>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/tasks.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

TEST_CASE("eval metrics: they are no part of a trial's id or its config") {
  DescriptorFiles files;
  const std::string metrics = R"("metrics": ["balanced_accuracy", "top5_accuracy", "per_class"])";
  for (const std::string rest : {"", R"("train_images": 20)"}) {
    const Experiment plain = files.load("{\"eval\": {" + rest + "}}");
    const Experiment more = files.load("{\"eval\": {" + rest + (rest.empty() ? "" : ", ") + metrics + "}}");
    const TrialConfig& config = more.trials[0].config;
    CHECK(config.eval.metrics.size() == 3);
    CHECK(more.trials[0].id == plain.trials[0].id);
    CHECK(full_json(config) == full_json(plain.trials[0].config));
    CHECK(full_json(config).find("\"metrics\"") == std::string::npos);
  }
}

TEST_CASE("eval metrics: what cannot be measured is refused with the reason") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"eval": {"metrics": ["top5"]}})") ==
        "d.json:1:23: /eval/metrics/0: unknown word \"top5\"; did you mean \"top5_accuracy\"?");
  CHECK(files.problems(R"({"eval": {"metrics": ["per_class", "per_class"]}})") ==
        "d.json:1:36: /eval/metrics/1: per_class is given twice");
  const std::string few = R"("dataset": {"name": "shapes", "label": "kind"})";
  CHECK(files.problems("{" + few + R"(, "eval": {"metrics": ["per_class", "top5_accuracy"]}})") ==
        "d.json:1:84: /eval/metrics/1: top5_accuracy asks whether the right class is among five answers, and there are "
        "5 classes, so it is always 1; leave it out");
  CHECK(files.problems("{" + few + R"(, "eval": {"metrics": ["balanced_accuracy"]}})") == "");
  CHECK(files.problems(R"({"sweep": {"eval.metrics": [["per_class"], []]}})") ==
        "d.json:1:12: /sweep/eval.metrics: metrics change no training, so the rows would be the same trials; set "
        "\"eval\": {\"metrics\": [...]} outside the sweep");
  CHECK(files
            .problems(R"({"dataset": {"name": "shapes", "label": "kind", "masks": "classes"},
                          "model": {"task": "segment"}, "eval": {"metrics": ["balanced_accuracy"]}})")
            .find("/eval/metrics: an image with a mask has no class of its own") != std::string::npos);
}

TEST_CASE("eval metrics: what decides on a training is measured whatever the descriptor asks for") {
  DescriptorFiles files;
  const std::string stop = R"({"dataset": {"train": "train[:90%]", "minival": "train[90%:]"},
    "train": {"eval_every_epochs": 1, "early_stop": {"metric": "minival/ema_balanced_accuracy", "patience": 2},
              "ema": {"decay": 0.9}}})";
  const Experiment e = files.load(stop);
  CHECK(measures(e.trials[0].config, EvalMetric::balanced_accuracy));
  CHECK(!measures(e.trials[0].config, EvalMetric::top5_accuracy));
  CHECK(e.trials[0].config.eval.metrics.empty());
  std::string other = stop;
  other.replace(other.find("ema_balanced_accuracy"), 21, "class_accuracy/disc");
  CHECK(files.problems(other).find("unknown metric \"minival/class_accuracy/disc\"") != std::string::npos);
  const std::string seeds = R"({"sweep": {"model.placement": ["pre_pre", "dpn"]}, "baseline": {"model.placement":
    "pre_pre"}, "seeds": {"first": 2, "max": 4, "gain_halfwidth": 1, "metric": "eval/balanced_accuracy"})";
  CHECK(files.problems(seeds + "}")
            .find("/seeds: eval/balanced_accuracy is not measured; add \"balanced_accuracy\" "
                  "to eval.metrics") != std::string::npos);
  CHECK(files.problems(seeds + R"(, "eval": {"metrics": ["balanced_accuracy"]}})") == "");
}

TEST_CASE("eval metrics: a class may be called anything") {
  CHECK(requested_by("eval/ema_top5_accuracy") == EvalMetric::top5_accuracy);
  CHECK(requested_by("minival/class_accuracy/loss") == EvalMetric::per_class);
  for (const char* always : {"eval/accuracy", "eval/loss", "eval/per_class", "train/loss", "eval/5shot_accuracy"})
    CHECK(!requested_by(always));
  CHECK(is_share("eval/class_accuracy/loss"));
  CHECK(!is_loss("eval/ema_class_accuracy/a loss"));
  CHECK(is_loss("eval/ema_loss"));
  CHECK(short_list({"eval/accuracy", "eval/class_accuracy/a", "eval/class_accuracy/b/c"}) ==
        std::vector<std::string>{"eval/accuracy", "eval/class_accuracy/CLASS"});
}
