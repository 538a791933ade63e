#include "experiments/lab/weights/start.h"

#include <fmt/format.h>

#include <set>
#include <sstream>
#include <vector>

#include "core/error.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/trials/store.h"
#include "experiments/lab/weights/convert.h"
#include "experiments/lab/weights/convert_files.h"
#include "nn/model/init.h"
#include "nn/model/model.h"
#include "nn/training/nonfinite.h"

namespace normlab {
namespace {

static_assert(kWords<StartPositions>.size() == kWords<Resampling>.size() + 1, "the words of Resampling, and same");

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

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

/// The message of import_weights(), with the file's name once and at most a few tensors.
std::string first_lines(const std::string& message, const std::string& file, const ConversionReport& report) {
  constexpr std::size_t kShown = 6;
  std::vector<std::string> lines = lines_of(message);
  for (std::string& line : lines)
    if (line.starts_with(file)) line.erase(0, file.size());
  for (const std::string& name : report.missing) lines.push_back("missing    " + name);
  for (const std::string& name : report.left_over) lines.push_back("left over  " + name);
  std::string out = file + lines.front();
  for (std::size_t i = 1; i < std::min(lines.size(), kShown); ++i) out += "\n  " + lines[i];
  return lines.size() > kShown ? fmt::format("{}\n  and {} more", out, lines.size() - kShown) : out;
}

/// Tensors do not show when a Swin pads.
void note_window_padding(const WeightFile& file, const ModelConfig& config, ConversionReport& report) {
  const std::optional<ModelConfig> recorded = recorded_model(file);
  const auto *before = recorded ? std::get_if<SwinConfig>(&*recorded) : nullptr,
             *here = std::get_if<SwinConfig>(&config);
  if (before == nullptr || here == nullptr || !pads_shifted(*before) || !pads_shifted(*here)) return;
  if (before->window_padding != here->window_padding)
    report.notes.push_back(fmt::format("window_padding was {} where these weights were trained and is {} here",
                                       word_of(before->window_padding), word_of(here->window_padding)));
}

}  // namespace

std::vector<std::string> load_start(const TrialConfig& config, const std::filesystem::path& path,
                                    ParameterSet& weights) {
  const StartConfig& start = config.start;
  WeightFile file = read_weight_file(path);
  require_identity(start, file, path);
  if (start.weights == StartWeights::ema) take_average(file, path);
  ImportOptions options{.leave_out = start.leave_out, .grid = recorded_grid(file)};
  if (Resampling method{}; find_word(word_of(start.resize_positions), method)) options.resize_positions = method;
  std::optional<NameScheme> names;
  if (NameScheme given{}; find_word(word_of(start.names), given)) names = given;
  ConversionReport report;
  note_window_padding(file, config.model, report);
  try {
    import_weights(file.tensors, stated_names(file, names, "\"names\""), config.model, options, weights, report,
                   kStartNames);
  } catch (const InputError& error) {
    throw InputError(fmt::format("start: {}", first_lines(error.what(), path.string() + ": ", report)));
  }
  if (const auto found = first_nonfinite(weights))
    throw InputError(fmt::format("{}: {} in float32, so no training can start from it", path.string(), found->text()));
  return lines_of(fmt::format("starts from {}: {}", path.string(), report.text()));
}

void check_start_files(const Experiment& experiment, const std::vector<std::size_t>& trials) {
  std::set<std::string> checked;
  for (const std::size_t t : trials) {
    TrialConfig config = experiment.trials[t].config;
    if (config.start.file.empty()) continue;
    config.seed = 0;
    config.train = {};
    if (!checked.insert(canonical_json(config)).second) continue;
    ParameterSet weights;
    make_model(weights, config.model);
    weights.allocate(DType::f32, 0);
    initialise(weights, config.model, config.seed);
    try {
      load_start(config, config.start.file, weights);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", experiment.trials[t].label, error.what()));
    }
  }
}

}  // namespace normlab
