// Where a descriptor leaves the number of classes to its data set.
#include <doctest/doctest.h>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/tune.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

constexpr const char* kPets = R"({"dataset": {"path": "pets", "layout": "image_folder", "eval": "val"},
  "model": {"image_size": 16, "channels": 3}, "train": {"steps": 3}})";

Experiment load(DescriptorFiles& files, std::string_view text, const ClassCounts& classes,
                const std::vector<std::string>& sets = {}) {
  return load_experiment(files.write("d.json", text), sets, kMaxTrials, classes);
}

/// As many classes as the path, or else the name, has letters.
std::int64_t by_length(const DatasetConfig& dataset) {
  return static_cast<std::int64_t>(dataset.path.empty() ? dataset.name.size() : dataset.path.size());
}

}  // namespace

TEST_CASE("class counts: a number that the data say is as if it were given") {
  DescriptorFiles files;
  const ClassCounts five = [](const DatasetConfig& dataset) {
    CHECK(dataset.path == "");  // the name says it
    CHECK(dataset.name == "pets");
    CHECK(dataset.layout == DatasetLayout::image_folder);
    return std::int64_t{5};
  };
  const Trial left_out = load(files, kPets, five).trials.front();
  CHECK(num_classes(left_out.config.model) == 5);
  CHECK(canonical_json(left_out.config).find("\"num_classes\":5") != std::string::npos);
  const Trial given = load(files, kPets, nullptr, {"model.num_classes=5"}).trials.front();
  CHECK(given.id == left_out.id);
  CHECK(config_from_json(full_json(left_out.config), "full") == left_out.config);
}

TEST_CASE("class counts: the data are not asked for a known number") {
  DescriptorFiles files;
  const ClassCounts never = [](const DatasetConfig&) -> std::int64_t { throw InputError("asked"); };
  CHECK(num_classes(load(files, kPets, never, {"model.num_classes=7"}).trials.front().config.model) == 7);
  for (const auto& [name, classes] : {std::pair("cifar100", 100), {"mnist", 10}, {"shapes", 10}}) {
    const std::string text = concat(R"({"model": {"patch_size": 4}, "train": {"steps": 3}, "dataset": ")", name, "\"}");
    CHECK(num_classes(load(files, text, never).trials.front().config.model) == classes);
  }
}

TEST_CASE("class counts: each row has the number of its own data set") {
  DescriptorFiles files;
  const char* const swept = R"({"dataset": {"name": "p", "layout": "image_folder", "eval": "val"},
    "model": {"image_size": 16, "channels": 3}, "train": {"steps": 3},
    "sweep": {"dataset.path": ["ab", "abcdef"]}})";
  const Experiment rows = load(files, swept, by_length);
  REQUIRE(rows.trials.size() == 2);
  CHECK(num_classes(rows.trials[0].config.model) == 2);
  CHECK(num_classes(rows.trials[1].config.model) == 6);
}

TEST_CASE("class counts: the trials that tune a row have its number of classes") {
  DescriptorFiles files;
  const Experiment tuned = load(
      files, kPets, by_length,
      {R"(tune=[{"axes": {"train.optimizer.lr": [1e-3, 1e-2]}, "dataset": {"train": "train[:90%]", "eval": "train[90%:]"}}])"});
  REQUIRE(tuned.trials.size() == 2);
  for (const Trial& trial : tuned.trials) CHECK(num_classes(trial.config.model) == 4);
  const std::vector<std::size_t> second{1};
  CHECK(num_classes(tuned.tuned->config(0, second).model) == 4);
}

TEST_CASE("class counts: an error on data that cannot be counted says what to do") {
  DescriptorFiles files;
  const std::string without = files.problems(kPets);
  CHECK_MESSAGE(without == "d.json:2:12: /model: give num_classes, which is not known for the dataset \"pets\"",
                without);
  try {
    load(files, kPets, [](const DatasetConfig&) -> std::int64_t { throw InputError("no such folder"); });
    FAIL("the missing data were not reported");
  } catch (const InputError& error) {
    CHECK(files.without_folder(error.what()) ==
          "d.json:2:12: /model: num_classes is missing, and the classes of the dataset \"pets\" cannot be counted; "
          "give num_classes, or the folder of the data with --data. no such folder");
  }
}

TEST_CASE("class counts: a known data set may have more classes where some are absent") {
  DescriptorFiles files;
  const std::string head = R"({"model": {"patch_size": 4, "num_classes": )",
                    tail = R"(}, "train": {"steps": 3}, "dataset": {"name": "cifar10")";
  CHECK(files.problems(head + "12" + tail + "}}").find("the dataset \"cifar10\" has num_classes 10") !=
        std::string::npos);
  CHECK(files.problems(head + "12" + tail + R"(, "allow_absent_classes": true}})") == "");
  CHECK(files.problems(head + "9" + tail + R"(, "allow_absent_classes": true}})").find("has num_classes 10") !=
        std::string::npos);
}
