#include "experiments/lab/trials/loss_meaning.h"

#include <algorithm>
#include <array>

namespace normlab {
namespace {

/// SHA-256 of the evaluation images that archives before kJpegCopy were measured on: the test images of CIFAR-10 at
/// quality 75, whole and of some classes, and parts of its training images. The pixels are hashed, so no others match.
constexpr const char* kCifar10At75 = "cifar10 as JPEG, quality 75";
constexpr std::array<std::string_view, 8> kHashesOfCifar10At75{
    "e395d04f5878bb135883d0bb0e59275d16e64c4008b1f8974fadadbb38311cce",  // test
    "d18152a5f816c1990ec323a096a69043b2c747f490917b4f16b108cd43cc87e4",  // automobile, cat, dog, horse, truck
    "60d42364dae04e7afd09f81fb1814fd1bc986fcc282e1388b50a72d400dab203",  // airplane, bird, deer, frog, ship
    "a7d2c29f7c237af3a8fe90a3dcce865f88ee9e5ed257fc07dff6eb19b2090829",  // animal, vehicle
    "e0a6d59ffb9e4e7ae05cecf9e911f977e726ae25dcada47929d74e25f3fb5fed",  // train[90%:]
    "305a59e2b0253a17d22bd1a3244601a3405781c7001a4ccfa0a723da78104dc5",  // train[90%:][:200]
    "fa9bea3e09e9dfb081eaa0893103b38e21a67293d51c8e4a77eeeaf9c40a583f",  // the same: animal, vehicle
    "9e2df3cff85f48a9b01bbd1afbb98e9acd8d383d87c7c204348502a5d9df7c0c",  // test of experiments/cifar10_copy.json
};

}  // namespace

bool is_evaluation_loss(std::string_view metric) {
  const bool evaluates = metric.starts_with("eval/") || metric.starts_with("minival/");
  return metric.starts_with("without_block.loss/") || (evaluates && metric.ends_with("loss"));
}

double smoothing_in_losses(const TrialResult& result, const TrialConfig& config) {
  return result.stated(kEvalLossMeaning) == nullptr ? config.train.label_smoothing : 0.0;
}

bool averages_last_steps(const TrialResult& result) { return result.stated(kTrainLossMeaning) != nullptr; }

void remove_unlike_older(std::map<std::string, double>& metrics, const TrialConfig& config) {
  for (const char* name : {kTrainLoss, kTrainRate, kGradientNorm}) metrics.erase(name);
  if (config.train.label_smoothing > 0)
    std::erase_if(metrics, [](const auto& metric) { return is_evaluation_loss(metric.first); });
}

std::string jpeg_copy_of(const TrialResult& result) {
  if (const std::string* const recorded = result.stated(kJpegCopy)) return *recorded;
  const bool known = std::find(kHashesOfCifar10At75.begin(), kHashesOfCifar10At75.end(), result.eval_hash()) !=
                     kHashesOfCifar10At75.end();
  return known ? kCifar10At75 : "";
}

}  // namespace normlab
