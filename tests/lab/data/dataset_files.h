// Folders of shards and settings for the tests of datasets.
#pragma once

#include <string>

#include "experiments/lab/data/dataset.h"
#include "tests/lab/data/fixtures.h"

namespace normlab::test {

/// Ten training images of the first `classes_in_train` of two classes, and one of the second class for tests.
inline void write_shards(const std::filesystem::path& folder, int classes_in_train = 2) {
  write_file(folder / "classes.txt", "ant\nbee\n");
  Members train;
  for (unsigned i = 0; i < 10; ++i) {
    train.push_back({concat(i, ".jpg"), make_jpeg(8, 8, i)});
    train.push_back({concat(i, ".cls"), std::to_string(int(i) % classes_in_train)});
  }
  write_tar(folder / "train-000000.tar", train);
  write_tar(folder / "test-000000.tar", {{"0.jpg", make_jpeg(8, 8, 3)}, {"0.cls", "1"}});
}

inline DatasetConfig named(const std::string& name, const std::string& path = "",
                           DatasetLayout layout = DatasetLayout::known) {
  DatasetConfig config;
  config.name = name;
  config.path = path;
  config.layout = layout;
  return config;
}

}  // namespace normlab::test
