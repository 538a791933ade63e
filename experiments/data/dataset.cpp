#include "experiments/data/dataset.h"

#include <cstdlib>
#include <vector>

#include "core/error.h"
#include "experiments/data/readers.h"
#include "experiments/data/shapes.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCifarFolder = "cifar-10-batches-bin";

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

/// A dataset found on disk.
struct Place {
  fs::path folder;
  bool shards = false;  // WebDataset, else CIFAR's binary
};

std::optional<Place> look_in(const fs::path& folder, DatasetLayout layout) {
  if (layout != DatasetLayout::cifar && has_webdataset(folder)) return Place{folder, true};
  if (layout != DatasetLayout::webdataset) {
    if (has_cifar_binary(folder)) return Place{folder, false};
    if (has_cifar_binary(folder / kCifarFolder)) return Place{folder / kCifarFolder, false};
  }
  return std::nullopt;
}

Place find_dataset(const DatasetConfig& config, const fs::path& root) {
  const fs::path below = config.path.empty() ? config.name : config.path;
  for (const fs::path& part : below) {
    if (below.is_absolute() || part == "..") {
      throw InputError(concat("dataset path \"", below.string(),
                              "\" leaves the data root; name a folder below it, and give ",
                              "the root with --data or NORMLAB_DATA"));
    }
  }
  std::vector<fs::path> places{root / below};
  if (config.layout == DatasetLayout::known && config.path.empty()) places.push_back(root);
  for (const fs::path& folder : places) {
    if (const auto place = look_in(folder, config.layout)) return *place;
  }
  std::string message = concat("dataset \"", config.name, "\" is not there. Looked in:\n");
  for (const fs::path& folder : places)
    message += concat("  ", folder.string(), is_folder(folder) ? "" : " (no such folder)", "\n");
  message += "Expected there:\n";
  if (config.layout != DatasetLayout::cifar)
    message += "  classes.txt and shards train-000000.tar, ..., test-000000.tar (or .tar.gz)\n";
  if (config.layout != DatasetLayout::webdataset) {
    message +=
        concat("  ", kCifarFolder, "/ with data_batch_1.bin to data_batch_5.bin, test_batch.bin, batches.meta.txt\n");
  }
  throw InputError(message + "Give the folder above with --data DIR or NORMLAB_DATA.");
}

ImageSet read_slice(const DatasetConfig& config, const std::optional<Place>& place, const std::string& text,
                    int threads) {
  const Slice slice = parse_slice(text);
  if (!place) return make_shapes(config, slice);
  return place->shards ? read_webdataset(place->folder, slice, config.name, threads)
                       : read_cifar_binary(place->folder, slice, config.name);
}

void require_all_classes(const DatasetConfig& config, const ImageSet& train) {
  std::vector<bool> seen(static_cast<std::size_t>(train.num_classes));
  for (const std::int32_t label : train.labels) seen[static_cast<std::size_t>(label)] = true;
  std::string absent;
  for (std::size_t c = 0; c < seen.size(); ++c) {
    if (!seen[c]) absent += concat(absent.empty() ? "" : ", ", train.class_names[c]);
  }
  if (!absent.empty()) {
    throw InputError(concat("dataset \"", config.name, "\", training slice \"", config.train, "\": no image of ",
                            absent, "; take a larger slice or set allow_absent_classes"));
  }
}

}  // namespace

fs::path find_data_root(const std::optional<fs::path>& from_command_line) {
  if (from_command_line) {
    if (is_folder(*from_command_line)) return *from_command_line;
    throw InputError(concat("--data ", from_command_line->string(), ": no such folder"));
  }
  const char* variable = std::getenv("NORMLAB_DATA");
  if (variable != nullptr && *variable != '\0') {
    if (is_folder(variable)) return variable;
    throw InputError(concat("NORMLAB_DATA is ", variable, ": no such folder"));
  }
  if (is_folder("data")) return "data";
  throw InputError(concat("no data folder: --data is not given, NORMLAB_DATA is not set, and there is no ",
                          (fs::current_path() / "data").string()));
}

DataPair load_dataset(const DatasetConfig& config, const std::optional<fs::path>& data_from_command_line, int threads) {
  const bool shapes = config.layout == DatasetLayout::known && config.name == "shapes";
  if (config.layout == DatasetLayout::known && !shapes && config.name != "cifar10") {
    throw InputError(concat("dataset \"", config.name,
                            "\" is not known by name (\"shapes\", \"cifar10\"); for data of your ",
                            "own set \"layout\" to \"webdataset\" or \"cifar\""));
  }
  std::optional<Place> place;
  if (!shapes) place = find_dataset(config, find_data_root(data_from_command_line));
  DataPair pair{read_slice(config, place, config.train, threads), read_slice(config, place, config.eval, threads)};
  const ImageSet &train = pair.train, &eval = pair.eval;
  if (train.height != eval.height || train.width != eval.width || train.channels != eval.channels) {
    throw InputError(concat("dataset \"", config.name, "\": training images are ", train.width, "x", train.height,
                            " pixels, evaluation images ", eval.width, "x", eval.height));
  }
  if (!config.allow_absent_classes) require_all_classes(config, train);
  finish_image_set(pair.train);
  finish_image_set(pair.eval);
  return pair;
}

}  // namespace normlab
