// Compares every file of a fixture directory. The directory is
// REFERENCE_DIR, by default the part of the fixtures that is kept here; fixtures/ has what the first networks need,
// newer/ what came later.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"
#include "tests/devices.h"
#include "tests/reference/fixture.h"

namespace normlab::reference {
namespace {

namespace fs = std::filesystem;

std::vector<Results> run_augment(const Fixture& f) {
  if (f.op().ends_with("randaugment")) return run_randaugment(f);
  return f.op() == "resize_small" || f.op() == "resized_crop" ? run_resize(f) : run_chain(f);
}

std::vector<Results> run_metrics(const Fixture& f) { return f.op() == "mean_iou" ? run_mean_iou(f) : run_few_shot(f); }

struct Group {
  const char* name;
  std::vector<Results> (*run)(const Fixture&);
  bool on_devices = false;  // all of them, not the CPU alone
};
constexpr Group kGroups[] = {
    {"norms", run_norm, true},    {"ops", run_op, true},           {"models", run_model, true},
    {"swin", run_model, true},    {"train", run_training, true},   {"optim", run_optimizer, true},
    {"fusion", run_fusion, true}, {"probes", run_probe, true},     {"augment", run_augment},
    {"metrics", run_metrics},     {"transfer", run_transfer, true}};

// Files that are no cases of tensors.
struct Table {
  std::string_view file;
  std::vector<std::string> (*check)(const fs::path&);
};
constexpr Table kTables[] = {{"initializers/counts.json", check_counts},
                             {"initializers/statistics.json", check_initializers},
                             {"initializers/newer.json", check_newer_initializers},
                             {"augment/big_vision_randaugment.json", check_big_vision_randaugment},
                             {"augment/timm_randaugment.json", check_timm_randaugment},
                             {"optim/schedules.json", check_schedules},
                             {"metrics/intervals.json", check_intervals},
                             {"metrics/dunnett.json", check_dunnett},
                             {"metrics/holm.json", check_holm},
                             {"metrics/proportions.json", check_proportions},
                             {"metrics/planning.json", check_planning},
                             {"metrics/equivalence.json", check_equivalence},
                             {"metrics/lr_sensitivity.json", check_lr_sensitivity},
                             {"metrics/numpy_permutations.json", check_numpy_permutations}};

fs::path directory() {
  const char* given = std::getenv("REFERENCE_DIR");
  return given != nullptr && *given != '\0' ? given : "tests/reference/fixtures";
}

/// Paths below `root` of all case files there and of those that index.json promises.
std::set<std::string> case_files(const fs::path& root) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const fs::path path = entry.path().lexically_relative(root);
    if (entry.is_regular_file() && path != "index.json" &&
        (path.extension() == ".safetensors" || path.extension() == ".json"))
      files.insert(path.generic_string());
  }
  const std::string index = (root / "index.json").string();
  if (!fs::exists(index)) return files;
  const nlohmann::json promised = parse_strict_json(read_file(index), index);
  for (const auto& row : promised.at("files")) files.insert(row.at("file").get<std::string>());
  return files;
}

class Tally {
 public:
  void run(const fs::path& root, const std::string& file) {
    std::vector<std::string> failures;
    try {
      failures = failures_of(root, file);
    } catch (const std::exception& error) {
      failures.push_back(concat(file, ": ", error.what()));
    }
    for (const std::string& failure : failures) FAIL_CHECK(failure);
    ++(failures.empty() ? passed_ : failed_);
  }
  void report() const {
    MESSAGE("reference: nearest to its tolerance is ", tightest_, " with ", share_, " of it");
    MESSAGE("reference: ", passed_, " files passed, ", failed_, " failed");
  }
  std::int64_t compared() const { return passed_ + failed_; }

 private:
  std::vector<std::string> failures_of(const fs::path& root, const std::string& file) {
    for (const Table& table : kTables)
      if (table.file == file) return table.check(root / file);
    const std::string group = file.substr(0, file.find('/'));
    const auto found =
        std::find_if(std::begin(kGroups), std::end(kGroups), [&](const Group& g) { return group == g.name; });
    if (found == std::end(kGroups)) throw InputError("there is no rule for this group");
    const std::string ending = ".safetensors";
    if (!file.ends_with(ending)) throw InputError("there is no rule for this file");
    const Fixture fixture(file.substr(0, file.size() - ending.size()), SafetensorsFile::read(root / file));
    std::vector<std::string> failures;
    const auto run = [&] {
      for (const Results& results : found->run(fixture)) {
        const Comparison comparison = compare(fixture, results);
        for (const std::string& failure : comparison.failures)
          failures.push_back(concat("on ", current_device().name, ": ", failure));
        if (comparison.share > share_) {
          share_ = comparison.share;
          tightest_ = concat(fixture.name(), " (", results.how, ", ", current_device().name, ") ", comparison.tightest);
        }
      }
    };
    found->on_devices ? on_each_device(run) : run();
    return failures;
  }

  std::int64_t passed_ = 0, failed_ = 0;
  double share_ = 0.0;
  std::string tightest_ = "none";
};

void compare_all(const fs::path& root) {
  REQUIRE_MESSAGE(fs::is_directory(root), "there is no directory ", root.string());
  Tally tally;
  for (const std::string& file : case_files(root)) tally.run(root, file);
  tally.report();
  CHECK_MESSAGE(tally.compared() > 0, "nothing in ", root.string(), " was compared");
}

}  // namespace

TEST_CASE("reference: every file of the directory is within its tolerances") { compare_all(directory()); }

TEST_CASE("reference: every newer file that is kept here is within its tolerances") {
  compare_all("tests/reference/newer");
}

}  // namespace normlab::reference
