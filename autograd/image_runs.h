// Iterates over a mask of images on the host.
#pragma once

#include "core/tensor.h"

namespace normlab {

/// Consecutive images that are all kept or all dropped: `first` to first + count of all images. Saved ones start at
/// index `at` among the kept images.
struct ImageRun {
  bool kept;
  std::int64_t first, count, at;
};
/// Calls visit(ImageRun) for each run of `keep` (u8 [B], in host memory), in order.
template <class Visit>
void for_image_runs(const Tensor& keep, Visit&& visit) {
  const auto* mask = keep.data<std::uint8_t>();
  const std::int64_t images = keep.size();
  for (std::int64_t first = 0, at = 0; first < images;) {
    const bool kept = mask[first] != 0;
    std::int64_t end = first + 1;
    while (end < images && (mask[end] != 0) == kept) ++end;
    visit(ImageRun{kept, first, end - first, at});
    if (kept) at += end - first;
    first = end;
  }
}
inline std::int64_t kept_images(const Tensor& keep) {
  std::int64_t kept = 0;
  for_image_runs(keep, [&](const ImageRun& run) { kept += run.kept ? run.count : 0; });
  return kept;
}

}  // namespace normlab
