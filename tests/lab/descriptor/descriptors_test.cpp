// The descriptors that come with the program.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "experiments/lab/base/files.h"
#include "experiments/lab/descriptor/recipes.h"
#include "experiments/lab/trials/exported.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

TEST_CASE("descriptor: placements_cifar10.json has six rows against one baseline") {
  const Experiment e = load_experiment("experiments/placements_cifar10.json");
  REQUIRE(e.rows.size() == 6);
  CHECK(e.trials.size() == 20);
  CHECK(e.duplicates == 0);
  CHECK(e.rows[0].label == "pre_pre");
  CHECK(e.rows[0].trials.size() == 5);
  for (std::size_t r = 0; r < 6; ++r) {
    CHECK(e.rows[r].baseline == 0);
    if (r > 0) CHECK(e.rows[r].trials.size() == 3);
  }
}

TEST_CASE("descriptor: placements_cifar10.json trains a small ViT on CIFAR-10") {
  const Experiment e = load_experiment("experiments/placements_cifar10.json");
  const TrialConfig& c = e.trials[0].config;
  CHECK(c.dataset.name == "cifar10");
  CHECK(vit_of(c).embed_dim == 64);
  CHECK(vit_of(c).mlp_dim == 256);
  CHECK(c.train.augment == AugmentConfig{.crop_padding = 4, .flip = true});
  CHECK(c.train.schedule.warmup_epochs == 1);
  CHECK(c.train.clip_norm == 1);
}

TEST_CASE("descriptor: the recipes in the program are those of the folder") {
  for (const Recipe& recipe : recipes()) {
    CAPTURE(recipe.name);
    const std::string file = concat("experiments/recipes/", recipe.name, ".json");
    CHECK(recipe.text == read_file(file));
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("experiments/recipes"))
    files += entry.path().extension() == ".json";
  CHECK(recipes().size() == files);
}

TEST_CASE("descriptor: extending a recipe gives its trials without its question") {
  const TemporaryFolder folder;
  for (const Recipe& recipe : recipes()) {
    CAPTURE(recipe.name);
    const std::string file = concat("experiments/recipes/", recipe.name, ".json");
    std::ofstream(folder / "by_name.json") << concat("{\"extends\": \"recipe:", recipe.name, "\"}");
    const Experiment named = load_experiment(folder / "by_name.json"), read = load_experiment(file);
    CHECK_FALSE(read.about.empty());
    CHECK(named.about.empty());
    REQUIRE(named.trials.size() == read.trials.size());
    for (std::size_t t = 0; t < read.trials.size(); ++t) CHECK(named.trials[t].id == read.trials[t].id);
  }
}

TEST_CASE("descriptor: both default sweeps have the same twelve placements with five seeds") {
  std::vector<std::string> first;
  for (const std::string name : {"fashion_mnist", "gratings"}) {
    const Experiment e = load_experiment("experiments/placements_" + name + ".json");
    CHECK(e.rows.size() == 12);
    CHECK(e.trials.size() == 60);
    CHECK(e.trials[0].config.dataset.name == name);
    std::vector<std::string> labels;
    for (const Trial& trial : e.trials) labels.push_back(trial.label);
    if (!first.empty()) CHECK(labels == first);
    first = labels;
  }
}

// Their ids depend on the canonical form of settings: a default that changes, or a key that is written where it means
// nothing, would leave the results without a descriptor.
TEST_CASE("descriptor: the published results are those of their descriptors") {
  const std::vector<std::string> others{"seeds=[5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24]"};
  struct Case {
    const char* archive;
    std::vector<const char*> descriptors;
    std::vector<std::string> sets{};
  };
  for (const auto& [archive, descriptors, sets] :
       {Case{"cifar10", {"placements_cifar10", "bf16_cifar10"}}, Case{"placements_gratings", {"placements_gratings"}},
        Case{"placements_fashion_mnist", {"placements_fashion_mnist"}}, Case{"formula_search", {"formula_search"}},
        Case{"activations", {"activations"}}, Case{"norms_2026", {"norms_2026"}},
        Case{"placements_two_data_sets", {"placements_two_data_sets"}},
        Case{"placements_fashion_mnist_20", {"placements_fashion_mnist"}, others}}) {
    const auto& shown = archive;
    CAPTURE(shown);
    std::set<std::string> ids, kept;
    for (const char* descriptor : descriptors)
      for (const Trial& trial : load_experiment(concat("experiments/", descriptor, ".json"), sets).trials)
        ids.insert(trial.id);
    for (const auto& [id, trial] : read_export(concat("docs/results/", archive, ".jsonl")).trials) kept.insert(id);
    CHECK(ids == kept);
  }
}
