// The descriptors that come with the program.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "experiments/base/files.h"
#include "experiments/descriptor/recipes.h"
#include "experiments/results/exported.h"
#include "tests/experiments/base/temporary_folder.h"
#include "tests/experiments/descriptor/descriptor_files.h"

using namespace normlab;

TEST_CASE("descriptor: placements_cifar10.json is six rows, five seeds for the baseline and three for the others") {
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
  const TrialConfig& c = e.trials[0].config;
  CHECK(c.dataset.name == "cifar10");
  CHECK(vit_of(c).embed_dim == 64);
  CHECK(vit_of(c).mlp_dim == 256);
  CHECK(c.train.augment == AugmentConfig{.crop_padding = 4, .flip = true});
  CHECK(c.train.schedule.warmup_epochs == 1);
  CHECK(c.train.clip_norm == 1);
}

TEST_CASE("descriptor: recipes are in the program, and are those of the folder") {
  const TemporaryFolder folder;
  for (const Recipe& recipe : recipes()) {
    CAPTURE(recipe.name);
    const std::string file = concat("experiments/recipes/", recipe.name, ".json");
    CHECK(recipe.text == read_file(file));
    std::ofstream(folder / "by_name.json") << concat("{\"extends\": \"recipe:", recipe.name, "\"}");
    const Experiment named = load_experiment(folder / "by_name.json"), read = load_experiment(file);
    CHECK_FALSE(read.about.empty());
    CHECK(named.about.empty());  // a question of one's own has words of its own
    REQUIRE(named.trials.size() == read.trials.size());
    for (std::size_t t = 0; t < read.trials.size(); ++t) CHECK(named.trials[t].id == read.trials[t].id);
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("experiments/recipes"))
    files += entry.path().extension() == ".json";
  CHECK(recipes().size() == files);
}

TEST_CASE("descriptor: placements_gratings.json is twelve placements with five seeds") {
  const Experiment e = load_experiment("experiments/placements_gratings.json");
  CHECK(e.rows.size() == 12);
  CHECK(e.trials.size() == 60);
  CHECK(e.trials[0].config.dataset.name == "gratings");
}

// Their ids hang on the canonical form of settings: a default that changes, or a key that is written where it says
// nothing, would orphan them.
TEST_CASE("descriptor: the results that are kept belong to the descriptors that are kept") {
  std::set<std::string> ids, kept;
  for (const char* file : {"experiments/placements_cifar10.json", "experiments/bf16_cifar10.json"})
    for (const Trial& trial : load_experiment(file).trials) ids.insert(trial.id);
  for (const auto& [id, trial] : read_export("docs/results/cifar10.jsonl").trials) kept.insert(id);
  CHECK(ids == kept);
}
