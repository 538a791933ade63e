#include "experiments/lab/tables/selection.h"

#include <cmath>

#include "experiments/lab/trials/exported.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

constexpr const char* kMinival[] = {"minival/accuracy", "minival/miou"};  // a training has one of them

std::optional<double> at_best_minival(const std::vector<MetricsLine>& lines, const std::string& metric,
                                      const std::string& file) {
  const MetricsLine* best = nullptr;
  for (const MetricsLine& line : lines) {
    for (const char* name : kMinival) {
      const auto found = line.values.find(name);
      if (found == line.values.end() || !std::isfinite(found->second)) continue;
      if (best == nullptr || found->second > best->values.at(name)) best = &line;
    }
  }
  if (best == nullptr)
    throw InputError(concat("--select best_minival: ", file, " has no ", kMinival[0],
                            "; it needs a run with \"dataset\": {\"minival\": ...}"));
  for (const MetricsLine& line : lines)
    if (const auto found = line.values.find(metric); line.step == best->step && found != line.values.end())
      return found->second;
  return std::nullopt;
}

std::optional<double> mean_of_last(const std::vector<MetricsLine>& lines, const std::string& metric, std::size_t count,
                                   const std::string& file) {
  std::size_t taken = 0;
  double sum = 0;
  for (auto line = lines.rbegin(); line != lines.rend() && taken < count; ++line)
    if (const auto found = line->values.find(metric); found != line->values.end()) sum += found->second, ++taken;
  if (taken == 0) return std::nullopt;
  if (taken < count)
    throw InputError(concat("--select mean_last_k: ", file, " has ", taken, " values of ", metric, ", fewer than ",
                            count, "; give --last ", taken));
  return sum / double(count);
}

}  // namespace

std::optional<double> selected_metric(const TrialFolder& folder, const TrialResult& result, const TableOptions& options,
                                      std::set<std::string>& known) {
  if (options.select == TableSelect::last) {
    const auto found = result.metrics.find(options.metric);
    if (found != result.metrics.end()) return found->second;
    for (const auto& [name, value] : result.metrics) known.insert(name);
    return std::nullopt;
  }
  const ExportedTrial* exported = folder.exported();
  const std::filesystem::path path =
      exported ? std::filesystem::path(exported->where) : folder.metrics(result_attempt(folder, result));
  if (exported == nullptr && !std::filesystem::exists(path))
    throw InputError(concat("--select: ", path.string(), " does not exist; for this run use --select last"));
  const std::vector<MetricsLine> lines = [&] {
    try {
      return read_result_metrics(folder, result);
    } catch (const InputError& error) {
      throw DamagedMetrics(error.what());
    }
  }();
  const auto value = options.select == TableSelect::best_minival
                         ? at_best_minival(lines, options.metric, path.string())
                         : mean_of_last(lines, options.metric, options.last_k, path.string());
  if (!value)
    for (const MetricsLine& line : lines)
      for (const auto& [name, number] : line.values) known.insert(name);
  return value;
}

}  // namespace normlab
