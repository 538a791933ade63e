#include "experiments/data/measure.h"

#include <algorithm>
#include <optional>

#include "core/error.h"
#include "experiments/base/parallel.h"
#include "experiments/data/decode.h"

namespace normlab {
namespace {

struct Worker {
  std::vector<std::uint8_t> bytes;
  Image image;
  std::int64_t file_bytes = 0;
  PixelSums sums{Image::kChannels};
};

std::array<std::int64_t, 3> spread(std::vector<std::int64_t> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.front(), values[(values.size() - 1) / 2], values.back()};
}

/// Sizes of images that cannot be decoded stay 0.
PixelSums decode_images(const ImageSet& images, int threads, std::vector<ImageSize>& sizes, ImageMeasures& measures) {
  std::vector<Worker> workers(static_cast<std::size_t>(std::max(threads, 1)));
  std::vector<std::optional<std::string>> reasons(sizes.size());
  parallel_items(images.size(), 64, threads, [&](std::size_t w, std::int64_t i) {
    Worker& worker = workers[w];
    const auto at = static_cast<std::size_t>(i);
    try {
      images.encoded->read(i, worker.bytes);
      decode_image(worker.bytes, images.encoded->where(i), worker.image);
      sizes[at] = {worker.image.height, worker.image.width};
      worker.sums.add(worker.image.pixels.data(), worker.image.height, worker.image.width);
      worker.file_bytes += static_cast<std::int64_t>(worker.bytes.size());
    } catch (const InputError& error) {
      reasons[at] = error.what();
    }
  });
  PixelSums sums(Image::kChannels);
  for (const Worker& worker : workers) {
    sums.add(worker.sums);
    measures.bytes += worker.file_bytes;
  }
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (reasons[i]) measures.bad_images.push_back({images.key(static_cast<std::int64_t>(i)), *reasons[i]});
  }
  return sums;
}

}  // namespace

ImageMeasures measure_images(const ImageSet& images, int threads) {
  ImageMeasures measures;
  measures.bad_images = images.bad_images;
  measures.class_counts.resize(static_cast<std::size_t>(images.num_classes));
  std::vector<ImageSize> sizes(static_cast<std::size_t>(images.size()), {images.height, images.width});
  PixelSums sums(images.channels);
  if (images.encoded) {
    sums = decode_images(images, threads, sizes, measures);
  } else {
    sums.add(images.pixels.data(), images.size() * images.height, images.width);
    measures.bytes = static_cast<std::int64_t>(images.pixels.size());
  }
  measures.mean = sums.mean();
  measures.deviation = sums.deviation();
  std::vector<std::int64_t> heights, widths;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].height == 0) continue;
    ++measures.class_counts[static_cast<std::size_t>(images.labels[i])];
    heights.push_back(sizes[i].height);
    widths.push_back(sizes[i].width);
  }
  measures.images = static_cast<std::int64_t>(heights.size());
  measures.height = spread(std::move(heights));
  measures.width = spread(std::move(widths));
  return measures;
}

}  // namespace normlab
