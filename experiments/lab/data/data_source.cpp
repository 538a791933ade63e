#include "experiments/lab/data/data_source.h"

#include "core/error.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/data/dataset.h"
#include "experiments/lab/data/image_files.h"
#include "experiments/lab/descriptor/schema_nodes.h"
#include "experiments/lab/descriptor/slice.h"

namespace normlab {

namespace fs = std::filesystem;

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
  if (labels_from && labels.empty() && !traits_of(layout).numbered)
    throw InputError("--labels-from: applies to a file of --labels and to --layout webdataset and idx; leave it out");
  const bool known = find_dataset(dataset) != nullptr && config.layout == DatasetLayout::known;
  if (!known && config.layout == DatasetLayout::known)
    throw InputError(concat(unknown_word("dataset", dataset, names_of(kKnownDatasets)),
                            "; for a folder of your own, give its --layout"));
  if (dataset != "shapes" && dataset != "gratings") {
    const fs::path path = fs::absolute(fs::path(dataset) / "").lexically_normal().parent_path();
    if (!known && !root && is_folder(path)) {
      config.name = config.path = path.filename().string();
      opened.place = find_dataset_place(config, path.parent_path());
    } else {
      opened.place = find_dataset_place(config, root ? std::optional<fs::path>(*root) : std::nullopt);
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
    opened.place = find_dataset_place(config, root ? std::optional<fs::path>(*root) : std::nullopt);
  return opened;
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
