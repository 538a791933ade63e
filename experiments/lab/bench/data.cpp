#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>

#include "core/error.h"
#include "experiments/lab/base/regular_file.h"
#include "experiments/lab/bench/cases.h"
#include "experiments/lab/data/decode.h"
#include "experiments/lab/data/image_files.h"
#include "experiments/lab/data/jpeg.h"
#include "experiments/lab/data/random_boxes.h"
#include "experiments/lab/data/train_transform.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

/// In memory, to exclude reading from the measurement.
class FilesInMemory : public EncodedImages {
 public:
  void add(std::string name, std::vector<std::uint8_t> bytes) {
    names_.push_back(std::move(name));
    files_.push_back(std::move(bytes));
  }
  std::int64_t size() const { return static_cast<std::int64_t>(files_.size()); }
  const std::vector<std::uint8_t>& file(std::int64_t i) const { return files_[static_cast<std::size_t>(i)]; }
  void read(std::int64_t i, std::vector<std::uint8_t>& bytes) const override { bytes = file(i); }
  std::string where(std::int64_t i) const override { return names_[static_cast<std::size_t>(i)]; }

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<std::uint8_t>> files_;
};

constexpr std::size_t kMostFiles = 1000;

std::shared_ptr<FilesInMemory> read_folder(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (has_image_extension(at->path())) paths.push_back(at->path());
  if (error) throw InputError(concat(folder.string(), ": cannot be listed: ", error.message()));
  if (paths.empty()) throw InputError(concat(folder.string(), ": contains no .jpg, .jpeg or .png file"));
  std::sort(paths.begin(), paths.end());
  paths.resize(std::min(paths.size(), kMostFiles));
  auto files = std::make_shared<FilesInMemory>();
  for (const fs::path& path : paths) {
    const std::string bytes = RegularFile(path).read();
    files->add(path.string(), {bytes.begin(), bytes.end()});
  }
  return files;
}

/// Gradients, stripes and noise, about as large as ImageNet photographs in pixels and bytes.
std::shared_ptr<FilesInMemory> made_up() {
  auto files = std::make_shared<FilesInMemory>();
  Image image;
  image.resize(375, 500);
  for (std::int64_t i = 0; i < 32; ++i) {
    const StreamKey key = stream_key(1, "bench", "photographs");
    for (std::int64_t y = 0; y < image.height; ++y) {
      for (std::int64_t v = 0; v < image.width * 3; ++v) {
        const std::int64_t x = v / 3;
        const double wave = std::sin(0.02 * static_cast<double>(x) * static_cast<double>(i % 5 + 1));
        const auto at = static_cast<std::uint64_t>((i * image.height + y) * image.width * 3 + v);
        const double level = 110 + 60 * wave * std::cos(0.03 * static_cast<double>(y)) + 12 * normal(key, at);
        image.row(y)[v] = static_cast<std::uint8_t>(std::clamp(level, 0.0, 255.0));
      }
    }
    files->add(fmt::format("generated photograph {}", i), encode_jpeg(image, 90));
  }
  return files;
}

/// CPU time of this thread, unaffected by other processes.
double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// The stages so far, as rows of the document.
struct Stages {
  double seconds;
  Json rows = Json::array();

  /// The median over passes through all images.
  template <class Work>
  void measure(const char* name, std::int64_t images, Work&& work) {
    for (std::int64_t i = 0; i < std::min<std::int64_t>(images, 32); ++i) work(i);
    std::vector<double> passes;
    for (double total = 0; total < seconds || passes.size() < 3; total += passes.back()) {
      const double begin = cpu_seconds();
      for (std::int64_t i = 0; i < images; ++i) work(i);
      passes.push_back(cpu_seconds() - begin);
    }
    rows.push_back({{"stage", name}, {"images_per_second", rounded(double(images) / median(std::move(passes)), 1)}});
  }
};

/// The augmentation of torchvision's own ViT training.
TrialConfig photographs(std::int64_t size) {
  TrialConfig c;
  ViTConfig model;
  model.image_size = {size, size};
  c.model = model;
  AugmentConfig& a = c.train.augment;
  a.crop = CropName::inception_torchvision;
  a.crop_area = {0.05, 1.0};
  a.flip = true;
  a.randaugment.dialect = RandAugmentDialect::torchvision;
  a.randaugment.layers = 2;
  a.randaugment.magnitude = 10;
  c.train.eval_transform.crop = EvalCrop::center;
  return c;
}

ImageSet image_set(std::int64_t count) {
  ImageSet images;
  images.channels = 3;
  images.num_classes = 1;
  images.labels.assign(static_cast<std::size_t>(count), 0);
  images.channel_mean = {0.485, 0.456, 0.406};
  images.channel_std = {0.229, 0.224, 0.225};
  return images;
}

void measure_photographs(Stages& stages, const std::shared_ptr<FilesInMemory>& files, std::int64_t size) {
  const TrialConfig c = photographs(size);
  const std::int64_t n = files->size();
  ImageSet images = image_set(n);
  images.encoded = files;
  const AugmentConfig& a = c.train.augment;
  const std::vector<StreamKey> keys = augment_keys(images, 0);
  TransformScratch scratch;
  ImageScratch& s = scratch.images;
  std::int64_t epoch = 0;  // so that every image gets a new box each time
  const auto draws = [&](std::int64_t i) { return AugmentDraws(keys[static_cast<std::size_t>(i)], epoch++); };
  const auto box = [&](ImageSize whole, std::int64_t i) {
    return crop_box_torchvision(whole.height, whole.width, a.crop_area, a.crop_aspect, draws(i));
  };
  const auto boxed = [&](std::int64_t i, ScaledBox& from) {
    decode_image_box(files->file(i), files->where(i), box(image_file_size(files->file(i), files->where(i)), i),
                     2 * size, 2 * size, s.decoded, from);
  };
  stages.measure("decode", n, [&](std::int64_t i) { decode_image(files->file(i), files->where(i), s.decoded); });
  ScaledBox from;
  stages.measure("decode the crop's box", n, [&](std::int64_t i) { boxed(i, from); });
  const auto resized = [&](const char* name, ResizeMethod method) {
    decode_image(files->file(0), files->where(0), s.decoded);
    stages.measure(name, n, [&](std::int64_t i) {
      resize(s.decoded, box({s.decoded.height, s.decoded.width}, i), method, size, size, scratch.sized, s.resize);
    });
  };
  resized("resize, bilinear", ResizeMethod::bilinear);
  resized("resize, bicubic", ResizeMethod::bicubic);
  resized("resize, TensorFlow's bilinear", ResizeMethod::bilinear_plain);
  stages.measure("flip", n, [&](std::int64_t) { flip_columns(scratch.sized); });
  const Image kept = scratch.sized;
  const RandAugment randaugment(a.randaugment);
  stages.measure("RandAugment (2, 10)", n, [&](std::int64_t i) {
    scratch.sized = kept;
    randaugment.apply(scratch.sized, draws(i), scratch.ops);
  });
  const PixelTable<float> table(images.channel_mean, images.channel_std);
  std::vector<float> out(static_cast<std::size_t>(size * size * 3));
  stages.measure("normalise", n, [&](std::int64_t) { normalise_image(scratch.sized, 3, table, out.data()); });
  const TrainTransform train(c, images);
  stages.measure("training chain", n, [&](std::int64_t i) { train(i, epoch++, 0, scratch, out.data()); });
  const EvalTransform eval(c.train.eval_transform, {size, size});
  stages.measure("evaluation chain", n, [&](std::int64_t i) {
    eval.make(images, i, scratch.sized, s);
    normalise_image(scratch.sized, 3, table, out.data());
  });
}

void measure_cifar(Stages& stages) {
  ImageSet images = image_set(1000);
  images.height = images.width = 32;
  images.pixels.resize(static_cast<std::size_t>(images.size() * images.image_bytes()));
  for (std::size_t i = 0; i < images.pixels.size(); ++i) images.pixels[i] = static_cast<std::uint8_t>(i * 7 % 251);
  TrialConfig c;
  c.model = ViTConfig{};
  c.train.augment.crop_padding = 4;
  c.train.augment.flip = true;
  std::vector<float> out(static_cast<std::size_t>(images.image_bytes()));
  TransformScratch scratch;
  const auto chain = [&](const char* name) {
    const TrainTransform train(c, images);
    std::int64_t epoch = 0;
    stages.measure(name, images.size(), [&](std::int64_t i) { train(i, epoch++, 0, scratch, out.data()); });
  };
  chain("CIFAR: crop, flip");
  c.train.augment.randaugment.dialect = RandAugmentDialect::torchvision;
  chain("CIFAR: crop, flip, RandAugment");
}

}  // namespace

Measured bench_data(const BenchOptions& o) {
  const std::shared_ptr<FilesInMemory> files = o.folder.empty() ? made_up() : read_folder(o.folder);
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < files->size(); ++i) bytes += static_cast<std::int64_t>(files->file(i).size());
  Stages stages{o.seconds};
  measure_photographs(stages, files, o.size);
  measure_cifar(stages);
  return {{{"files", files->size()},
           {"mean_bytes", bytes / files->size()},
           {"size", o.size},
           {"decoder", decoder_versions()},
           {"stages", std::move(stages.rows)}},
          1};
}

}  // namespace normlab
