#include "experiments/sweep/trial_seed.h"

#include "experiments/base/suggest.h"
#include "experiments/base/text_layout.h"
#include "experiments/descriptor/tasks.h"
#include "experiments/results/loss_meaning.h"
#include "experiments/results/selection.h"
#include "experiments/results/trial_files.h"

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
  const auto loss = [&](const char* name) {
    const auto found = result.metrics.find(name);
    return found == result.metrics.end() ? std::nullopt : std::optional(found->second);
  };
  cell.first_loss = loss(kFirstLoss);
  cell.final_loss = loss(kTrainLoss);
  try {
    if (cell.state == SeedState::done) cell.value = selected_metric(folder, result, options_, known_);
  } catch (const DamagedMetrics& error) {
    cell = unreadable(std::move(cell), error);
  }
  found_ = found_ || cell.value;
  return cell;
}

void SeedReader::require_metric() const {
  if (found_ || known_.empty()) return;
  const std::vector<std::string_view> names(known_.begin(), known_.end());
  const auto meant = nearest(options_.metric, names);
  const std::string hint = meant.empty() ? "" : concat("; did you mean \"", meant, "\"?");
  throw InputError(concat("--metric ", options_.metric, ": no result has it", hint, "; the results have ",
                          joined({known_.begin(), known_.end()}, ", ")));
}

void set_unit(TableInput& input, const std::string& metric) {
  const bool share = is_share(metric);
  input.unit = share ? "%" : "";
  input.scale = share ? 100 : 1;
}

std::optional<double> chance_of(std::string_view metric, const ModelConfig& model) {
  const bool accuracy = metric.ends_with("/accuracy") || metric.ends_with("/ema_accuracy");
  if (!accuracy || task_of(model) != Task::classify) return std::nullopt;
  return 1.0 / double(num_classes(model));
}

std::optional<Correctness> read_seed_correctness(const TrialFolder& folder, const TableSeed& seed) {
  if (seed.state != SeedState::done) return std::nullopt;
  const auto result = folder.load_result();
  return result ? read_result_correctness(folder, *result) : std::nullopt;
}

}  // namespace normlab
