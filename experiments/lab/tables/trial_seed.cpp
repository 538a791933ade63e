#include "experiments/lab/tables/trial_seed.h"

#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/slice.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/metrics/class_scores.h"
#include "experiments/lab/tables/selection.h"
#include "experiments/lab/trials/loss_meaning.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

/// The conditions for results that are comparable to the bit, in words.
std::string environment_of(const TrialResult& result) {
  std::string words;
  for (const char* key : {"version", "device", "gpu", "cublas", "cpu", "blas_core"})
    if (const std::string* const found = result.stated(key)) words += (words.empty() ? "" : ", ") + *found;
  if (const std::string* const order = result.stated("arithmetic"))
    words += concat(words.empty() ? "" : ", ", "arithmetic ", *order);
  if (const std::string* const shards = result.stated("gpu_shards")) words += concat(", ", *shards, " shards");
  if (result.different_bits) words += ", resumed under another program";
  return words;
}

/// Only bf16 trials name oneDNN, which computes their products; this does not distinguish two rows.
std::string without_onednn(std::string program) {
  const std::size_t begin = program.find(" | oneDNN ");
  if (begin == program.npos) return program;
  return program.erase(begin, program.find(" | ", begin + 1) - begin);
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
  if (cell.state == SeedState::done) add_slice(cell, result, config);
  try {
    if (cell.state == SeedState::done) cell.value = selected_metric(folder, result, options_, known_);
  } catch (const DamagedMetrics& error) {
    cell = unreadable(std::move(cell), error);
  }
  found_ = found_ || cell.value;
  return cell;
}

void SeedReader::add_slice(TableSeed& cell, const TrialResult& result, const TrialConfig& config) const {
  const EvaluatedSlices slices = slices_of(result, config);
  const auto guess = [](const EvaluatedSlice& slice, std::string_view measured) {
    const auto found = slice.guess.find(std::string(measured));
    return found == slice.guess.end() ? std::nullopt : std::optional(found->second);
  };
  const MetricName of = parts_of_metric(options_.metric);
  if (const auto slice = slices.find(std::string(of.slice)); slice != slices.end()) {
    cell.guess = guess(slice->second, of.measured);
    // Other metrics of training are not those of the images that train/accuracy is measured on.
    if (cell.guess || of.slice != "train") cell.images = slice->second.images;
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

std::optional<Correctness> read_seed_correctness(const TrialFolder& folder, const TableSeed& seed) {
  if (seed.state != SeedState::done) return std::nullopt;
  const auto result = folder.load_result();
  return result ? read_result_correctness(folder, *result) : std::nullopt;
}

}  // namespace normlab
