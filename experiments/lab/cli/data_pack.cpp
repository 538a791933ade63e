#include <chrono>

#include "core/visible_text.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/data/data_source.h"
#include "experiments/lab/data/pack.h"

namespace normlab {
namespace {

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
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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

}  // namespace

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

}  // namespace normlab
