#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/clock.h"
#include "experiments/lab/base/parallel.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/output_file.h"
#include "experiments/lab/data/data_source.h"
#include "experiments/lab/data/equal_images.h"
#include "experiments/lab/data/image_index.h"
#include "experiments/lab/data/measure.h"
#include "experiments/lab/data/pack.h"
#include "experiments/lab/pictures/preview_sheet.h"
#include "experiments/lab/train/batches.h"

namespace normlab {
namespace {

struct SliceInfo {
  std::string slice;
  const ImageSet& images;
  bool masks;  // pixels have the classes
  ImageMeasures measures;
  std::string content_hash{};
};

/// Sizes of the smallest and largest non-empty class, and the number of empty classes.
struct ClassSpread {
  std::int64_t least = 0, most = 0, absent = 0;
};
ClassSpread spread_of(const std::vector<std::int64_t>& counts) {
  ClassSpread spread;
  for (const std::int64_t count : counts) {
    if (count == 0) {
      ++spread.absent;
      continue;
    }
    spread.least = spread.least == 0 ? count : std::min(spread.least, count);
    spread.most = std::max(spread.most, count);
  }
  return spread;
}

std::string numbers(const std::vector<double>& values) { return fmt::format("{:.4f}", fmt::join(values, ", ")); }

void print_slice(const SliceInfo& info) {
  const ImageMeasures& m = info.measures;
  const auto sides = [](const std::array<std::int64_t, 3>& side) {
    return side[0] == side[2] ? std::to_string(side[0]) : fmt::format("{} / {} / {}", side[0], side[1], side[2]);
  };
  const ClassSpread spread = spread_of(m.class_counts);
  print_text("{}: {}\n", info.slice, info.images.provenance);
  print_text("  images    {}{}\n", m.images,
             m.bad_images.empty() ? "" : fmt::format(", and {} that cannot be decoded", m.bad_images.size()));
  if (info.masks)
    print_text("  classes   {}, of pixels\n", info.images.class_names.size());
  else
    print_text("  classes   {}; {} to {} images each{}\n", m.class_counts.size(), spread.least, spread.most,
               spread.absent == 0 ? "" : fmt::format(", {} without images", spread.absent));
  print_text("  width     {}\n  height    {}{}\n", sides(m.width), sides(m.height),
             m.width[0] == m.width[2] && m.height[0] == m.height[2] ? "" : "  (smallest / median / largest)");
  if (const std::string gray16 = words_on_gray16({&m}); !gray16.empty()) print_text("  gray16    {}\n", gray16);
  print_text("  bytes     {} {}\n", m.bytes, info.images.encoded ? "in files" : "of pixels");
  print_text("  \"mean\": [{}], \"std\": [{}]\n", numbers(m.mean), numbers(m.deviation));
  print_text("  hash      {}{}\n", info.images.hash,
             info.images.encoded ? "  (of names, labels and sizes in bytes)" : "");
  if (!info.content_hash.empty()) print_text("  content   {}\n", info.content_hash);
  for (const BadImage& bad : m.bad_images)
    print_text("  bad       {}: {}\n", visible_line(bad.key), visible_line(bad.reason));
}

nlohmann::ordered_json slice_json(const SliceInfo& info) {
  const ImageMeasures& m = info.measures;
  const auto side = [](const std::array<std::int64_t, 3>& s) {
    return nlohmann::ordered_json{{"min", s[0]}, {"median", s[1]}, {"max", s[2]}};
  };
  nlohmann::ordered_json classes = nlohmann::ordered_json::array(), bad = nlohmann::ordered_json::array();
  for (std::size_t c = 0; c < info.images.class_names.size(); ++c) {
    classes.push_back({{"name", info.images.class_names[c]}});
    if (!info.masks) classes.back()["images"] = m.class_counts[c];
  }
  for (const BadImage& image : m.bad_images) bad.push_back({{"key", image.key}, {"reason", image.reason}});
  nlohmann::ordered_json json{{"slice", info.slice},
                              {"images", m.images},
                              {"channels", info.images.channels},
                              {"width", side(m.width)},
                              {"height", side(m.height)},
                              {"bytes", m.bytes},
                              {"mean", m.mean},
                              {"std", m.deviation},
                              {"hash", info.images.hash},
                              {"in_memory", info.images.encoded == nullptr},
                              {"provenance", info.images.provenance},
                              {"classes", classes},
                              {"bad_images", bad}};
  if (m.gray16 > 0) json["gray16"] = {{"images", m.gray16}, {"least", m.least_gray16}, {"most", m.most_gray16}};
  if (!info.content_hash.empty()) json["content_hash"] = info.content_hash;
  return json;
}

struct InfoCommand {
  DataSource source;
  std::string format = "text";
  bool full = false;

  int operator()() const {
    const DataSource::Opened opened = source.open();
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    std::vector<std::string> class_names;
    std::vector<MeasuredSlice> measured;
    JpegFiles jpegs;
    std::int64_t count = 0;
    for (const std::string& slice : opened.slices) {
      ImageSet images = read(opened, slice, class_names);
      jpegs.add(images.jpegs);
      count += images.size();
      if (class_names.empty()) class_names = images.class_names;
      finish_image_set(images);
      SliceInfo info{slice, images, opened.place.layout == DatasetLayout::image_masks,
                     measure_images(images, source.threads)};
      measured.push_back(measured_slice(slice, images, info.measures));
      if (full && images.encoded) info.content_hash = encoded_content_hash(images);
      if (format == "text")
        print_slice(info);
      else
        all.push_back(slice_json(info));
    }
    const std::vector<std::string> equal = words_on_equal_images(measured);
    const std::string copy = jpeg_copy(opened.config.name, jpegs, count);
    if (format == "text") {
      for (const std::string& words : equal) print_text("equal: {}\n", words);
      if (!copy.empty()) print_text("{}{}\n", copy, kNotPublished);
    }
    if (format == "json") {
      nlohmann::ordered_json out{{"dataset", opened.config.name},
                                 {"layout", std::string(word_of(opened.place.layout))},
                                 {"folder", opened.place.folder.string()},
                                 {"slices", std::move(all)},
                                 {"equal_images", equal}};
      if (!copy.empty()) out["jpeg_copy"] = copy;
      print_bytes(out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
    }
    return 0;
  }

 private:
  /// Read as for training, so that the hash matches that of its results. If bad images prevent that, read without them.
  ImageSet read(const DataSource::Opened& opened, const std::string& slice,
                const std::vector<std::string>& class_names) const {
    try {
      return source.read(opened, slice, class_names, false, false);
    } catch (const InputError&) {
      return source.read(opened, slice, class_names, true, false);
    }
  }
};

struct PackCommand {
  DataSource source;
  PackSettings settings;
  std::string out;
  bool skip_bad = false;
  std::optional<int> quality;

  int operator()() const {
    const DataSource::Opened opened = source.open();
    if (opened.config.layout == DatasetLayout::image_masks)
      throw InputError(
          "data pack: layout image_masks has masks, which shards of JPEGs would leave out; use the folders");
    PackSettings pack = settings;
    pack.threads = source.threads;
    pack.encode_all = quality.has_value();
    if (quality) pack.quality = *quality;
    std::vector<std::string> class_names;
    JpegFiles jpegs;
    for (const std::string& text : opened.slices) {
      const Slice slice = parse_slice(text);
      const ImageSet images = source.read(opened, text, class_names, skip_bad, true);
      if (class_names.empty()) class_names = images.class_names;
      for (const BadImage& bad : images.bad_images)
        tell("skipped: {}: {}\n", visible_line(bad.key), visible_line(bad.reason));
      const auto start = std::chrono::steady_clock::now();
      const PackReport report = pack_images(images, slice.split, out, pack);
      jpegs.add(report.jpegs);
      const double seconds = seconds_since(start);
      print_text(
          "{}: {} images in {} shards, {} of them copied unchanged, {} bytes of JPEG, {} skipped, {:.0f} images/s\n",
          text, report.images, report.shards, report.copied, report.bytes, images.bad_images.size(),
          double(report.images) / std::max(seconds, 1e-9));
    }
    if (const std::string copy = jpeg_copy(opened.config.name, jpegs, jpegs.count); !copy.empty())
      print_text("{}{}\n", copy, kNotPublished);
    return 0;
  }
};

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

void add_data_info(Command& data) {
  auto [command, info] = data.add_command<InfoCommand>(
      "info", "print a data set's counts, image sizes, classes, mean, standard deviation and hash");
  add_data_source(command, info.source);
  command.add_flag("--full", info.full, "also hash the bytes of every file");
  command.add_choice("--format", info.format, "output format", {"text", "json"});
  command.examples({"normlab data info gratings --slice test", "normlab data info ~/pets --layout image_folder"});
}

void add_data_pack(Command& data) {
  auto [command, pack] =
      data.add_command<PackCommand>("pack", "pack a data set into WebDataset shards of JPEGs, resized if asked");
  add_data_source(command, pack.source);
  command.add_output(Output::folder, "--out", pack.out, "folder for the shards and classes.txt").required();
  command.add_number("--size", pack.settings.size,
                     "shrink each image's shorter side to this many pixels; 0: keep the sizes", 0, 65500);
  command.add_bounded(
      "--quality", pack.quality,
      "encode every image with this JPEG quality; without it, copy JPEGs that keep their size and encode the others "
      "with 95",
      1, 100);
  command.add_number("--shard-size", pack.settings.shard_size, "images per shard", 1, 1000000);
  command.add_flag("--skip-bad", pack.skip_bad, "skip and name images that cannot be decoded, instead of stopping");
  command.examples({"normlab data pack ~/pets --layout image_folder --out ~/pets-256 --size 256",
                    "normlab data pack ~/pets --layout image_folder --slice train --out ~/pets-train --skip-bad"});
}

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

}  // namespace

void add_data(Command& app) {
  Command data = app.add_group("data", "inspect data sets, preview training images, and pack images into shards");
  add_data_info(data);
  add_data_pack(data);
  add_data_preview(data);
  data.examples({"normlab data info gratings", "normlab help data preview"});
}

}  // namespace normlab
