// Descriptors of task segment: what they need, and what does not belong there.
#include <doctest/doctest.h>

#include "experiments/lab/descriptor/tasks.h"
#include "tests/lab/base/text.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

/// What reading says about a descriptor with this data set, model and rest.
std::string said(const std::string& dataset, const std::string& model, const std::string& rest = "") {
  DescriptorFiles files;
  return files.problems(R"({"about": "a test", "dataset": {)" + dataset + R"(}, "model": {)" + model + "}" + rest +
                        "}");
}

const std::string kScenes = R"("name": "shapes", "masks": "classes")", kSegment = R"("task": "segment")";

}  // namespace

TEST_CASE("segment descriptor: masks and the task need each other") {
  CHECK(said(kScenes, kSegment) == "");
  CHECK(has(said(R"("name": "shapes")", kSegment), "task segment needs a label for each pixel"));
  CHECK(has(said(kScenes, ""), "/dataset/masks: only a network that answers each pixel uses this"));
  CHECK(
      has(said(R"("name": "gratings", "masks": "classes")", kSegment), "the data sets shapes and ade20k, have masks"));
  CHECK(has(said(R"("name": "shapes")", "", R"(, "train": {"augment": {"segment": {"photometric": true}}})"),
            "set model.task to \"segment\""));
}

TEST_CASE("segment descriptor: classes and sizes come from the data") {
  DescriptorFiles files;
  const Experiment e = files.load(
      R"({"dataset": {"name": "shapes", "masks": "from_one"}, "model": {"task": "segment", "image_size": 16}})");
  CHECK(num_classes(e.trials.front().config.model) == 5);
  CHECK(image_size(e.trials.front().config.model)[0] == 16);
}

TEST_CASE("segment descriptor: what changes an image alone is refused") {
  const auto train = [&](const std::string& settings) {
    return said(kScenes, kSegment, R"(, "train": {)" + settings + "}");
  };
  CHECK(has(train(R"("augment": {"crop": "stretch"})"), "this changes an image and not its mask"));
  CHECK(has(train(R"("augment": {"mix": {"mixup": 0.2}})"), "this changes an image and not its mask"));
  CHECK(has(train(R"("eval_transform": {"crop": "stretch"})"), "eval.segment sets the windows"));
  CHECK(has(train(R"("loss": "sigmoid")"), "the loss of a pixel is a softmax's"));
  CHECK(has(train(R"("label_smoothing": 0.1)"), "the loss of a pixel has no smoothing"));
  CHECK(train(R"("augment": {"flip": true})") == "");
  CHECK(has(said(kScenes + R"(, "per_class": 5)", kSegment), "use dataset.fraction"));
  CHECK(has(said(kScenes, kSegment + R"(, "rep_size": 8)"), "task segment pools no tokens"));
  CHECK(has(said(kScenes, R"("kind": "swin", "task": "segment")"), "task"));
}

TEST_CASE("segment descriptor: windows and factors must fit") {
  const auto windows = [&](const std::string& settings) {
    return said(kScenes, kSegment, R"(, "eval": {"segment": {)" + settings + "}}");
  };
  CHECK(has(windows(R"("resize_to": 24)"), "does not fit into an image whose shorter side has 24"));
  CHECK(has(windows(R"("stride": 33)"), "would leave gaps"));
  CHECK(windows(R"("resize_to": 40, "stride": 16)") == "");
  CHECK(has(said(kScenes, kSegment, R"(, "train": {"augment": {"segment": {"scale": [2, 0.5]}}})"),
            "the first number is larger than the second"));
}

TEST_CASE("segment descriptor: early stopping and two-stage seeds use its metrics") {
  const std::string dataset = kScenes + R"(, "train": "train[:90%]", "minival": "train[90%:]")";
  const auto stop = [&](const std::string& metric) {
    return said(dataset, kSegment, R"(, "train": {"early_stop": {"metric": ")" + metric + R"("}})");
  };
  CHECK(stop("minival/miou") == "");
  CHECK(has(stop("minival/accuracy"),
            R"(expected "minival/miou", "minival/pixel_accuracy", "minival/loss", "minival/ema_miou")"));
  CHECK(metric_for(Task::segment, "eval/accuracy") == "eval/miou");
  CHECK(metric_for(Task::segment, "eval/loss") == "eval/loss");
  CHECK(metric_for(Task::classify, "eval/accuracy") == "eval/accuracy");
}
