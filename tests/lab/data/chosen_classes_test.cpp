// dataset.classes and class_groups: some classes of a data set, in an order of their own or merged.
#include <doctest/doctest.h>

#include "core/error.h"
#include "experiments/lab/data/dataset.h"

using namespace normlab;

namespace {

DatasetConfig with_classes(const std::vector<std::string>& classes) {
  DatasetConfig config{.name = "shapes", .train_images = 100, .eval_images = 50};
  config.classes = classes;
  return config;
}

DataPair load(const DatasetConfig& config) { return load_dataset(config, std::nullopt, 1); }

std::vector<std::string> all_names() { return load(with_classes({})).train.class_names; }

}  // namespace

TEST_CASE("classes: only images of the chosen classes are loaded") {
  const std::vector<std::string> names = all_names();
  const DataPair pair = load(with_classes({names[7], names[2]}));
  CHECK(pair.train.size() == 20);
  CHECK(pair.eval.size() == 10);
  CHECK(pair.train.num_classes == 2);
}

TEST_CASE("classes: labels count in the order of the names") {
  const std::vector<std::string> names = all_names();
  const DataPair whole = load(with_classes({})), pair = load(with_classes({names[7], names[2]}));
  CHECK(pair.train.class_names == std::vector<std::string>{names[7], names[2]});
  for (std::int64_t i = 0; i < pair.train.size(); ++i) {
    const std::string key = pair.train.key(i);
    for (std::int64_t j = 0; j < whole.train.size(); ++j)
      if (whole.train.key(j) == key)
        CHECK(pair.train.labels[std::size_t(i)] == (whole.train.labels[std::size_t(j)] == 7 ? 0 : 1));
  }
}

TEST_CASE("classes: another order is other data") {
  const std::vector<std::string> names = all_names();
  CHECK(data_hash(load(with_classes({names[7], names[2]}))) != data_hash(load(with_classes({names[2], names[7]}))));
}

TEST_CASE("classes: a slice counts images of the chosen classes") {
  const std::vector<std::string> names = all_names();
  DatasetConfig config = with_classes({names[1], names[4], names[5]});
  config.train = "train[:20]";
  CHECK(load(config).train.size() == 20);
}

TEST_CASE("classes: images per class are chosen as without them") {
  const std::vector<std::string> names = all_names();
  DatasetConfig config = with_classes({names[1], names[4]});
  config.per_class = 3;
  CHECK(load(config).train.size() == 6);
}

TEST_CASE("classes: an unknown name is an error with the nearest one") {
  const std::vector<std::string> names = all_names();
  try {
    load(with_classes({names[0], names[3] + "s"}));
    FAIL("no error");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("unknown class \"" + names[3] + "s\"; did you mean \"" + names[3] + "\"?") !=
          std::string::npos);
  }
}

namespace {

DatasetConfig with_groups(const ClassGroups& groups) {
  DatasetConfig config{.name = "shapes", .train_images = 100, .eval_images = 50};
  config.class_groups = groups;
  return config;
}

}  // namespace

TEST_CASE("class groups: the images of a group's classes have its label") {
  const std::vector<std::string> names = all_names();
  const DataPair whole = load(with_classes({}));
  const DataPair pair = load(with_groups({{"far", {names[0], names[2]}}, {"on", {names[9], names[8], names[1]}}}));
  CHECK(pair.train.class_names == std::vector<std::string>{"far", "on"});
  CHECK(pair.train.num_classes == 2);
  CHECK(pair.train.size() == 50);
  CHECK(pair.eval.size() == 25);
  for (std::int64_t i = 0; i < pair.train.size(); ++i) {
    const std::int32_t was = whole.train.labels[std::size_t(std::stoll(pair.train.key(i)))];
    CHECK(pair.train.labels[std::size_t(i)] == (was == 0 || was == 2 ? 0 : 1));
  }
}

TEST_CASE("class groups: the images are those of the classes alone, but other data") {
  const std::vector<std::string> names = all_names();
  const DataPair merged = load(with_groups({{"a", {names[3]}}, {"b", {names[4], names[6]}}}));
  const DataPair chosen = load(with_classes({names[3], names[4], names[6]}));
  CHECK(merged.train.keys == chosen.train.keys);
  CHECK(data_hash(merged) != data_hash(chosen));
}

TEST_CASE("class groups: images per class count each class of the data") {
  const std::vector<std::string> names = all_names();
  DatasetConfig config = with_groups({{"a", {names[3]}}, {"b", {names[4], names[6]}}});
  config.per_class = 3;
  CHECK(load(config).train.size() == 9);
}

TEST_CASE("class groups: an unknown class is an error with the nearest one") {
  const std::vector<std::string> names = all_names();
  try {
    load(with_groups({{"a", {names[0]}}, {"b", {names[3] + "s"}}}));
    FAIL("no error");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("unknown class \"" + names[3] + "s\"; did you mean \"" + names[3] + "\"?") !=
          std::string::npos);
  }
}
