// Every descriptor that comes with the program: read, priced, and one step taken by each kind of network in small.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "experiments/data/dataset.h"
#include "experiments/descriptor/canonical.h"
#include "experiments/descriptor/experiment.h"
#include "experiments/descriptor/tune.h"
#include "experiments/train/cost.h"
#include "experiments/train/trial.h"
#include "nn/engine.h"
#include "nn/init.h"
#include "tests/nn/small_network.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> descriptors() {
  std::vector<fs::path> out;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator("experiments"))
    if (entry.path().extension() == ".json") out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

/// A norm over at most the two images that the test has.
void shrink(NormSpec& spec) {
  if (spec.statistics_batch > 0) spec.statistics_batch = 2;
}
void shrink(Placement& placement) {
  visit_sites(placement, [](std::string_view, NormSpec& spec) { shrink(spec); });
}
/// Three blocks of width 24; what is no size stays.
void shrink(ViTConfig& c) {
  c.image_size = {16, 16};
  c.patch_size = c.patch_size > 16 ? 8 : 4;
  c.mlp_dim = 24 * c.mlp_dim / c.embed_dim;
  c.embed_dim = 24;
  c.num_heads = 3;
  c.depth = 3;
  c.num_classes = 7;
  if (c.rep_size > 0) c.rep_size = 24;
  shrink(c.placement);
}
void shrink(SwinConfig& c) {
  c.image_size = {16, 16};
  c.patch_size = 2;
  c.window = 4;
  c.embed_dim = 12;
  c.depths = {2, 1};
  c.num_heads = {2, 4};
  c.num_classes = 7;
  shrink(c.placement);
}

void take_step(const TrialConfig& config) {
  EngineSettings settings = engine_settings(config);
  settings.precision = Precision::fp32;  // the test must run on a CPU without bf16 products
  ShardPool pool(1);
  Engine engine(cpu_backend(), pool, config.model, settings);
  std::visit([&](const auto& c) { initialise(engine.parameters(), c, 3); }, config.model);
  engine.state().lr = config.train.optimizer.lr;
  engine.state().clip_norm = config.train.clip_norm;
  const Batch batch(config.model, 2);
  const double loss = engine.train_step(batch.images, batch.labels);
  CHECK(std::isfinite(loss));
}

}  // namespace

TEST_CASE("papers: every descriptor is read, says what it asks, is priced, and takes one step in small") {
  std::set<std::string> seen;
  int tiny = 0;
  for (const fs::path& file : descriptors()) {
    CAPTURE(file.string());
    const Experiment experiment = load_experiment(file);
    const bool paper = file.string().find("papers/") != std::string::npos;
    if (file.string().find("recipes/") == std::string::npos) CHECK(experiment.about.size() > 40);
    if (paper) CHECK_FALSE(experiment.paper.empty());
    const bool twin = file.stem().string().ends_with("_tiny");
    tiny += twin;
    if (paper && !twin) {
      const fs::path small = file.parent_path() / (file.stem().string() + "_tiny.json");
      CHECK_MESSAGE(fs::exists(small), small.string(), " is missing");
      CHECK_MESSAGE(experiment.about.find("Expected") != std::string::npos, "no expected result");
    }
    double seconds = 0;
    for (const Cell& row : experiment.rows) {
      TrialConfig config = first_trial(experiment, row).config;
      const TrialCost cost = trial_cost(config);
      REQUIRE(cost.steps);
      CHECK(cost.steps->total > cost.steps->warmup);
      seconds += (cost.training_flops + cost.evaluation_flops) * double(row.trials.size() + row.tuning.size()) /
                 (1e9 * default_gflops(config.train.precision));
      require_within_training(experiment.probes, cost.steps->total, row.label);
      std::visit([](auto& c) { shrink(c); }, config.model);
      config.train.batch_size = 2;
      config.train.accumulate = 1;
      if (!seen.insert(canonical_model_json(config.model) + std::string(word_of(config.train.loss))).second) continue;
      CAPTURE(row.label);
      take_step(config);
    }
    if (twin) CHECK_MESSAGE(seconds < 40 * 60, "a twin runs in minutes: ", seconds, " s of products");
    // No text says that it ran one seed, and three of a twin cost less than an hour of a core.
    for (std::size_t r = 0; r < experiment.rows.size() && paper; ++r) {
      CAPTURE(experiment.rows[r].label);
      CHECK((experiment.tuned ? experiment.tuned->seeds(r).size() : experiment.rows[r].trials.size()) == 3);
    }
  }
  CHECK(tiny > 25);
  CHECK(seen.size() > 60);
}

TEST_CASE("papers: a deviation says what the descriptor has") {
  for (const fs::path& file : descriptors()) {
    const Experiment experiment = load_experiment(file);
    for (const Deviation& d : experiment.paper.deviations) {
      INFO(d.where, " ", d.key);
      std::string pointer = "/" + d.key;
      std::replace(pointer.begin(), pointer.end(), '.', '/');
      for (const Cell& row : experiment.rows) {
        const nlohmann::json settings = nlohmann::json::parse(full_json(first_trial(experiment, row).config));
        const nlohmann::json::json_pointer at(pointer);
        REQUIRE(settings.contains(at));
        CHECK(settings.at(at) == nlohmann::json::parse(d.here));
      }
    }
  }
}

TEST_CASE("papers: every dataset that is known by its name is looked for in a place of its own") {
  const fs::path root = fs::temp_directory_path() / concat("normlab-papers-", ::getpid());
  fs::create_directories(root);
  for (const KnownDataset& known : kKnownDatasets) {
    DatasetConfig config;
    config.name = known.name;
    if (config.generated()) continue;
    INFO(config.name);
    std::string what;
    try {
      load_dataset(config, root, 1);
    } catch (const InputError& error) {
      what = error.what();
    }
    CHECK_MESSAGE(what.find(root.string()) != what.npos, what);  // says where it looked
    CHECK_MESSAGE(what.find("not known by name") == what.npos, what);
  }
  fs::remove_all(root);
}
