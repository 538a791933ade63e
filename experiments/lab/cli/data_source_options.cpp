#include "experiments/lab/cli/data_source_options.h"

namespace normlab {

void add_data_source(Command& command, DataSource& source) {
  command.add_option("dataset", source.dataset, "name of a known data set, or a folder: in the data root or any path")
      .required();
  command.add_choice("--layout", source.layout, "layout of the folder's files");
  command.add_option("--data", source.root, "folder of the data sets (default: NORMLAB_DATA, else ./data)");
  command
      .add_option("--slice", source.slices,
                  "slice such as \"train\" or \"train[:99%]\"; may be repeated (default: every split)")
      .one_each();
  command.add_flag("--stratified", source.stratified,
                   "cut the percentages of slices from each class (dataset.stratified)");
  command
      .add_option("--slice-seed", source.slice_seed,
                  "seed of the permutation that slices are cut from (dataset.slice_seed)")
      .show_default();
  command.add_option("--shards", source.shards,
                     "webdataset: file names such as \"pets-{0000..0146}.tar\"; needs exactly one --slice");
  command.add_option("--labels", source.labels, "image_list, image_folder: file of labels");
  add_label_options(command, source.labels_from, source.class_order);
  command.add_number("--threads", source.threads, "how many cores to use", 1, 1024).show_default("all cores");
}

void add_label_options(Command& command, std::optional<int>& labels_from, std::string& class_order,
                       const std::function<void(Option)>& change) {
  change(command.add_bounded(
      "--labels-from", labels_from,
      "the first number of labels that are numbers (default: the only one of 0 and 1 that fits; for webdataset and idx "
      "0)",
      0, 1));
  change(command.add_option(
      "--class-order", class_order,
      "order of the classes of image_folder, image_list and tiny_imagenet, by which labels count: bytes (10 before 2), "
      "natural (2 before 10), or a file in the data set's folder with a class name per line (default: bytes, or for "
      "image_list classes.txt)"));
}

}  // namespace normlab
