#include "experiments/lab/data/pack.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/error.h"
#include "core/random.h"
#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/parallel.h"
#include "experiments/lab/base/regular_file.h"
#include "experiments/lab/data/archive.h"
#include "experiments/lab/data/decode.h"
#include "experiments/lab/data/jpeg.h"
#include "experiments/lab/data/resize.h"
#include "experiments/lab/data/text_lines.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kUnfinished = ".unfinished";

struct PackWorker {
  Image image, resized;
  ResizeScratch scratch;
};

struct Packed {
  std::vector<std::uint8_t> jpeg;
  int quality = 0;
  bool copied = false;
};

/// The size with the shorter side at `size` and the longer one in proportion, rounded.
ImageSize shrunk(ImageSize from, std::int64_t size) {
  const std::int64_t shorter = std::min(from.height, from.width);
  if (size == 0 || shorter <= size) return from;
  const auto scaled = [&](std::int64_t side) { return (2 * side * size + shorter) / (2 * shorter); };
  return {scaled(from.height), scaled(from.width)};
}

Packed pack_image(const ImageSet& images, std::int64_t i, const PackSettings& settings, PackWorker& worker) {
  Packed packed;
  if (images.encoded) {
    images.encoded->read(i, packed.jpeg);
    decode_image(packed.jpeg, images.encoded->where(i), worker.image);
  } else {
    worker.image.resize(images.height, images.width);
    std::copy_n(images.image(i), images.image_bytes(), worker.image.pixels.begin());
  }
  const ImageSize from{worker.image.height, worker.image.width}, to = shrunk(from, settings.size);
  packed.copied = images.encoded && to == from && !settings.encode_all && is_jpeg(packed.jpeg);
  if (!packed.copied) {
    if (to != from)
      resize(worker.image, Box{0, 0, from.height, from.width}, ResizeMethod::bicubic, to.height, to.width,
             worker.resized, worker.scratch);
    packed.jpeg = encode_jpeg(to == from ? worker.image : worker.resized, settings.quality);
  }
  packed.quality = jpeg_quality(packed.jpeg).value_or(0);
  return packed;
}

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

/// Writes the class names, or compares them with those of a split packed earlier.
void write_class_names(const fs::path& file, const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    if (name.find_first_of("\r\n") != name.npos)
      throw InputError(concat("class ", in_quotes(name), ": a class name in ", file.filename().string(),
                              " cannot have a line break; rename the class"));
    text += quoted_if_needed(name) + "\n";
  }
  if (std::error_code error; fs::exists(file, error)) {
    if (RegularFile(file).read() != text)
      throw InputError(concat(file.string(), ": exists already, with other classes; choose another folder"));
    return;
  }
  write_file_or_stream(file, text);
}

}  // namespace

PackReport pack_images(const ImageSet& images, const std::string& split, const fs::path& folder,
                       const PackSettings& settings) {
  if (images.channels != Image::kChannels)
    throw InputError(concat("images of ", images.channels,
                            " channel cannot be packed, because a JPEG of them is read back with three"));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw EnvironmentError(concat(folder.string(), ": cannot be created: ", error.message()));
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().rfind(split + "-", 0) == 0)
      throw InputError(concat(entry.path().string(), ": exists already; choose another folder, or remove it"));
  }
  if (error) throw EnvironmentError(concat(folder.string(), ": cannot be listed: ", error.message()));
  write_class_names(folder / "classes.txt", images.class_names);

  const std::vector<std::int64_t> order = permutation(stream_key(0, "pack", split), images.size(), 0);
  std::vector<PackWorker> workers(static_cast<std::size_t>(std::max(settings.threads, 1)));
  PackReport report;
  std::vector<fs::path> shards;  // renamed when all are complete: a partial set must not look like a whole one
  for (std::int64_t first = 0; first < images.size(); first += settings.shard_size, ++report.shards) {
    const std::int64_t count = std::min(settings.shard_size, images.size() - first);
    std::vector<Packed> packed(static_cast<std::size_t>(count));
    parallel_items(count, 8, settings.threads, [&](std::size_t worker, std::int64_t i) {
      packed[static_cast<std::size_t>(i)] =
          pack_image(images, order[static_cast<std::size_t>(first + i)], settings, workers[worker]);
    });
    shards.push_back(folder / fmt::format("{}-{:06}.tar", split, report.shards));
    TarWriter tar(shards.back().string() + kUnfinished);
    for (std::int64_t i = 0; i < count; ++i) {
      const Packed& one = packed[static_cast<std::size_t>(i)];
      const std::int64_t index = order[static_cast<std::size_t>(first + i)];
      const std::string name = fmt::format("{:09}", first + i);
      const std::string label = std::to_string(images.labels[static_cast<std::size_t>(index)]), key = images.key(index);
      tar.add(name + ".jpg", one.jpeg);
      tar.add(name + ".cls", bytes_of(label));
      tar.add(name + ".txt", bytes_of(key));
      report.copied += one.copied;
      report.bytes += static_cast<std::int64_t>(one.jpeg.size());
      report.jpegs.add(one.quality);
      ++report.images;
    }
    tar.finish();
  }
  for (const fs::path& shard : shards) {
    fs::rename(shard.string() + kUnfinished, shard, error);
    if (error) throw EnvironmentError(concat(shard.string(), ": cannot be written: ", error.message()));
  }
  return report;
}

}  // namespace normlab
