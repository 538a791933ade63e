#include "experiments/lab/cli/eval_forms.h"

#include <fmt/core.h>

#include "core/error.h"
#include "experiments/lab/cli/trial_by_id.h"
#include "experiments/lab/train/keep.h"

namespace normlab {

void WeightsSource::add_to(Command& command) {
  command.add_option("trial", trial,
                     "a trial's folder, or its id or the first digits of it; with --probe a descriptor");
  command.add_option("--out", out, "folder of the results").show_default().path();
  command.add_option(
      "--weights", file,
      "weights instead of a trial's, or with --probe of the initial ones: a checkpoint, or a file from `normlab "
      "convert`");
  command.add_flag("--ema", ema, "use the averaged weights of a checkpoint");
  command.add_option("--model", model,
                     "the network as JSON, a file or the text itself; must agree with what the weights state");
}

WeightsSource::Loaded WeightsSource::load(const std::string& data_option) {
  if (trial.empty() == file.empty()) throw InputError("eval: give either a trial or --weights FILE");
  std::optional<TrialResult> result;
  if (!trial.empty()) {
    const TrialFolder folder = trial_named(trial, out);
    result = folder.load_result();
    file = kept_weights(folder).string();
  }
  WeightFile weights = read_weight_file(file);
  const std::optional<TrainedOn> trained = trained_on(weights.metadata, file);
  if (!data_option.empty() && !trained)
    throw InputError(fmt::format("{}: does not state its training data; give the images with {}", file, data_option));
  if (stated_names(weights, std::nullopt, "it to `normlab convert` with --from") != NameScheme::normlab)
    throw InputError(fmt::format("{}: has another program's tensor names; run `normlab convert` on it first", file));
  const ModelConfig network = stated_model(weights, model, false);
  return {std::move(weights), network, trained, result};
}

}  // namespace normlab
