#include "experiments/descriptor/tasks.h"

namespace normlab {
namespace {

void check_classify(const TrialConfig& trial, const Report& report) {
  // Most classes of generated images are directions: a flip turns a rising one into a falling one with the wrong label,
  // half the time. Rotations, shears and crops alter directions only slightly, as with any photograph, and are allowed.
  const ShapesLabel label = trial.dataset.label;
  const bool directions = label == ShapesLabel::relation || label == ShapesLabel::position;
  if (trial.train.augment.flip && directions && trial.dataset.generated() &&
      trial.dataset.layout == DatasetLayout::known)
    report("train.augment.flip",
           concat("a flip turns one class of ", trial.dataset.name, " into another; leave it out"));
}

constexpr std::string_view kClassMetrics[] = {"accuracy", "loss"};
/// In the order of Task.
constexpr TaskRules kRules[] = {{Task::classify, kClassMetrics, check_classify}};
static_assert(std::size(kRules) == kWords<Task>.size());

}  // namespace

const TaskRules& rules_of(Task task) { return kRules[static_cast<std::size_t>(task)]; }

}  // namespace normlab
