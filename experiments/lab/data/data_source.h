// A data set that a command names.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/data/dataset_place.h"

namespace normlab {

struct DataSource {
  std::string dataset, shards, labels;
  DatasetLayout layout = DatasetLayout::known;
  std::optional<std::string> root;
  std::vector<std::string> slices;  // empty: all splits
  std::optional<int> labels_from;   // DatasetConfig::labels_from and class_order
  std::string class_order;
  int threads = 1;
  bool stratified = false;
  std::uint64_t slice_seed = 0;

  struct Opened {
    DatasetConfig config;
    DatasetPlace place;
    std::vector<std::string> slices;
  };
  /// A known name, a folder below the data root, or a path. InputError if it is not found, or if the name is unknown
  /// and no layout is given.
  Opened open() const;
  Opened open(const DatasetConfig& config) const;
  /// `class_names`: those of the first slice; the rest as in SliceRequest.
  ImageSet read(const Opened& opened, const std::string& slice, const std::vector<std::string>& class_names,
                bool skip_bad, bool keep_encoded) const;
};

}  // namespace normlab
