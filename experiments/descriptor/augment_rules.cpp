#include "experiments/descriptor/augment_rules.h"

#include <string>

#include "experiments/descriptor/randaugment_rules.h"

namespace normlab {
namespace {

class Rules {
 public:
  Rules(FieldReader& reader, const JsonNode& root, const JsonPath& top, const TrialConfig& trial)
      : reader_(reader), root_(root), top_(top), trial_(trial) {}

  /// Classes of `shapes` are directions: mirrored, a rising pair is a falling one, with the wrong label, every second
  /// time. What else turns or stretches a picture (rotations, shears, crops) moves directions a little, as labels of
  /// any photograph suffer, and is allowed.
  void flip() const {
    const bool shapes = trial_.dataset.name == "shapes" && trial_.dataset.layout == DatasetLayout::known;
    if (shapes && augment().flip) report("augment.flip", "a flip turns one class of shapes into another; leave it out");
  }
  void crop() const {
    if (augment().crop == CropName::center && trial_.train.eval_transform.crop != EvalCrop::center)
      report("augment.crop",
             "center is cut as train.eval_transform says, whose crop is not center; set it to center there too");
  }
  void randaugment() const {
    if (const auto problem = problem_of(augment().randaugment))
      report(concat("augment.randaugment.", problem->key), problem->what);
  }
  void erasing() const {
    if (augment().erasing.dialect == ErasingDialect::torchvision && augment().erasing.fill == ErasingFill::color)
      report("augment.erasing.fill",
             "torchvision fills with one value or with a draw a pixel; only timm has fill color");
  }
  void mix() const {
    const MixConfig& mix = augment().mix;
    if ((mix.mixup > 0 || mix.cutmix > 0) && trial_.train.batch_size < 2)
      report("augment.mix", "a batch of 1 image has no two to mix; raise train.batch_size");
  }
  void smoothing() const {
    if (trial_.train.label_smoothing > 0 && trial_.train.smoothing == Smoothing::others &&
        num_classes(trial_.model) < 2)
      report("smoothing", "there are no other classes than the label's");
  }

 private:
  const AugmentConfig& augment() const { return trial_.train.augment; }
  void report(std::string_view key, const std::string& what) const {
    reader_.report_below(root_, top_, concat("train.", key), what);
  }

  FieldReader& reader_;
  const JsonNode& root_;
  const JsonPath& top_;
  const TrialConfig& trial_;
};

}  // namespace

bool resizes_images(const TrainConfig& train) {
  return train.augment.crop != CropName::none && train.eval_transform.crop != EvalCrop::none;
}

void check_augment(FieldReader& reader, const JsonNode& root, const JsonPath& top, const TrialConfig& trial) {
  const Rules rules(reader, root, top, trial);
  rules.flip();
  rules.crop();
  rules.randaugment();
  rules.erasing();
  rules.mix();
  rules.smoothing();
}

}  // namespace normlab
