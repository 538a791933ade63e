// Every descriptor of the program: its texts, its cost, and one step of each kind of network in small.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "experiments/lab/data/dataset.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/descriptor/tune.h"
#include "experiments/lab/train/cost.h"
#include "experiments/lab/train/trial.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/lab/base/variable.h"
#include "tests/lab/papers/paper_table.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

struct Described {
  fs::path file;
  Experiment experiment;
};

/// All descriptors of the program, read once.
const std::vector<Described>& descriptors() {
  static const std::vector<Described> kAll = [] {
    std::vector<fs::path> files;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator("experiments"))
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    std::vector<Described> out;
    for (const fs::path& file : files) out.push_back({file, load_experiment(file)});
    return out;
  }();
  return kAll;
}

bool is_paper(const fs::path& file) { return file.string().find("papers/") != std::string::npos; }
/// The descriptor of a paper in small.
bool is_twin(const fs::path& file) { return file.stem().string().ends_with("_tiny"); }

/// A norm over at most the two images that the test has.
void shrink(NormSpec& spec) {
  if (spec.statistics_batch > 0) spec.statistics_batch = 2;
}
void shrink(Placement& placement) {
  visit_sites(placement, [](std::string_view, NormSpec& spec) { shrink(spec); });
}
/// Three blocks of width 24; settings other than sizes stay.
void shrink(ViTConfig& c) {
  c.image_size = {16, 16};
  c.patch_size = c.patch_size > 16 ? 8 : 4;
  c.mlp_dim = 24 * c.mlp_dim / c.embed_dim;
  c.embed_dim = 24;
  c.num_heads = 3;
  c.depth = 3;
  c.num_classes = 7;
  if (c.rep_size > 0) c.rep_size = 24;
  std::erase_if(c.placement.blocks, [](const BlockRange& range) { return range.first > 2; });
  for (BlockRange& range : c.placement.blocks) range.last = std::min<std::int64_t>(range.last, 2);
  shrink(c.placement);
  if (c.task != Task::contrast) return;
  c.text = {.vocabulary = 11,
            .length = 5,
            .embed_dim = 24,
            .depth = 2,
            .num_heads = 3,
            .mlp_dim = 48,
            .placement = c.text.placement};
  shrink(c.text.placement);
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
  const Shape shape = row_of(task_of(config.model)).targets(config.model, 2);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 7);
  const double loss = engine.train_step(batch.images, Tensor(labels.data(), shape, DType::i32));
  CHECK(std::isfinite(loss));
}

}  // namespace

TEST_CASE("papers: every descriptor says what it asks") {
  for (const auto& [file, experiment] : descriptors()) {
    const std::string path = file.string();
    CAPTURE(path);
    if (file.string().find("recipes/") == std::string::npos) CHECK(experiment.about.size() > 40);
    if (is_paper(file)) CHECK_FALSE(experiment.paper.empty());
  }
}

TEST_CASE("papers: every paper has a tiny twin and an expected result") {
  int tiny = 0;
  for (const auto& [file, experiment] : descriptors()) {
    const std::string path = file.string();
    CAPTURE(path);
    tiny += is_twin(file);
    if (!is_paper(file) || is_twin(file)) continue;
    const fs::path small = file.parent_path() / (file.stem().string() + "_tiny.json");
    CHECK_MESSAGE(fs::exists(small), small.string(), " is missing");
    CHECK_MESSAGE(experiment.about.find("Expected") != std::string::npos, "no expected result");
  }
  CHECK(tiny > 25);
}

TEST_CASE("papers: every row of a paper has three seeds") {
  // Three of a twin cost less than an hour of a core. They also stand where a paper trains one network; Dual PatchNorm's
  // Table 5 has ten.
  for (const auto& [file, experiment] : descriptors()) {
    const std::string path = file.string();
    CAPTURE(path);
    const std::size_t seeds = file.stem() == "segmentation" ? 10 : 3;
    for (std::size_t r = 0; r < experiment.rows.size() && is_paper(file); ++r) {
      const std::string label = experiment.rows[r].label;
      CAPTURE(label);
      CHECK((experiment.tuned ? experiment.tuned->seeds(r).size() : experiment.rows[r].trials.size()) == seeds);
    }
  }
}

TEST_CASE("papers: every training outlasts its warm-up and its probes") {
  for (const auto& [file, experiment] : descriptors()) {
    const std::string path = file.string();
    CAPTURE(path);
    for (const Cell& row : experiment.rows) {
      const StepCount steps = steps_of(first_trial(experiment, row).config);
      CHECK(steps.total > steps.warmup);
      require_within_training(experiment.probes, steps.total, row.label);
    }
  }
}

TEST_CASE("papers: a tiny twin runs in minutes") {
  for (const auto& [file, experiment] : descriptors()) {
    if (!is_twin(file)) continue;
    const std::string path = file.string();
    CAPTURE(path);
    double seconds = 0;
    for (const Cell& row : experiment.rows) {
      const TrialConfig& config = first_trial(experiment, row).config;
      const TrialCost cost = trial_cost(config);
      seconds += (cost.training_flops + cost.evaluation_flops) * double(row.trials.size() + row.tuning.size()) /
                 (1e9 * default_gflops(config.train.precision));
    }
    CHECK_MESSAGE(seconds < 40 * 60, "a twin runs in minutes: ", seconds, " s of products");
  }
}

TEST_CASE("papers: a tiny twin's sigmoids start near the odds of its classes") {
  // A bias for a thousand classes holds a twin of few steps at chance: all its training goes into that bias.
  for (const auto& [file, experiment] : descriptors()) {
    if (!is_twin(file)) continue;
    const std::string path = file.string();
    CAPTURE(path);
    for (const Cell& row : experiment.rows) {
      const TrialConfig& config = first_trial(experiment, row).config;
      if (config.train.loss != LossKind::sigmoid) continue;
      const double bias = std::visit([](const auto& c) { return c.head_bias_init; }, config.model);
      CHECK(bias >= -std::log(double(num_classes(config.model))) - 1);
    }
  }
}

TEST_CASE("papers: every network of the descriptors takes a step in small") {
  std::set<std::string> seen;
  for (const auto& [file, experiment] : descriptors()) {
    const std::string path = file.string();
    CAPTURE(path);
    for (const Cell& row : experiment.rows) {
      TrialConfig config = first_trial(experiment, row).config;
      std::visit([](auto& c) { shrink(c); }, config.model);
      config.train.batch_size = 2;
      config.train.accumulate = 1;
      if (!seen.insert(canonical_model_json(config.model) + std::string(word_of(config.train.loss))).second) continue;
      CAPTURE(row.label);
      take_step(config);
    }
  }
  CHECK(seen.size() > 60);
}

TEST_CASE("papers: a deviation names the setting that the descriptor has") {
  for (const auto& [file, experiment] : descriptors()) {
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

TEST_CASE("papers: a dataset known by name is looked for in the folder of data") {
  const fs::path root = fs::temp_directory_path() / concat("normlab-papers-", ::getpid());
  fs::create_directories(root);
  const Variable no_packages(root.c_str(), "XDG_DATA_DIRS");
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
