#include "experiments/lab/tables/trial_seed.h"

#include <cmath>

#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/slice.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/metrics/class_scores.h"
#include "experiments/lab/trials/exported.h"
#include "experiments/lab/trials/loss_meaning.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

/// The conditions for results that are comparable to the bit, in words.
std::string environment_of(const TrialResult& result) {
  std::string words;
  for (const char* key : {"version", "device", "gpu", "cublas", "nvrtc", "cpu", "blas_core"})
    if (const std::string* const found = result.stated(key)) words += (words.empty() ? "" : ", ") + *found;
  if (const std::string* const order = result.stated("arithmetic"))
    words += concat(words.empty() ? "" : ", ", "arithmetic ", *order);
  if (const std::string* const shards = result.stated("gpu_shards")) words += concat(", ", *shards, " shards");
  if (const std::string* const file = result.stated("gpu_algorithms"))
    words += concat(", algorithms ", file->substr(0, 8));
  if (result.different_bits) words += ", resumed under another program";
  return words;
}

/// What the times of a run depend on.
std::string machine_of(const TrialResult& result) {
  std::vector<std::string> parts;
  for (const char* key : {"cpu", "gpu"})
    if (const std::string* const found = result.stated(key)) parts.push_back(*found);
  if (const std::string* const threads = result.stated("threads")) parts.push_back(plural(*threads, "thread"));
  return joined(parts, ", ");
}

/// Only bf16 trials name oneDNN, which computes their products; this does not distinguish two rows.
std::string without_onednn(std::string program) {
  const std::size_t begin = program.find(" | oneDNN ");
  if (begin == program.npos) return program;
  return program.erase(begin, program.find(" | ", begin + 1) - begin);
}

/// A metrics.jsonl that cannot be read: the fault of one run. Other InputErrors of selected_metric() concern the request
/// as a whole.
struct DamagedMetrics : InputError {
  using InputError::InputError;
};

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

/// The metric of a finished run by options.select:
/// - last: from the result;
/// - best_minival: at the evaluation with the best minival/accuracy, the first of equals;
/// - mean_last_k: the mean over the last options.last_k evaluations.
/// The latter two read metrics.jsonl of the result's attempt. None if the run lacks the metric; the names it has are
/// added to `known`. InputError without a minival, or with fewer than last_k evaluations.
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

}  // namespace

SeedState state_of(const TrialStatus& status) {
  SeedState same{};
  find_word(word_of(status.state), same);
  return same;
}

TrialStatus agreed_status(const TrialFolder& folder, std::uint64_t seed) {
  TrialStatus status = folder.status();
  if (!status.finished()) return status;
  require_agreement(folder, *status.result);
  if (status.result->seed != seed)
    throw InputError(concat((folder.path() / "result.json").string(), ": is damaged: seed ", status.result->seed,
                            " here, but this trial has ", seed));
  return status;
}

TableSeed unreadable(TableSeed seed, const Error& error) {
  seed.state = SeedState::unreadable;
  seed.message = error.what();
  seed.fault = error.code();
  return seed;
}

TableSeed SeedReader::read(const TrialFolder& folder, const TrialConfig& config) {
  TableSeed cell;
  cell.seed = config.seed;
  cell.trial = folder.path().filename().string();
  TrialStatus status;
  try {
    status = agreed_status(folder, config.seed);
  } catch (const Error& error) {  // damaged, newer, or not permitted
    return unreadable(std::move(cell), error);
  }
  cell.state = state_of(status);
  cell.progress = status.progress;
  if (cell.state == SeedState::failed) cell.message = status.message;
  if (!status.result || cell.state == SeedState::failed) return cell;
  const TrialResult& result = *status.result;
  cell.environment = environment_of(result);
  if (const std::string* const order = result.stated("arithmetic")) cell.arithmetic = *order;
  if (const std::string* const bits = result.stated("bits")) cell.program = without_onednn(*bits);
  cell.sealed = result.sealed;
  cell.loss_smoothing = smoothing_in_losses(result, config);
  cell.last_steps = averages_last_steps(result);
  cell.diverged_step = result.diverged_step.value_or(0);
  cell.diverged_site = result.diverged_site.value_or("");
  cell.early_stopped_step = result.stopped_early_step;
  cell.early_stop_rule = result.early_stop_rule.value_or("");
  cell.bad_images = result.bad_images.size();
  cell.jpeg_copy = jpeg_copy_of(result);
  const auto loss = [&](const char* name) {
    const auto found = result.metrics.find(name);
    return found == result.metrics.end() ? std::nullopt : std::optional(found->second);
  };
  cell.first_loss = loss(kFirstLoss);
  cell.final_loss = loss(kTrainLoss);
  if (cell.state == SeedState::done) {
    add_slice(cell, result, config);
    cell.wall_seconds = result.wall_seconds;
    cell.images_per_second = result.images_per_second;
    cell.peak_mb = double(result.peak_mb);
    cell.machine = machine_of(result);
  }
  try {
    if (cell.state == SeedState::done) cell.value = selected_metric(folder, result, options_, known_);
  } catch (const DamagedMetrics& error) {
    cell = unreadable(std::move(cell), error);
  }
  found_ = found_ || cell.value;
  if (options_.bootstrap && cell.state == SeedState::done) cell.correctness = read_result_correctness(folder, result);
  return cell;
}

void SeedReader::add_slice(TableSeed& cell, const TrialResult& result, const TrialConfig& config) const {
  const EvaluatedSlices slices = slices_of(result, config);
  const auto guess = [](const EvaluatedSlice& slice, std::string_view measured) {
    const auto found = slice.guess.find(std::string(measured));
    return found == slice.guess.end() ? std::nullopt : std::optional(found->second);
  };
  const MetricName metric = parts_of_metric(options_.metric);
  if (const auto slice = slices.find(std::string(metric.slice)); slice != slices.end()) {
    cell.guess = guess(slice->second, metric.measured);
    // Other metrics of training are not those of the images that train/accuracy is measured on.
    if (cell.guess || metric.slice != "train") cell.images = slice->second.images;
  }
  const auto eval = slices.find("eval");
  const auto loss = result.metrics.find("eval/loss");
  if (eval == slices.end() || loss == result.metrics.end()) return;
  const std::optional<double> of_guessing = guess(eval->second, "loss");
  cell.above_guessing = of_guessing && loss->second > *of_guessing;
}

void SeedReader::require_metric() const {
  if (found_ || known_.empty()) return;
  const std::vector<std::string_view> names(known_.begin(), known_.end());
  const auto meant = nearest(options_.metric, names);
  const auto request = requested_by(options_.metric);
  const bool classes =
      request == EvalMetric::per_class &&
      std::any_of(known_.begin(), known_.end(), [](const auto& name) { return is_class_accuracy(name); });
  const std::string hint =
      request && !classes
          ? concat("; add \"", word_of(*request),
                   "\" to the descriptor's eval.metrics, and train again into another --out: ids stay the same")
      : meant.empty() ? ""
                      : concat("; did you mean \"", meant, "\"?");
  throw InputError(concat("--metric ", shown(options_.metric), ": no result has it", hint, "; the results have ",
                          joined(short_list(known_), ", ")));
}

void set_unit(TableInput& input, const std::string& metric) {
  const bool share = is_share(metric);
  input.unit = share ? "%" : "";
  input.scale = share ? 100 : 1;
}

std::optional<double> chance_of(std::string_view metric, const ModelConfig& model) {
  if (task_of(model) != Task::classify) return std::nullopt;
  const std::string_view measured = parts_of_metric(metric).measured;
  const double classes = double(num_classes(model));
  if (measured == "accuracy" || measured == "balanced_accuracy") return 1.0 / classes;
  if (measured == "top5_accuracy") return double(kTopAnswers) / classes;
  return std::nullopt;
}

void set_cost(TableRow& row, const ModelConfig& model) {
  const ModelCost cost = model_cost(model);
  row.params = cost.parameters;
  row.macs = cost.macs;
}

EvaluatedSlices slices_of(const TrialResult& result, const TrialConfig& config) {
  const DatasetConfig& data = config.dataset;
  const KnownDataset* const known = find_dataset(data.name);
  const bool whole = data.eval == "test" || (data.eval == "val" && data.name == "tiny-imagenet-200");
  if (result.status != TrialEnd::done || !result.slices.empty() || known == nullptr || !known->balanced || !whole ||
      !data.path.empty() || data.layout != DatasetLayout::known || data.masks != MaskLabels::none ||
      !data.chosen_classes().empty() || !result.bad_images.empty() || task_of(config.model) != Task::classify)
    return result.slices;
  const std::int64_t images = known_split_images(data, data.eval).value_or(0), classes = known_classes(*known, data);
  if (images < 1 || classes != num_classes(config.model)) return {};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes), images / classes);
  for (std::int64_t c = 0; c < images % classes; ++c) ++counts[static_cast<std::size_t>(c)];  // generated sets
  EvaluatedSlice eval{images, constant_answer(counts, false)};
  if (config.train.loss != LossKind::softmax) eval.guess.erase("loss");  // with label smoothing it was another
  return {{"eval", std::move(eval)}};
}

}  // namespace normlab
