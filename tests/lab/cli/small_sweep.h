// A sweep of four trials that take a second together, and what tests of whole runs do with it.
#pragma once

#include <dirent.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/cli/program.h"

namespace normlab {

inline const char* const kSmallSweep = R"({
  "about": "a test",
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "dropout": 0.1},
  "train": {"epochs": 4, "batch_size": 20, "schedule": {"warmup_epochs": 1}, "augment": {"crop_padding": 2}},
  "sweep": {"model.placement": ["pre_pre", "bn_ffnbn"]},
  "seeds": 2,
  "baseline": {"model.placement": "pre_pre"}
})";

/// The file's name, followed by the settings, for a command line.
inline std::string small_sweep(const TemporaryFolder& folder, const std::string& settings = "") {
  std::ofstream(folder / "small.json") << kSmallSweep;
  return (folder / "small.json").string() + (settings.empty() ? "" : " " + settings);
}

inline std::string in_folder(const TemporaryFolder& folder, const std::string& name) {
  return (folder / name).string();
}

inline void pause_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/// Checks every few milliseconds: true once `what` holds, false after `seconds`.
inline bool comes_true(const std::function<bool()>& what, double seconds = 60) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (what()) return true;
    pause_ms(5);
  }
  return false;
}

/// The current claims.
inline std::vector<Owner> owners(const ResultStore& store) {
  std::vector<Owner> found;
  if (!std::filesystem::exists(store.out() / "trials")) return found;
  for (const std::string& id : store.trial_ids())
    if (const auto owner = read_claim(store.trial(id).path())) found.push_back(*owner);
  return found;
}

/// Whether a trial has a checkpoint and no result.
inline bool in_the_middle(const ResultStore& store) {
  if (!std::filesystem::exists(store.out() / "trials")) return false;
  for (const std::string& id : store.trial_ids()) {
    const TrialFolder trial = store.trial(id);
    if (!trial.result_text() && std::filesystem::exists(trial.checkpoint(last_attempt(trial.path())))) return true;
  }
  return false;
}

inline std::size_t attempts(const TrialFolder& trial) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(trial.path()))
    count += entry.path().filename().string().rfind("attempt-", 0) == 0;
  return count;
}

/// Of each finished trial, by id: the result's metrics, and metrics.jsonl and weights of the attempt that finished.
/// Trials without a result are left out.
inline std::map<std::string, std::string> whole_results(const std::filesystem::path& out) {
  std::map<std::string, std::string> found;
  const ResultStore store(out);
  for (const std::string& id : store.trial_ids()) {
    const TrialFolder trial = store.trial(id);
    const auto result = trial.load_result();
    if (!result || result->status == TrialEnd::failed) continue;
    std::string& state = found[id];
    for (const auto& [name, value] : result->metrics) {
      std::ostringstream exact;
      exact << name << '=' << std::hexfloat << value << '\n';
      state += exact.str();
    }
    const std::int64_t attempt = result->attempt;
    state += text_of(trial.metrics(attempt));
    const SafetensorsFile file = SafetensorsFile::read(trial.checkpoint(attempt));
    for (const TensorView& t : file.tensors())
      state += t.name + std::string(reinterpret_cast<const char*>(t.data.data()), t.data.size());
  }
  return found;
}

/// Claims and temporary files that should be gone after a run.
inline std::vector<std::string> leftovers(const std::filesystem::path& out) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(out / "trials")) {
    const std::string name = entry.path().filename().string();
    if (name == "claim" || name.ends_with(".tmp")) found.push_back(entry.path().string());
  }
  return found;
}

/// Processes that `parent` has started.
inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> found;
  std::ifstream file("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children");
  for (pid_t pid = 0; file >> pid;) found.push_back(pid);
  return found;
}

}  // namespace normlab
