#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/output_file.h"
#include "experiments/lab/data/data_source.h"
#include "experiments/lab/data/dataset.h"
#include "experiments/lab/data/equal_images.h"
#include "experiments/lab/data/image_files.h"
#include "experiments/lab/data/measure.h"
#include "experiments/lab/sweep/runner.h"
#include "experiments/lab/sweep/slurm.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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

/// A slice that the descriptor names, or another split.
struct Split {
  std::string name;
  ImageMeasures measures;
  std::int64_t listed = 0, channels = 0;  // images, undecodable ones too
};

struct InitCommand {
  std::string folder, output;
  DataSource source;

  int operator()() {
    const fs::path path = fs::absolute(fs::path(folder) / "").lexically_normal().parent_path();
    if (!is_folder(path)) throw InputError(concat(folder, ": no such folder"));
    const std::string name = path.filename().string();
    const fs::path file = output.empty() ? fs::path(name + ".json") : fs::path(output);
    require_new_output(file);
    source.dataset = path.string();
    std::tie(source.layout, source.labels) = recognised_layout(path);
    DataSource::Opened opened = source.open();
    require_training_split(opened.slices);
    if (opened.slices.size() == 1) divide(path, opened);
    std::vector<Split> splits;
    std::vector<MeasuredSlice> measured;
    std::vector<std::string> classes;
    for (const std::string& split : opened.slices) {
      const ImageSet images = source.read(opened, split, classes, false, true);
      if (classes.empty()) classes = images.class_names;
      splits.push_back({split, measure_images(images, source.threads), images.size(), images.channels});
      measured.push_back(measured_slice(split, images, splits.back().measures));
    }
    if (classes.size() < 2) refuse_one_class(path);
    require_useful(splits, classes);
    const std::string text = descriptor(opened, splits, classes);
    write_new_output(file, text);
    report(path, file, splits, classes, words_on_equal_images(measured));
    return 0;
  }

 private:
  void require_training_split(const std::vector<std::string>& splits) const {
    if (is_training_split(splits.front())) return;
    if (is_split_name(splits.front()))
      throw InputError(concat(folder, ": has no split \"train\" to train on, only ", splits.front()));
    throw InputError(concat(
        folder, ": its folders ", joined(splits, ", "),
        " all hold the same folders, so they are splits and not classes. Rename the one to train on to train and the "
        "other one to val. If they are the classes, put them into a folder train"));
  }

  /// Replaces the only split by four fifths and one fifth of each class.
  void divide(const fs::path& path, DataSource::Opened& opened) const {
    const std::string split = opened.slices.front();
    opened.config.stratified = true;
    opened.slices = {split + "[:80%]", split + "[80%:]"};
    const ImageSet all = source.read(opened, split, {}, false, true);
    if (all.num_classes < 2) refuse_one_class(path);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(all.num_classes));
    for (const std::int32_t label : all.labels) ++counts[static_cast<std::size_t>(label)];
    std::vector<std::string> single;
    for (std::size_t c = 0; c < counts.size(); ++c)
      if (counts[c] == 1) single.push_back(shown(all.class_names[c]));
    if (!single.empty()) {
      const std::size_t count = single.size();
      if (constexpr std::size_t kShown = 5; count > kShown) single.resize(kShown);
      throw InputError(concat(folder, ": ", count, " of ", counts.size(), count == 1 ? " classes has" : " classes have",
                              " one image (", joined(single, ", "), count > single.size() ? ", ..." : "", "), so ",
                              count == 1 ? "it" : "they",
                              " cannot be in training and evaluation; add images of them or remove their folders"));
    }
    std::int64_t evaluated = 0;
    for (const std::int64_t count : counts)
      if (count > 0) evaluated += images_of_class(parse_slice(opened.slices[1]), opened.config.name, count);
    if (evaluated < kFewestEvaluated)
      throw InputError(concat(folder, ": has ", plural(all.size(), "image"), ". One in five of each class, ", evaluated,
                              ", would be evaluated, and the result of fewer than ", kFewestEvaluated,
                              " says next to nothing; add images"));
  }

  [[noreturn]] void refuse_one_class(const fs::path& path) const {
    const FolderContent content = folder_content(path);
    const bool wrapped = content.folders.size() == 1 && !folder_content(path / content.folders[0]).folders.empty();
    throw InputError(concat(
        folder, ": has only one class; a training needs at least two",
        wrapped ? concat(". If the folders in ", shown(content.folders[0]), " are classes or splits, run init for ",
                         visible_line((path / content.folders[0]).string()))
                : ""));
  }

  /// What would be refused before a training, or give numbers without meaning.
  void require_useful(const std::vector<Split>& splits, const std::vector<std::string>& classes) {
    const ImageMeasures &train = splits[0].measures, &eval = splits[1].measures;
    if (train.images == 0)
      throw InputError(concat(folder, ": none of its training images can be decoded",
                              train.bad_images.empty() ? "" : ": " + visible_line(train.bad_images[0].reason)));
    if (std::any_of(train.deviation.begin(), train.deviation.end(), [](double d) { return d < 1e-4; })) {
      const std::string gray16 = words_on_gray16({&train});
      throw InputError(concat(
          folder,
          ": all pixels of its training images have the same value in some channel, so they cannot be normalised",
          gray16.empty() ? "" : ". " + gray16));
    }
    if (eval.images < kFewestEvaluated)
      throw InputError(concat(folder, ": ", splits[1].name, " has ", plural(eval.images, "image"),
                              " that can be decoded, and the result of fewer than ", kFewestEvaluated,
                              " says next to nothing; add images"));
    for (std::size_t c = 0; c < classes.size(); ++c) {
      if (train.class_counts[c] > 0) continue;
      absent_ = true;
      if (eval.class_counts[c] > 0)
        throw InputError(concat(folder, ": ", shown(classes[c]), " has ", plural(eval.class_counts[c], "image"), " in ",
                                splits[1].name, ", but none in ", splits[0].name,
                                ", so it cannot be learned; add training images or remove the class"));
    }
  }

  std::string descriptor(const DataSource::Opened& opened, const std::vector<Split>& splits,
                         const std::vector<std::string>& classes) {
    const Split& train = splits.front();
    const bool bad =
        std::any_of(splits.begin(), splits.end(), [](const Split& s) { return !s.measures.bad_images.empty(); });
    const bool known = find_dataset(opened.config.name) != nullptr;  // the folder may hold less than the name implies
    const bool photographs = train.channels == 3;
    const Pixels pixels = pixels_of(train.measures, photographs);
    const std::int64_t count = train.listed;
    const std::int64_t batch = std::clamp<std::int64_t>(count / 8, 1, 64);
    const std::int64_t epochs = std::clamp<std::int64_t>(100000 / count, 4, 100);

    std::string data = fmt::format("    \"name\": {},\n", json_text(opened.config.name + (known ? "_own" : "")));
    if (known) data += fmt::format("    \"path\": {},\n", json_text(opened.config.name));
    data += fmt::format("    \"layout\": \"{}\",\n", word_of(source.layout));
    if (!source.labels.empty()) data += fmt::format("    \"labels\": {},\n", json_text(source.labels));
    if (source.labels_from) data += fmt::format("    \"labels_from\": {},\n", *source.labels_from);
    if (!source.class_order.empty()) data += fmt::format("    \"class_order\": {},\n", json_text(source.class_order));
    data += fmt::format("    \"train\": \"{}\",\n    \"eval\": \"{}\",\n", train.name, splits[1].name);
    if (opened.config.stratified)
      data += fmt::format("    \"stratified\": true,\n    \"slice_seed\": {},\n", opened.config.slice_seed);
    if (absent_) data += "    \"allow_absent_classes\": true,\n";
    if (bad) data += "    \"on_bad_image\": \"skip\",\n";
    data += fmt::format("    \"mean\": [{:.4f}],\n    \"std\": [{:.4f}]\n", fmt::join(train.measures.mean, ", "),
                        fmt::join(train.measures.deviation, ", "));
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
        data, pixels.size, photographs ? "" : fmt::format("\"channels\": {}, ", train.channels), pixels.patch, epochs,
        batch, std::max<std::int64_t>(1, epochs / 10), pixels.augment,
        pixels.eval_transform.empty() ? "" : fmt::format(",\n    \"eval_transform\": {{ {} }}", pixels.eval_transform));
  }

  void report(const fs::path& path, const fs::path& file, const std::vector<Split>& splits,
              const std::vector<std::string>& classes, const std::vector<std::string>& equal) const {
    tell("{}: {}, {} classes\n", visible_line(path.string()), word_of(source.layout), classes.size());
    std::size_t width = 6;
    for (const Split& split : splits) width = std::max(width, split.name.size());
    for (const Split& split : splits) {
      const ImageMeasures& m = split.measures;
      const auto [least, most] = std::minmax_element(m.class_counts.begin(), m.class_counts.end());
      const auto range = [](const std::string& from, const std::string& to) {
        return from == to ? from : concat(from, " to ", to);
      };
      tell("  {:<{}} {}, {} of each class, {} pixels\n", split.name, width, plural(m.images, "image"),
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
    note_dominant(splits[1], classes);
    std::vector<const ImageMeasures*> measures;
    for (const Split& split : splits) measures.push_back(&split.measures);
    if (const std::string words = words_on_gray16(measures); !words.empty()) tell("  {}\n", words);
    for (const std::string& words : equal) tell("  {}\n", words);
    if (absent_) tell("  some classes have no training image, so the descriptor sets \"allow_absent_classes\"\n");
    if (output == "-" || is_stream(file)) return;
    const std::string descriptor = shell_quoted(file.string()),
                      data = " --data " + shell_quoted(path.parent_path().string());
    tell("wrote {}\n  normlab check {}{}\n  normlab plan {}{}\n  normlab run {}{}\n", visible_line(file.string()),
         descriptor, data, descriptor, data, descriptor, data);
  }

  /// What a network gets that always answers the most frequent class, where that is far more than by chance.
  static void note_dominant(const Split& eval, const std::vector<std::string>& classes) {
    const std::vector<std::int64_t>& counts = eval.measures.class_counts;
    const auto most = std::max_element(counts.begin(), counts.end());
    const double share = double(*most) / double(eval.measures.images);
    if (share * double(classes.size()) < 1.5) return;
    tell("  the classes differ in size: always answering {} gives {:.1f}% of {}\n",
         in_quotes(classes[std::size_t(most - counts.begin())]), 100 * share, eval.name);
  }

  /// Folders beside train/ that are no splits.
  std::vector<std::string> unused_folders(const fs::path& path, const std::vector<Split>& splits) const {
    if (!traits_of(source.layout).files || !is_folder(path / splits.front().name)) return {};
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
      .add_option(
          "folder", init.folder,
          "folder with train/CLASS/*.jpg and val/CLASS/*.jpg (or Training, Testing, ...), with CLASS/*.jpg, with "
          "WebDataset shards, or with images and a file of labels (docs/data.md)")
      .required();
  command.add_output(Output::stream, "-o", init.output,
                     "descriptor to write; -: standard output (default: FOLDER.json in the current folder)");
  add_label_options(command, init.source.labels_from, init.source.class_order);
  init.source.threads = available_cores();
  command.add_number("--threads", init.source.threads, "how many cores to use", 1, 1024).show_default("all cores");
  command.footer(
      "Every image is decoded once. Images that cannot be decoded are named, and the training skips them. Equal images "
      "in training and evaluation are named too. A set of one split is cut into four fifths and one fifth of each "
      "class.");
  command.examples({"normlab init photos", "normlab init ~/pets -o pets_sweep.json"});
}

}  // namespace normlab
