// What is done with a trained network: segmentation.
#include "experiments/lab/data/sliding_windows.h"
#include "experiments/lab/metrics/mean_iou.h"
#include "nn/model/model.h"
#include "nn/training/task.h"
#include "tests/nn/model/small_network.h"
#include "tests/reference/graph.h"

namespace normlab::reference {
namespace {

void add_iou(Results& results, const ConfusionMatrix& confusion, std::int64_t classes) {
  results.add("out/matrix", {classes, classes}, {confusion.counts().begin(), confusion.counts().end()});
  std::vector<double> iou = confusion.iou();
  for (double& one : iou)
    if (one != one) one = -1;  // a file holds no NaN
  results.add("out/iou", {classes}, iou);
  results.add("out/miou", Shape(), {confusion.mean_iou()});
  results.add("out/accuracy", Shape(), {confusion.pixel_accuracy()});
}

/// The head, the resized logits and the task's loss.
Results segmentation(const Fixture& f) {
  Graph g(f);
  const auto grid = f.config().at("grid").get<std::vector<std::int64_t>>();
  const Tensor labels = g.labels("labels");
  const Shape& shape = labels.shape();
  const std::int64_t classes = f.config().at("num_classes").get<std::int64_t>();
  const Var patches =
      reshape(linear(g["tokens"], g["head.weight"], g["head.bias"]), {shape[0], grid.at(0), grid.at(1), classes});
  std::int64_t labelled = 0;
  for (std::int64_t i = 0; i < labels.size(); ++i) labelled += labels.data<std::int32_t>()[i] != kIgnoredLabel;
  ParameterSet unused;
  const auto model = make_model(unused, small_vit("pre_pre"));  // the loss of pixels needs none
  const StepSettings settings;
  const Step step{.parameters = unused};
  const Shard shard{.step = step, .tape = patches.tape()};
  const Var losses =
      row_of(Task::segment).losses({patches, labels, settings, shard, *model, double(shape[0]) / double(labelled)});
  const Var logits = resample(patches, shape[1], shape[2], Resampling::bilinear);
  current_device().backend.synchronize();
  Results results = g.finish_mean(losses);
  results.add("out/logits", logits.value());
  return results;
}

Results sliding_windows(const Fixture& f) {
  const auto pair = [&](const char* name) {
    const auto sides = f.config().at(name).get<std::vector<std::int64_t>>();
    return ImageSize{sides.at(0), sides.at(1)};
  };
  const auto number = [&](const char* name) { return f.config().at(name).get<std::int64_t>(); };
  const ImageSize size = pair("size"), original = pair("original");
  const std::int64_t classes = number("num_classes"), window = number("window"), stride = number("stride");
  const std::vector<std::int64_t> rows = window_starts(size.height, window, stride),
                                  columns = window_starts(size.width, window, stride);
  if (rows != f.config().at("rows").get<std::vector<std::int64_t>>() ||
      columns != f.config().at("columns").get<std::vector<std::int64_t>>())
    throw InputError("the windows begin elsewhere");
  const std::vector<double> windows = f.numbers("in/windows");
  auto next = windows.begin();
  WindowMean mean(size, classes);
  std::vector<double> covered(static_cast<std::size_t>(size.height * size.width));
  for (const std::int64_t top : rows)
    for (const std::int64_t left : columns) {
      const auto end = next + window * window * classes;
      mean.add({top, left, window, window}, {next, end});
      next = end;
      for (std::int64_t y = top; y < top + window; ++y)
        for (std::int64_t x = left; x < left + window; ++x) ++covered[static_cast<std::size_t>(y * size.width + x)];
    }
  const std::vector<float> logits = mean.take(), resized = upsample(logits, size, original, classes);
  Results results{"float"};
  results.add("out/count", {size.height, size.width}, covered);
  results.add("out/logits", {size.height, size.width, classes}, {logits.begin(), logits.end()});
  results.add("out/resized", {original.height, original.width, classes}, {resized.begin(), resized.end()});
  const std::vector<double> labels = f.numbers("const/labels");
  ConfusionMatrix confusion(classes);
  std::vector<double> predictions;
  for (std::size_t p = 0; p < labels.size(); ++p) {
    const auto z = resized.begin() + std::int64_t(p) * classes;
    const auto best = static_cast<std::int32_t>(std::max_element(z, z + classes) - z);
    predictions.push_back(best);
    confusion.add(static_cast<std::int32_t>(labels[p]), best);
  }
  results.add("out/predictions", {original.height, original.width}, predictions);
  add_iou(results, confusion, classes);
  return results;
}

}  // namespace

std::vector<Results> run_mean_iou(const Fixture& f) {
  const std::int64_t classes = f.config().at("num_classes").get<std::int64_t>();
  const std::vector<double> labels = f.numbers("in/labels"), predictions = f.numbers("in/predictions");
  ConfusionMatrix confusion(classes);
  for (std::size_t p = 0; p < labels.size(); ++p)
    confusion.add(static_cast<std::int32_t>(labels[p]), static_cast<std::int32_t>(predictions[p]));
  Results results{"counts"};
  add_iou(results, confusion, classes);
  return {results};
}

std::vector<Results> run_transfer(const Fixture& f) {
  if (f.op() == "segmentation") return {segmentation(f)};
  if (f.op() == "sliding_windows") return {sliding_windows(f)};
  return run_image_text(f);
}

}  // namespace normlab::reference
