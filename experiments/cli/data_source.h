// What the commands on data take to find a dataset.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/cli/commands.h"
#include "experiments/data/dataset_place.h"

namespace normlab {

struct DataSource {
  std::string dataset, shards, labels;
  DatasetLayout layout = DatasetLayout::known;
  std::optional<std::string> root;
  std::vector<std::string> slices;  // empty: every split
  int threads = 1;

  void add_to(Command& command);

  struct Opened {
    DatasetConfig config;
    DatasetPlace place;
    std::vector<std::string> slices;
    /// Of the training split, or of that of `slice` where a folder has none.
    std::vector<std::string> class_names(const std::string& slice) const;
  };
  /// Finds the dataset: a known name, a folder below the data root, or the path of a folder. InputError: not there, an
  /// unknown name without a layout.
  Opened open() const;
  /// The data set of a descriptor.
  Opened open(const DatasetConfig& config) const;
  /// One slice; `class_names`: those of the first slice. The rest as in SliceRequest.
  ImageSet read(const Opened& opened, const std::string& slice, const std::vector<std::string>& class_names,
                bool skip_bad, bool keep_encoded) const;
};

}  // namespace normlab
