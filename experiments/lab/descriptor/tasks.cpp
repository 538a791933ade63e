#include "experiments/lab/descriptor/tasks.h"

#include <algorithm>

#include "experiments/lab/metrics/class_scores.h"

namespace normlab {
namespace {

void refuse_contrast(const TrialConfig& trial, const Report& report) {
  if (trial.dataset.captions)
    report("dataset.captions", "only task contrast uses captions; set model.task to \"contrast\", or leave it out");
  if (!trial.eval.templates.empty())
    report("eval.templates", "only task contrast uses templates; set model.task to \"contrast\", or leave them out");
}

void refuse_segment(const TrialConfig& trial, const Report& report) {
  const auto only_segment = [&](const char* key, bool set) {
    if (set) report(key, "only a network that answers each pixel uses this; set model.task to \"segment\"");
  };
  only_segment("dataset.layout", trial.dataset.layout == DatasetLayout::image_masks);
  only_segment("dataset.masks", trial.dataset.masks != MaskLabels::none);
  only_segment("train.augment.segment", trial.train.augment.segment != SegmentAugmentConfig{});
  only_segment("eval.segment", trial.eval.segment != SegmentEvalConfig{});
}

/// Of tasks whose answer is a class.
void check_eval_metrics(const TrialConfig& trial, const Report& report) {
  const std::vector<EvalMetric>& metrics = trial.eval.metrics;
  for (std::size_t i = 0; i < metrics.size(); ++i)
    if (std::count(metrics.begin(), metrics.begin() + std::ptrdiff_t(i), metrics[i]) > 0)
      report(concat("eval.metrics.", i), concat(word_of(metrics[i]), " is given twice"));
  const std::int64_t classes = num_classes(trial.model);
  if (classes > std::int64_t(kTopAnswers) || !measures(trial, EvalMetric::top5_accuracy)) return;
  const auto listed = std::find(metrics.begin(), metrics.end(), EvalMetric::top5_accuracy);
  report(listed == metrics.end() ? std::string("train.early_stop.metric")
                                 : concat("eval.metrics.", listed - metrics.begin()),
         concat("top5_accuracy asks whether the right class is among five answers, and there are ", classes,
                " classes, so it is always 1; leave it out"));
}

void check_classify(const TrialConfig& trial, const Report& report) {
  refuse_contrast(trial, report);
  refuse_segment(trial, report);
  check_eval_metrics(trial, report);
  // Most classes of generated images are directions: a flip turns a rising one into a falling one with the wrong label,
  // half the time. Rotations, shears and crops alter directions only slightly, as with any photograph, and are allowed.
  const ShapesLabel label = trial.dataset.label;
  const bool directions = label == ShapesLabel::relation || label == ShapesLabel::position;
  if (trial.train.augment.flip && directions && trial.dataset.generated() &&
      trial.dataset.layout == DatasetLayout::known)
    report("train.augment.flip",
           concat("a flip turns one class of ", trial.dataset.name, " into another; leave it out"));
}

/// The settings for whole images, none of which keeps an image and its mask together.
void check_segment(const TrialConfig& trial, const Report& report) {
  refuse_contrast(trial, report);
  const DatasetConfig& data = trial.dataset;
  const TrainConfig& train = trial.train;
  if (data.masks == MaskLabels::none)
    report("dataset.masks",
           "task segment needs a label for each pixel; set dataset.masks to \"classes\", or to \"from_one\" if 0 means "
           "that a pixel has no class");
  const auto of_images = [&](const char* key, bool set, const char* why) {
    if (set) report(key, concat(why, "; leave it out with task segment"));
  };
  of_images("dataset.per_class", data.per_class > 0, "an image with a mask has many classes; use dataset.fraction");
  of_images("dataset.classes", !data.chosen_classes().empty(), "the classes of masks are those of classes.txt");
  const char* const alone = "this changes an image and not its mask; train.augment.segment changes both";
  AugmentConfig rest = train.augment, none;
  rest.flip = none.flip;
  rest.segment = none.segment;
  rest.repeats = none.repeats;
  of_images("train.augment", rest != none, alone);
  of_images("train.eval_transform", train.eval_transform != EvalTransformConfig{}, "eval.segment sets the windows");
  of_images("train.loss", train.loss != LossKind::softmax, "the loss of a pixel is a softmax's");
  of_images("train.label_smoothing", train.label_smoothing > 0, "the loss of a pixel has no smoothing");
  of_images("eval.metrics", !trial.eval.metrics.empty(),
            "an image with a mask has no class of its own, and mean IoU already weighs all classes of pixels equally");
  of_images("eval.fewshot", !trial.eval.fewshot.shots.empty(), "few-shot evaluation needs a class for each image");
  const auto [height, width] = image_size(trial.model);
  const SegmentEvalConfig& windows = trial.eval.segment;
  if (windows.resize_to > 0 && windows.resize_to < std::max(height, width))
    report("eval.segment.resize_to",
           concat("a window of ", height, " x ", width, " pixels does not fit into an image whose shorter side has ",
                  windows.resize_to));
  if (windows.scales.empty())
    report("eval.segment.scales", "no scale is left to evaluate at; give [1] or leave it out");
  if (windows.stride > std::min(height, width))
    report("eval.segment.stride", concat("windows of ", height, " x ", width, " pixels would leave gaps"));
}

void check_contrast(const TrialConfig& trial, const Report& report) {
  refuse_segment(trial, report);
  check_eval_metrics(trial, report);
  const TrainConfig& train = trial.train;
  if (!trial.dataset.captions)
    report("dataset.captions", "task contrast needs a text for each image; set captions to true");
  if (train.accumulate > 1)
    report("train.accumulate", "the parts of a batch would not be contrasted with each other; leave it out");
  if (train.batch_size < 2) report("train.batch_size", "a pair alone has nothing to contrast; use a larger batch");
  if (train.augment.mix.mixup > 0 || train.augment.mix.cutmix > 0)
    report("train.augment.mix", "a mixed image has no text; leave it out");
  if (train.label_smoothing > 0) report("train.label_smoothing", "pairs have no label to smooth; leave it out");
  if (train.augment.flip && trial.dataset.generated())
    report("train.augment.flip", "a caption of shapes says where things are, and a flip moves them; leave it out");
  for (std::size_t i = 0; i < trial.eval.templates.size(); ++i)
    if (trial.eval.templates[i].find("{}") == std::string::npos)
      report(concat("eval.templates.", i), "there is no {} for the name of the class");
}

constexpr std::string_view kClassMetrics[] = {"accuracy", "loss"}, kPixelMetrics[] = {"miou", "pixel_accuracy", "loss"},
                           kPairMetrics[] = {"accuracy", "text_recall1", "image_recall1", "loss"},
                           kOnRequest[] = {"balanced_accuracy", "top5_accuracy"};
/// In the order of Task.
constexpr TaskRules kRules[] = {{Task::classify, kClassMetrics, kOnRequest, check_classify},
                                {Task::segment, kPixelMetrics, {}, check_segment},
                                {Task::contrast, kPairMetrics, kOnRequest, check_contrast}};
static_assert(std::size(kRules) == kWords<Task>.size());

}  // namespace

const TaskRules& rules_of(Task task) { return kRules[static_cast<std::size_t>(task)]; }

std::string metric_for(Task task, const std::string& metric) {
  return metric == "eval/accuracy" ? concat("eval/", rules_of(task).metrics.front()) : metric;
}

}  // namespace normlab
