#include "experiments/lab/data/measure.h"

#include <algorithm>
#include <optional>
#include <span>

#include "core/error.h"
#include "experiments/lab/base/parallel.h"
#include "experiments/lab/data/decode.h"
#include "experiments/lab/data/png.h"

namespace normlab {
namespace {

struct MeasureWorker {
  std::vector<std::uint8_t> bytes;
  Image image;
  std::int64_t file_bytes = 0;
  std::int64_t gray16 = 0;
  int least = 255, most = 0;
  PixelSums sums{Image::kChannels};
};

std::array<std::int64_t, 3> spread(std::vector<std::int64_t> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.front(), values[(values.size() - 1) / 2], values.back()};
}

std::string digest(ImageSize size, std::span<const std::uint8_t> pixels) {
  constexpr std::size_t kDigits = 32;  // 128 bits
  SetHash hash;
  hash.number(size.height);
  hash.number(size.width);
  hash.bytes(pixels);
  return hash.hex().substr(0, kDigits);
}

/// Sizes of images that cannot be decoded stay 0.
PixelSums measure_all(const ImageSet& images, int threads, std::vector<ImageSize>& sizes, ImageMeasures& measures) {
  std::vector<MeasureWorker> workers(static_cast<std::size_t>(std::max(threads, 1)));
  for (MeasureWorker& worker : workers) worker.sums = PixelSums(images.channels);
  std::vector<std::optional<std::string>> reasons(sizes.size());
  parallel_items(images.size(), 64, threads, [&](std::size_t w, std::int64_t i) {
    MeasureWorker& worker = workers[w];
    const auto at = static_cast<std::size_t>(i);
    try {
      std::span<const std::uint8_t> pixels;
      bool gray16 = std::binary_search(images.gray16.begin(), images.gray16.end(), i);
      if (images.encoded) {
        images.encoded->read(i, worker.bytes);
        decode_image(worker.bytes, images.encoded->where(i), worker.image);
        sizes[at] = {worker.image.height, worker.image.width};
        worker.file_bytes += static_cast<std::int64_t>(worker.bytes.size());
        pixels = worker.image.pixels;
        gray16 = is_gray16_png(worker.bytes);
      } else {
        pixels = {images.image(i), static_cast<std::size_t>(images.image_bytes())};
      }
      worker.sums.add(pixels.data(), sizes[at].height, sizes[at].width);
      measures.digests[at] = digest(sizes[at], pixels);
      if (!gray16) return;
      ++worker.gray16;
      const auto [least, most] = std::minmax_element(pixels.begin(), pixels.end());
      worker.least = std::min<int>(worker.least, *least);
      worker.most = std::max<int>(worker.most, *most);
    } catch (const InputError& error) {
      reasons[at] = error.what();
    }
  });
  PixelSums sums(images.channels);
  for (const MeasureWorker& worker : workers) {
    sums.add(worker.sums);
    measures.bytes += worker.file_bytes;
    measures.gray16 += worker.gray16;
    measures.least_gray16 = std::min(measures.least_gray16, worker.least);
    measures.most_gray16 = std::max(measures.most_gray16, worker.most);
  }
  for (std::size_t i = 0; i < reasons.size(); ++i) {
    if (reasons[i]) measures.bad_images.push_back({images.key(static_cast<std::int64_t>(i)), *reasons[i]});
  }
  return sums;
}

}  // namespace

std::string words_on_gray16(const std::vector<const ImageMeasures*>& slices) {
  std::int64_t images = 0;
  int least = 255, most = 0;
  for (const ImageMeasures* slice : slices) {
    images += slice->gray16;
    least = std::min(least, slice->least_gray16);
    most = std::max(most, slice->most_gray16);
  }
  if (images == 0) return "";
  constexpr int kMany = 128;  // levels of 256
  std::string words = concat(images, images == 1 ? " image is" : " images are",
                             " 16-bit grayscale, of which the upper byte of each pixel is used");
  if (most - least + 1 >= kMany) return words + ".";
  int factor = 1;
  while (2 * factor * (most + 1) <= 256) factor *= 2;
  return concat(
      words, ": values of ", 256 * least, " to ", 256 * most + 255, " keep only ", most - least + 1, " of 256 levels. ",
      factor > 1 ? concat("Multiply all values by ", factor, " (numpy: a * ", factor, ") and write the files again.")
                 : "Spread this range over 0 to 65535, in the same way for all images, and write them again.");
}

ImageMeasures measure_images(const ImageSet& images, int threads) {
  ImageMeasures measures;
  measures.bad_images = images.bad_images;
  measures.class_counts.resize(static_cast<std::size_t>(images.num_classes));
  std::vector<ImageSize> sizes(static_cast<std::size_t>(images.size()), {images.height, images.width});
  measures.digests.resize(sizes.size());
  const PixelSums sums = measure_all(images, threads, sizes, measures);
  if (!images.encoded) measures.bytes = static_cast<std::int64_t>(images.pixels.size());
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
