#include "experiments/weights/start.h"

#include <fmt/format.h>

#include "core/error.h"
#include "experiments/descriptor/start_source.h"
#include "experiments/results/store.h"
#include "experiments/weights/convert.h"
#include "experiments/weights/convert_files.h"
#include "nn/nonfinite.h"

namespace normlab {
namespace {

/// A path may lead to another file than when the descriptor was read, and a folder of results may be damaged.
void require_identity(const StartConfig& start, const WeightFile& file, const std::filesystem::path& path) {
  if (!start.sha256.empty()) {
    if (const std::string found = weights_sha256(path); found != start.sha256)
      throw InputError(
          fmt::format("{}: has the SHA-256 {}, but this trial starts from a file with {}; has it been "
                      "replaced?",
                      path.string(), found, start.sha256));
    return;
  }
  const auto trial = file.metadata.find(kTrialKey);
  if (trial == file.metadata.end() || trial->second != start.trial)
    throw InputError(
        fmt::format("{}: is not a checkpoint of trial {}, which this trial starts from", path.string(), start.trial));
}

std::optional<NameScheme> scheme_of(StartNames names) {
  if (names == StartNames::stated) return std::nullopt;
  return name_scheme(word_of(names));
}

}  // namespace

std::string load_start(const TrialConfig& config, const std::filesystem::path& path, ParameterSet& weights) {
  const StartConfig& start = config.start;
  WeightFile file = read_weight_file(path);
  require_identity(start, file, path);
  if (start.weights == StartWeights::ema) take_average(file, path);
  ImportOptions options{.leave_out = start.leave_out};
  if (Resampling how{}; find_word(word_of(start.resize_positions), how)) options.resize_positions = how;
  ConversionReport report;
  try {
    import_weights(file.tensors, stated_names(file, scheme_of(start.names), "\"names\""), config.model, options,
                   weights, report, kStartNames);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}\nstart: {}: {}", error.what(), path.string(), report.text()));
  }
  if (const auto found = first_nonfinite(weights))
    throw InputError(fmt::format("{}: {} in float32, so no training can start from it", path.string(), found->text()));
  return fmt::format("starts from {}: {}", path.string(), report.text());
}

}  // namespace normlab
