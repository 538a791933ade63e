#include <algorithm>
#include <cmath>
#include <optional>

#include "experiments/lab/base/parallel.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/output_file.h"
#include "experiments/lab/pictures/preview_sheet.h"
#include "experiments/lab/train/batches.h"

namespace normlab {
namespace {

/// Input times the deviation plus the mean of the images of `set`. One channel is shown as grey.
Image to_bytes(const float* values, std::int64_t height, std::int64_t width, std::int64_t channels,
               const ImageSet& set) {
  Image out;
  out.resize(height, width);
  for (std::int64_t i = 0; i < height * width; ++i) {
    for (std::int64_t c = 0; c < Image::kChannels; ++c) {
      const std::int64_t from = std::min(c, channels - 1);
      const auto s = static_cast<std::size_t>(from);
      const double scale = set.channel_std[s] == 0 ? 1 : set.channel_std[s];
      const double value = (static_cast<double>(values[i * channels + from]) * scale + set.channel_mean[s]) * 255;
      out.pixels[static_cast<std::size_t>(3 * i + c)] =
          static_cast<std::uint8_t>(std::clamp(std::nearbyint(value), 0.0, 255.0));
    }
  }
  return out;
}

struct Preview {
  DescriptorOptions descriptor;
  std::string out;
  std::int64_t images = 16, columns = 4, threads = 1;
  std::optional<std::uint64_t> seed;

  int operator()() const {
    if (out.ends_with(".png"))
      throw InputError(concat("-o ", out, ": the sheet is an HTML page; end its name in .html"));
    const Experiment experiment = descriptor.load();
    TrialConfig config = experiment.trials.front().config;
    if (seed) config.seed = *seed;
    Inputs inputs = experiment.files;
    require_output(out, inputs);
    const DataPair pair = load_dataset(config.dataset, descriptor.data_root(), static_cast<int>(threads));
    inputs.emplace_back(pair.train.folder);
    require_output(out, inputs);
    const BatchSource source(config, pair.train, pair.eval, DType::f32);
    std::vector<PreviewCell> cells;
    BatchBuffer buffer;
    ImageScratch scratch;
    for (std::int64_t step = 0; static_cast<std::int64_t>(cells.size()) < images && step < source.steps().total; ++step)
      add_step(source, step, pair.train, buffer, scratch, cells);
    const std::string what = concat(cells.size(), " images of \"", experiment.trials.front().label, "\" with seed ",
                                    config.seed, ", each as stored and as the network sees it");
    write_output(out, preview_sheet(cells, columns, what), inputs);
    if (out != "-") tell("wrote {}: {}\n", out, what);
    return 0;
  }

  void add_step(const BatchSource& source, std::int64_t step, const ImageSet& set, BatchBuffer& buffer,
                ImageScratch& scratch, std::vector<PreviewCell>& cells) const {
    const std::vector<BatchSample> samples = source.samples(step);
    ShardPool pool(static_cast<int>(threads));
    const BatchSource::Batch batch = source.training(step, buffer, pool);
    const Shape& shape = batch.images.shape();
    const std::int64_t values = shape[1] * shape[2] * shape[3];
    for (std::size_t i = 0; i < samples.size() && static_cast<std::int64_t>(cells.size()) < images; ++i) {
      const auto place = static_cast<std::int64_t>(i);
      PreviewCell& cell = cells.emplace_back();
      cell.stored = whole_image(set, samples[i].image, scratch);
      cell.seen = to_bytes(batch.images.data<float>() + place * values, shape[1], shape[2], shape[3], set);
      if (!set.masks) {
        cell.caption = caption(batch, place, set);
        continue;
      }
      const std::int64_t pixels = shape[1] * shape[2];
      const std::span seen(batch.labels.data<std::int32_t>() + place * pixels, static_cast<std::size_t>(pixels));
      Mask mask;
      set.masks->read(samples[i].image, mask, scratch.bytes);
      require_same_size(mask, {cell.stored.height, cell.stored.width}, set.masks->where(samples[i].image));
      tint(cell.stored, std::vector<std::int32_t>(mask.labels.begin(), mask.labels.end()));
      tint(cell.seen, seen);
      cell.caption = mask_caption(seen, set.class_names);
    }
  }

  static std::string caption(const BatchSource::Batch& batch, std::int64_t place, const ImageSet& set) {
    if (batch.targets) {
      const std::int64_t classes = batch.targets.shape()[1];  // the model's classes; the images may lack some
      const float* row = batch.targets.data<float>() + place * classes;
      // The share that smoothing gives to every class says nothing about the image.
      return target_caption({row, static_cast<std::size_t>(classes)}, set.class_names,
                            1.5 * static_cast<double>(*std::min_element(row, row + classes)));
    }
    return set.class_names[static_cast<std::size_t>(batch.labels.data<std::int32_t>()[place])];
  }
};

}  // namespace

void add_data_preview(Command& data) {
  auto [command, preview] = data.add_command<Preview>(
      "preview",
      "show the first training images of a descriptor, as stored and after augmentation, on an HTML page; masks tint "
      "them");
  preview.descriptor.add_file(command);
  command.add_output(Output::stream, "-o,--output", preview.out, "HTML file to write; -: standard output").required();
  command.add_number("--images", preview.images, "number of images", 1, 1024);
  command.add_number("--columns", preview.columns, "most pairs of images per row", 1, 64);
  command.add_option("--seed", preview.seed,
                     "seed of the order and the augmentation (default: that of the first trial)");
  command.add_number("--threads", preview.threads, "how many cores to use", 1, 1024);
  command.examples({"normlab data preview experiments/placements_gratings.json -o sheet.html",
                    "normlab data preview experiments/placements_cifar10.json -o sheet.html --images 64 --columns 8"});
}

}  // namespace normlab
