// The mean IoU as mmsegmentation defines it: intersect_and_union() and numpy.nanmean of the classes.
#include <doctest/doctest.h>

#include <cmath>

#include "experiments/lab/metrics/mean_iou.h"

using namespace normlab;

namespace {

/// Labels and predictions in turn; of 4 classes.
ConfusionMatrix confusion(std::initializer_list<std::pair<std::int32_t, std::int32_t>> pixels) {
  ConfusionMatrix out(4);
  for (const auto& [label, predicted] : pixels) out.add(label, predicted);
  return out;
}

}  // namespace

TEST_CASE("mean iou: a class that only predictions contain counts as 0, and one in neither does not count") {
  // numpy: label = [0,0,1,1,255,255], pred = [0,2,1,1,3,0], mask = label != 255, then bincount of intersection, pred
  // and label with 4 bins: intersect [1,2,0,0], union [2,2,1,0], intersect / union [.5,1,0,nan], nanmean 0.5.
  const ConfusionMatrix c = confusion({{0, 0}, {0, 2}, {1, 1}, {1, 1}, {255, 3}, {255, 0}});
  const std::vector<double> iou = c.iou();
  CHECK(iou[0] == 0.5);
  CHECK(iou[1] == 1);
  CHECK(iou[2] == 0);
  CHECK(std::isnan(iou[3]));
  CHECK(c.mean_iou() == 0.5);
  CHECK(c.pixel_accuracy() == 0.75);
  CHECK(c.total() == 4);
}

TEST_CASE("mean iou: without a labelled pixel there is none") {
  CHECK(std::isnan(confusion({{255, 0}}).mean_iou()));
  CHECK(std::isnan(confusion({{255, 0}}).pixel_accuracy()));
}
