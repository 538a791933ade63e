#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/base/files.h"
#include "experiments/base/terminal.h"
#include "experiments/base/text_layout.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/data_source.h"
#include "experiments/data/image_files.h"
#include "experiments/data/measure.h"
#include "experiments/sweep/runner.h"
#include "experiments/sweep/slurm.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string four_digits(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += fmt::format("{}{:.4f}", text.empty() ? "" : ", ", value);
  return text;
}

struct Pixels {
  std::int64_t size = 0, patch = 0;
  std::string augment, eval_transform;  // eval_transform: empty if images already have the size
};

/// Small images of one size are kept; others are cropped to 64 pixels, or less if they are smaller.
Pixels pixels_of(const ImageMeasures& m, bool flips) {
  constexpr std::int64_t kLargest = 96, kUsual = 64, kPatches = 8;
  const bool one_size = m.height[0] == m.height[2] && m.width[0] == m.width[2] && m.height[0] == m.width[0];
  const std::string flip = flips ? ", \"flip\": true" : "";
  if (one_size && m.height[0] <= kLargest) {
    const std::int64_t side = m.height[0];
    for (const std::int64_t patches : {8, 7, 6, 9, 10, 12, 5, 4, 14, 16})
      if (side % patches == 0)
        return {side, side / patches, fmt::format("\"crop_padding\": {}{}", std::max<std::int64_t>(1, side / 8), flip),
                ""};
  }
  const std::int64_t shorter = std::min(m.height[1], m.width[1]);
  const std::int64_t size = std::clamp(shorter / kPatches * kPatches, std::int64_t{16}, kUsual);
  return {size, size / kPatches, "\"crop\": \"inception_torchvision\"" + flip, "\"crop\": \"center\""};
}

struct Split {
  std::string name;
  ImageMeasures measures;
};

struct InitCommand {
  std::string folder, output;
  DataSource source;

  int operator()() {
    const fs::path path = fs::absolute(fs::path(folder) / "").lexically_normal().parent_path();
    if (!is_folder(path)) throw InputError(concat(folder, ": no such folder"));
    const std::string name = path.filename().string();
    const fs::path file = output.empty() ? fs::path(name + ".json") : fs::path(output);
    if (output != "-" && fs::exists(file))
      throw InputError(concat(file.string(), ": exists already; give another file with -o"));
    source.dataset = path.string();
    std::tie(source.layout, source.labels) = recognised_layout(path);
    DataSource::Opened opened = source.open();
    std::vector<Split> splits;
    std::vector<std::string> classes;
    for (const std::string& split : opened.slices) {
      const ImageSet images = source.read(opened, split, classes, false, true);
      if (classes.empty()) classes = images.class_names;
      splits.push_back({split, measure_images(images, source.threads)});
    }
    if (splits.front().name != "train")
      throw InputError(concat(folder, ": has no split \"train\" to train on, only ", splits.front().name));
    if (classes.size() < 2) throw InputError(concat(folder, ": has only one class; a training needs at least two"));
    const std::vector<double>& deviation = splits.front().measures.deviation;
    if (splits.front().measures.images == 0)
      throw InputError(concat(folder, ": none of its training images can be decoded"));
    if (std::any_of(deviation.begin(), deviation.end(), [](double d) { return d < 1e-4; }))
      throw InputError(concat(
          folder,
          ": all pixels of its training images have the same value in some channel, so they cannot be normalised"));
    const std::string text = descriptor(opened, splits, classes);
    if (output == "-") {
      print_bytes(text);
    } else if (!publish(file, text)) {
      throw InputError(concat(file.string(), ": exists already; give another file with -o"));
    }
    report(path, file, splits, classes.size());
    return 0;
  }

 private:
  std::string descriptor(const DataSource::Opened& opened, const std::vector<Split>& splits,
                         const std::vector<std::string>& classes) {
    const Split& train = splits.front();
    const bool divided = splits.size() > 1;
    const std::string train_slice = divided ? "train" : "train[:80%]";
    const std::string eval_slice = divided ? splits[1].name : "train[80%:]";
    const ImageSet images = source.read(opened, train_slice, classes, false, true);
    std::vector<bool> seen(classes.size());
    for (const std::int32_t label : images.labels) seen[static_cast<std::size_t>(label)] = true;
    absent_ = std::find(seen.begin(), seen.end(), false) != seen.end();
    const bool bad =
        std::any_of(splits.begin(), splits.end(), [](const Split& s) { return !s.measures.bad_images.empty(); });
    const bool known = find_dataset(opened.config.name) != nullptr;  // the folder may hold less than the name implies
    const bool photographs = images.channels == 3;
    const Pixels pixels = pixels_of(train.measures, photographs);
    const std::int64_t count = images.size();
    if (count == 0) throw InputError(concat(folder, ": has too few images to split them into training and evaluation"));
    const std::int64_t batch = std::clamp<std::int64_t>(count / 8, 1, 64);
    const std::int64_t epochs = std::clamp<std::int64_t>(100000 / count, 4, 100);

    std::string data = fmt::format("    \"name\": {},\n", json_text(opened.config.name + (known ? "_own" : "")));
    if (known) data += fmt::format("    \"path\": {},\n", json_text(opened.config.name));
    data += fmt::format("    \"layout\": \"{}\",\n", word_of(source.layout));
    if (!source.labels.empty()) data += fmt::format("    \"labels\": {},\n", json_text(source.labels));
    data += fmt::format("    \"train\": \"{}\",\n    \"eval\": \"{}\",\n", train_slice, eval_slice);
    if (absent_) data += "    \"allow_absent_classes\": true,\n";
    if (bad) data += "    \"on_bad_image\": \"skip\",\n";
    data += fmt::format("    \"mean\": [{}],\n    \"std\": [{}]\n", four_digits(train.measures.mean),
                        four_digits(train.measures.deviation));
    return fmt::format(
        R"({{
  "about": {},
  "dataset": {{
{}  }},
  "model": {{ "image_size": {}, {}"patch_size": {}, "embed_dim": 64, "depth": 4, "num_heads": 2, "pool": "gap" }},
  "train": {{
    "epochs": {},
    "batch_size": {},
    "optimizer": {{ "name": "adamw", "lr": 1e-3, "weight_decay": 0.05, "decay_matrices_only": true }},
    "schedule": {{ "name": "cosine", "warmup_epochs": {} }},
    "clip_norm": 1.0,
    "augment": {{ {} }}{}
  }},
  "sweep": {{ "model.placement": ["pre_pre", "post_post", "dpn"] }},
  "seeds": 3,
  "baseline": {{ "model.placement": "pre_pre" }}
}}
)",
        json_text(fmt::format("Do three placements of norms differ on {}? {} classes, {} training images.",
                              opened.config.name, classes.size(), count)),
        data, pixels.size, photographs ? "" : fmt::format("\"channels\": {}, ", images.channels), pixels.patch, epochs,
        batch, std::max<std::int64_t>(1, epochs / 10), pixels.augment,
        pixels.eval_transform.empty() ? "" : fmt::format(",\n    \"eval_transform\": {{ {} }}", pixels.eval_transform));
  }

  void report(const fs::path& path, const fs::path& file, const std::vector<Split>& splits, std::size_t classes) const {
    tell("{}: {}, {} classes\n", visible_line(path.string()), word_of(source.layout), classes);
    for (const Split& split : splits) {
      const ImageMeasures& m = split.measures;
      const auto [least, most] = std::minmax_element(m.class_counts.begin(), m.class_counts.end());
      const auto range = [](const std::string& from, const std::string& to) {
        return from == to ? from : concat(from, " to ", to);
      };
      tell("  {:<6} {}, {} of each class, {} pixels\n", split.name, plural(m.images, "image"),
           range(std::to_string(*least), std::to_string(*most)),
           range(fmt::format("{}x{}", m.width[0], m.height[0]), fmt::format("{}x{}", m.width[2], m.height[2])));
      constexpr std::size_t kShown = 10;
      for (std::size_t i = 0; i < std::min(kShown, m.bad_images.size()); ++i)
        tell("         skipped: {}: {}\n", visible_line(m.bad_images[i].key), visible_line(m.bad_images[i].reason));
      if (m.bad_images.size() > kShown) tell("         and {} more\n", m.bad_images.size() - kShown);
    }
    for (const std::string& unused : unused_folders(path, splits))
      tell("  not used: the folder {}; a split beside train is called val, valid, validation, dev or test\n",
           visible_line(unused));
    if (absent_) tell("  some classes have no training image, so the descriptor sets \"allow_absent_classes\"\n");
    if (output == "-") return;
    const std::string descriptor = shell_quoted(file.string()),
                      data = " --data " + shell_quoted(path.parent_path().string());
    tell("wrote {}\n  normlab check {}{}\n  normlab plan {}{}\n  normlab run {}{}\n", visible_line(file.string()),
         descriptor, data, descriptor, data, descriptor, data);
  }

  /// Folders beside train/ that are no splits.
  std::vector<std::string> unused_folders(const fs::path& path, const std::vector<Split>& splits) const {
    const bool by_folder = source.layout == DatasetLayout::image_folder || source.layout == DatasetLayout::image_list;
    if (!by_folder || !is_folder(path / "train")) return {};
    std::vector<std::string> folders = folder_content(path).folders;
    std::erase_if(folders, [&](const std::string& name) {
      return std::any_of(splits.begin(), splits.end(), [&](const Split& split) { return split.name == name; });
    });
    return folders;
  }

  bool absent_ = false;
};

}  // namespace

void add_init(Command& app) {
  auto [command, init] =
      app.add_command<InitCommand>("init", "write a descriptor that trains on a folder of your images");
  command
      .add_option("folder", init.folder,
                  "folder with train/CLASS/*.jpg and val/CLASS/*.jpg, with CLASS/*.jpg, with WebDataset shards, or "
                  "with images and a file of labels (docs/data.md)")
      .required();
  command.add_option("-o", init.output,
                     "descriptor to write; -: standard output (default: FOLDER.json in the current folder)");
  init.source.threads = available_cores();
  command.add_number("--threads", init.source.threads, "how many cores to use", 1, 1024).show_default("all cores");
  command.footer("Every image is decoded once. Images that cannot be decoded are named, and the training skips them.");
  command.examples({"normlab init photos", "normlab init ~/pets -o pets_sweep.json"});
}

}  // namespace normlab
