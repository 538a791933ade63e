#include "experiments/lab/train/verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/folders.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/statistics/student.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/trials/correctness_file.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

/// Settings that the seeds of a row share, and the rows of the trials that they start from.
std::string row_settings(const ExportedResults& archive, TrialConfig config) {
  config.seed = 0;
  if (std::string& start = config.start.trial; !start.empty()) {
    const auto parent = archive.trials.find(start);
    start = parent == archive.trials.end() ? "elsewhere" : row_settings(archive, parent->second.config);
  }
  return canonical_json(config);
}

std::optional<double> value_of(const TrialResult& result, const std::string& metric) {
  const auto found = result.metrics.find(metric);
  if (result.status != TrialEnd::done || found == result.metrics.end()) return std::nullopt;
  return found->second;
}

ExpectedResult expected_of(const ExportedResults& archive, const TrialConfig& config, const std::string& metric) {
  const std::string settings = row_settings(archive, config);
  std::vector<double> values;
  ExpectedResult expected;
  for (const auto& [id, trial] : archive.trials) {
    if (row_settings(archive, trial.config) != settings) continue;
    expected.diverged += trial.result->status == TrialEnd::diverged;
    if (const auto value = value_of(*trial.result, metric)) values.push_back(*value);
  }
  expected.seeds = values.size();
  if (const auto interval = prediction_interval(values)) {
    expected.mean = interval->mean;
    expected.half_width = interval->half_width;
  }
  return expected;
}

std::string end_of(const TrialResult& result) {
  const std::string word(word_of(result.status));
  return result.diverged_step ? fmt::format("{} at step {}", word, *result.diverged_step) : word;
}

/// Of what decides the bits: the program, its libraries and the device.
std::vector<std::string> differences(const TrialResult& there, const TrialResult& here) {
  const std::string* const bits[] = {there.stated("bits"), here.stated("bits")};
  if (bits[0] != nullptr && bits[1] != nullptr && *bits[0] == *bits[1]) return {};
  std::vector<std::string> found;
  for (const char* key : {"version", "flags", "arithmetic", "blas_core", "blas_config", "cpu", "device", "gpu",
                          "cublas", "gpu_shards", "gpu_algorithms"}) {
    const std::string *a = there.stated(key), *b = here.stated(key);
    const std::string none = std::string_view(key).starts_with("gpu") ? "none" : "unknown";
    const std::string was = a == nullptr ? none : *a, is = b == nullptr ? none : *b;
    if (was != is) found.push_back(fmt::format("{}: {} in the archive, {} here", key, was, is));
  }
  if (found.empty()) found.push_back("the program's file");
  return found;
}

void keep_common(std::map<std::string, double>& a, std::map<std::string, double>& b) {
  std::erase_if(a, [&](const auto& entry) { return !b.contains(entry.first); });
  std::erase_if(b, [&](const auto& entry) { return !a.contains(entry.first); });
}

/// Metrics that other settings than the trial's ask for, such as probes, are on one side alone.
std::string difference_of_common(std::map<std::string, double> there, std::map<std::string, double> here) {
  keep_common(there, here);
  return first_difference(there, here);
}

void compare_bits(const ExportedTrial& there, const TrialFolder& folder, const TrialResult& here,
                  ArchivedReport& report) {
  if (report.end_there != report.end_here) {
    report.bit_difference = fmt::format("{} in the archive, {} now", report.end_there, report.end_here);
    return;
  }
  if (there.metrics && has_curve(folder, here)) {
    const auto again = of_training(read_result_metrics(folder, here));
    for (const auto& [step, line] : of_training(*there.metrics)) {
      const auto same = again.find(step);
      const std::string difference =
          same == again.end() ? "is not written now" : difference_of_common(line.values, same->second.values);
      if (!difference.empty()) {
        report.bit_difference = fmt::format("step {}: {}", step, difference);
        return;
      }
      ++report.lines;
    }
  }
  report.bit_difference = difference_of_common(there.result->metrics, here.metrics);
  const auto was = there.result->files.find(kCorrectnessFile), is = here.files.find(kCorrectnessFile);
  if (was == there.result->files.end() || is == here.files.end()) return;
  report.images = true;
  if (report.bit_difference.empty() && was->second != is->second)
    report.bit_difference = "other images are answered correctly";
}

}  // namespace

std::optional<bool> ArchivedReport::within() const {
  if (here) {
    if (!expected.half_width) return std::nullopt;
    return std::abs(*here - expected.mean) <= *expected.half_width;
  }
  if (expected.diverged > 0) return std::nullopt;
  return false;
}

ArchivedReport verify_archived(const ExportedResults& archive, const std::string& id, const DataPair& data,
                               const TrialOptions& options) {
  const ExportedTrial& trial = archive.trials.at(id);
  const TrialResult& there = *trial.result;
  if (there.status == TrialEnd::failed)
    throw InputError(fmt::format("{}: trial {} failed, so there is nothing to compare with", trial.where, id));
  if (const std::string* const hash = there.stated("data_hash"); hash != nullptr && *hash != data_hash(data))
    throw InputError(fmt::format("{}: was trained on data with hash {}, but the data here has hash {}", trial.where,
                                 *hash, data_hash(data)));
  const TemporaryFolderBeside scratch(std::filesystem::temp_directory_path() / "normlab-verify");
  const TrialFolder folder(scratch.path() / "trials" / id);
  make_folders(folder.path());
  train_in_scratch(trial.config, folder, data, options);
  const std::optional<TrialResult> here = folder.load_result();
  if (!here) throw EnvironmentError(folder.path().string() + ": the training was stopped");

  ArchivedReport report;
  report.metric = metric_for(task_of(trial.config.model), "eval/accuracy");
  report.there = value_of(there, report.metric);
  report.here = value_of(*here, report.metric);
  report.end_there = end_of(there);
  report.end_here = end_of(*here);
  report.differences = differences(there, *here);
  if (report.same_program())
    compare_bits(trial, folder, *here, report);
  else
    report.expected = expected_of(archive, trial.config, report.metric);
  return report;
}

}  // namespace normlab
