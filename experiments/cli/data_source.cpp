#include "experiments/cli/data_source.h"

#include "core/error.h"
#include "experiments/base/suggest.h"
#include "experiments/data/dataset.h"
#include "experiments/descriptor/known_images.h"

namespace normlab {

namespace fs = std::filesystem;

void DataSource::add_to(Command& command) {
  command.add_option("dataset", dataset, "name of a known data set, or a folder: in the data root or any path")
      .required();
  command.add_choice("--layout", layout, "layout of the folder's files");
  command.add_option("--data", root, "folder of the data sets (default: NORMLAB_DATA, else ./data)");
  command
      .add_option("--slice", slices,
                  "slice such as \"train\" or \"train[:99%]\"; may be repeated (default: every split)")
      .one_each();
  command.add_flag("--stratified", stratified, "cut the percentages of slices from each class (dataset.stratified)");
  command
      .add_option("--slice-seed", slice_seed, "seed of the permutation that slices are cut from (dataset.slice_seed)")
      .show_default();
  command.add_option("--shards", shards,
                     "webdataset: file names such as \"pets-{0000..0146}.tar\"; needs exactly one --slice");
  command.add_option("--labels", labels, "image_list, image_folder: file of labels");
  add_label_options(command, labels_from, class_order);
  command.add_number("--threads", threads, "how many cores to use", 1, 1024).show_default("all cores");
}

void DataSource::add_label_options(Command& command, std::optional<int>& labels_from, std::string& class_order,
                                   const std::function<void(Option)>& change) {
  change(command
             .add_option("--labels-from", labels_from,
                         "the first number of labels that are numbers (default: the only one of 0 and 1 that fits; for "
                         "webdataset and idx 0)")
             .range(0, 1));
  change(
      command.add_option("--class-order", class_order,
                         "order of the classes of image_folder, image_list and tiny_imagenet, by which labels count: "
                         "bytes (10 before 2), natural (2 before 10), or a file in the data set's folder with a class "
                         "name per line (default: bytes, or for image_list classes.txt)"));
}

DataSource::Opened DataSource::open() const {
  Opened opened;
  DatasetConfig& config = opened.config;
  config.name = dataset;
  config.train_shards = shards;
  config.labels = labels;
  config.stratified = stratified;
  config.slice_seed = slice_seed;
  config.layout = layout;
  config.labels_from = labels_from;
  config.class_order = class_order;
  if (labels_from && labels.empty() && layout != DatasetLayout::webdataset && layout != DatasetLayout::idx)
    throw InputError("--labels-from: applies to a file of --labels and to --layout webdataset and idx; leave it out");
  const bool known = find_dataset(dataset) != nullptr && config.layout == DatasetLayout::known;
  if (!known && config.layout == DatasetLayout::known) {
    std::vector<std::string_view> names;
    for (const KnownDataset& each : kKnownDatasets) names.push_back(each.name);
    throw InputError(concat(unknown_word("dataset", dataset, names), "; for a folder of your own, give its --layout"));
  }
  if (dataset != "shapes" && dataset != "gratings") {
    std::error_code error;
    const fs::path path = fs::absolute(fs::path(dataset) / "").lexically_normal().parent_path();
    if (!known && !root && fs::is_directory(path, error)) {
      config.name = config.path = path.filename().string();
      opened.place = find_dataset_place(config, path.parent_path());
    } else {
      opened.place = find_dataset_place(config, find_data_root(root ? std::optional<fs::path>(*root) : std::nullopt));
    }
  }
  opened.slices = slices;
  if (!shards.empty() && slices.size() != 1)
    throw InputError("--shards: the files are one split; name it with one --slice, such as --slice train");
  if (slices.empty()) opened.slices = dataset_splits(opened.place);
  return opened;
}

DataSource::Opened DataSource::open(const DatasetConfig& config) const {
  Opened opened{config, {}, slices};
  if (!config.generated() || config.layout != DatasetLayout::known)
    opened.place = find_dataset_place(config, find_data_root(root ? std::optional<fs::path>(*root) : std::nullopt));
  return opened;
}

std::vector<std::string> DataSource::Opened::class_names(const std::string& slice) const {
  return classes_beside(config, place, slice);
}

ImageSet DataSource::read(const Opened& opened, const std::string& slice, const std::vector<std::string>& class_names,
                          bool skip_bad, bool keep_encoded) const {
  SliceRequest request;
  request.slice = parse_slice(slice);
  request.dataset = opened.config.name;
  request.subset.rule = slice_rule(opened.config);
  request.skip_bad = skip_bad;
  request.keep_encoded = keep_encoded;
  request.threads = threads;
  request.class_names = class_names;
  return read_dataset(opened.config, opened.place, shards, request);
}

}  // namespace normlab
