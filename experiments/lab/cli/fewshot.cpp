#include <fmt/core.h>
#include <fmt/ranges.h>

#include <numeric>

#include "experiments/lab/base/terminal.h"
#include "experiments/lab/cli/eval_forms.h"
#include "experiments/lab/descriptor/reader.h"
#include "experiments/lab/descriptor/trial_checks.h"
#include "experiments/lab/sweep/runner.h"
#include "experiments/lab/train/few_shot.h"
#include "experiments/lab/train/trial.h"
#include "experiments/lab/weights/convert.h"
#include "experiments/lab/weights/convert_files.h"
#include "experiments/lab/weights/trained_on.h"
#include "nn/training/engine.h"
#include "nn/training/nonfinite.h"

namespace normlab {
namespace {

/// What an evaluation takes from a training. Its length, batches and augmentation need not suit other images.
TrainConfig evaluation_only(const TrainConfig& trained) {
  TrainConfig config;
  config.batch_size = 1;
  config.augment.crop = CropName::stretch;  // any size
  config.eval_transform = trained.eval_transform;
  config.precision = trained.precision;
  return config;
}

}  // namespace

void FewShotForm::add_to(Command& form) {
  form.add_bounded("--shots", fewshot.shots, "training images per class, such as 1,5,10", 1, 1 << 24).comma_separated();
  form.add_bounded("--seeds", fewshot.seeds, "NumPy seeds that choose the images", std::int64_t{0},
                   std::int64_t(kMostCounted))
      .comma_separated();
  form.add_option("--l2", fewshot.l2, "weight of the squared norm").positive().show_default();
}

void FewShotForm::print(WeightsSource& weights, const EvalSource& source, bool transform_given,
                        DeviceKind device) const {
  if (const auto problem = problem_of_few_shot(fewshot))
    throw InputError(fmt::format("--{}: {}", problem->list, problem->what));
  auto [file, network, trained, result] = weights.load(source.data.empty() ? "--data" : "");
  if (task_of(network) == Task::segment)
    throw InputError(fmt::format(
        "{}: is a network that answers each pixel, but few-shot evaluation needs a class for each image; `normlab "
        "eval` judges a segmentation",
        weights.file));
  if (weights.ema) take_average(file, weights.file);
  TrialConfig config = trained ? trained->config : TrialConfig{};
  config.eval.fewshot = fewshot;
  if (!source.data.empty()) config.dataset = read_dataset_option(source.data, "--data");
  if (config.dataset.masks != MaskLabels::none)
    throw InputError("--data: masks give a class to each pixel, but few-shot evaluation needs one for each image");
  config.train = evaluation_only(config.train);
  if (transform_given) config.train.eval_transform = source.transform;
  DataPair data = load_dataset(config.dataset, source.root, source.threads);
  // Images are normalised as in the training.
  if (trained && config.dataset.mean.empty()) data.train.channel_mean = trained->mean;
  if (trained && config.dataset.std.empty()) data.train.channel_std = trained->std;
  require_shots(config, data.train, "--shots");
  config.model = network;
  normlab::network(config.model).num_classes = data.train.num_classes;
  if (auto* vit = std::get_if<ViTConfig>(&config.model)) vit->task = Task::classify;  // the images need no text
  EngineSettings settings = engine_settings(config);
  settings.ema = {};
  settings.freeze = {};
  ShardPool pool(source.threads);
  const ComputeDevice computer(device);
  Engine engine(computer.backend(), pool, network, settings);
  ConversionReport report;
  import_weights(file.tensors, NameScheme::normlab, network, {}, engine.parameters(), report);
  if (const auto found = first_nonfinite(engine.parameters()))
    throw NonFiniteError(fmt::format("{}: {}, so no image has features", weights.file, found->text()), found->value);
  FewShotEvaluation few_shot(config, data, engine.dtype());
  BatchSource eval(config, data.train, data.eval, engine.dtype());
  const std::vector<std::vector<double>> all = few_shot.accuracies(engine, eval, pool);
  print_text("{} training images, {} evaluated, {} classes; l2 {:g}\n", data.train.size(), data.eval.size(),
             data.train.num_classes, fewshot.l2);
  if (const std::string copy = jpeg_copy(config.dataset.name, data); !copy.empty())
    print_text("{}{}\n", copy, kNotPublished);
  for (std::size_t s = 0; s < all.size(); ++s) {
    std::vector<std::string> seeds;
    for (const double accuracy : all[s]) seeds.push_back(fmt::format("{:.2f}", 100 * accuracy));
    const double mean = std::accumulate(all[s].begin(), all[s].end(), 0.0) / double(all[s].size());
    print_text("{:>4} {:<5}  {:.2f}%  (seeds {}: {})\n", fewshot.shots[s], fewshot.shots[s] == 1 ? "shot" : "shots",
               100 * mean, fmt::join(fewshot.seeds, ", "), fmt::join(seeds, ", "));
  }
}

}  // namespace normlab
