#include "experiments/lab/cli/eval_forms.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/trial_by_id.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/reader.h"
#include "experiments/lab/descriptor/trial_checks.h"
#include "experiments/lab/sweep/runner.h"
#include "experiments/lab/tables/markup.h"
#include "experiments/lab/train/few_shot.h"
#include "experiments/lab/train/keep.h"
#include "experiments/lab/train/probes.h"
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

struct Probed {
  const Trial* trial = nullptr;
  std::int64_t images = 0;
  ProbeReading reading;
};

/// The first seed of each row; with weights, the trial they belong to.
std::vector<const Trial*> chosen(const ProbeForm& form, const Experiment& experiment, const std::string& weights) {
  std::vector<const Trial*> rows;
  for (const Cell& row : experiment.rows) rows.push_back(&first_trial(experiment, row));
  if (weights.empty()) return rows;
  const std::map<std::string, std::string> metadata = read_weight_file(weights).metadata;
  if (const auto id = metadata.find(kTrialKey); id != metadata.end())
    for (const Trial& trial : experiment.trials)
      if (trial.id == id->second) return {&trial};
  if (const auto model = metadata.find("normlab.model"); model != metadata.end()) {
    std::erase_if(rows, [&](const Trial* t) { return canonical_model_json(t->config.model) != model->second; });
    if (rows.empty())
      throw InputError(fmt::format("{}: belongs to another network than the rows of {}; its network is {}", weights,
                                   form.descriptor.file, model->second));
  }
  if (rows.size() == 1) return rows;
  std::string labels;
  for (const Trial* t : rows) labels += fmt::format("\n  {}", experiment.rows[t->row].label);
  throw InputError(fmt::format("{}: fits several rows of {}; select one of them with --set:{}", weights,
                               form.descriptor.file, labels));
}

const std::string& weights_text(const std::string& weights) {
  static const std::string kInitial = "initial weights";
  return weights.empty() ? kInitial : weights;
}

ProbeAxis axis_of(const ProbeForm& form, const Probed& p) {
  if (form.axis == "auto") return probe_axis(placement_of(p.trial->config.model));
  return form.axis == "channel" ? ProbeAxis::channel : ProbeAxis::position;
}

void print_layers(const ProbeForm& form, const Probed& p, const std::string& weights) {
  const ProbeAxis shown = axis_of(form, p);
  const auto at = static_cast<std::size_t>(shown);
  print_text("{}: {} training images in training mode, {}; axis {}\n\n", p.trial->label, p.images,
             weights_text(weights), word_of(shown));
  std::size_t width = 5;
  for (const SignalProbe::Layer& layer : p.reading.signal) width = std::max(width, layer.name.size());
  print_text("{:<{}}  {:>11}  {:>11}  {:>11}  {:>11}\n", "layer", width, "AFSM", "AFV", "AFVR", "grad norm");
  std::vector<GradientNorm> rest = p.reading.gradients;
  double largest = 0;
  for (const SignalProbe::Layer& layer : p.reading.signal) {
    const auto gradient = std::find_if(rest.begin(), rest.end(), [&](const auto& n) { return n.layer == layer.name; });
    print_text("{:<{}}  {:>11.5g}  {:>11.5g}  {:>11.5g}  {:>11.5g}\n", layer.name, width, layer.stream[at].afsm,
               layer.stream[at].afv, layer.branch[at].afv, gradient->norm);
    largest = std::max(largest, gradient->norm);
    rest.erase(gradient);
  }
  std::vector<std::string> others;
  for (const GradientNorm& n : rest) others.push_back(fmt::format("{} {:.5g}", n.layer, n.norm));
  print_text("\n");
  for (const std::string& line : wrapped("grad norm of " + joined(others, ", "), 80)) print_text("{}\n", line);
  if (weights.empty() && largest == 0)
    print_text("The head starts at zero, so no gradient reaches these layers yet; see --weights.\n");
  print_text("\n");
}

/// One number per line; each layer lists its own measures.
void print_csv(const std::vector<Probed>& all) {
  print_bytes("row,trial,images,measure,layer,value\n");
  for (const Probed& p : all)
    for (const auto& [name, value] : p.reading.values()) {
      std::string label;
      for (const char c : p.trial->label) label += c == '"' ? std::string("\"\"") : std::string(1, c);
      const std::size_t slash = name.find('/');
      print_bytes(fmt::format("\"{}\",{},{},{},{},{}\n", label, p.trial->id, p.images, name.substr(0, slash),
                              name.substr(slash + 1), value));
    }
}

void print_json(const ProbeForm& form, const std::vector<Probed>& all, const std::string& weights) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const Probed& p : all) {
    Json layers = Json::array();
    for (const SignalProbe::Layer& layer : p.reading.signal) layers.push_back(layer.name);
    Json row{{"row", p.trial->label}, {"trial", p.trial->id}, {"images", p.images}, {"mode", "training"}};
    row["weights"] = weights_text(weights);
    row["axis"] = word_of(axis_of(form, p));
    row["layers"] = std::move(layers);
    row["values"] = p.reading.values();
    rows.push_back(std::move(row));
  }
  print_bytes(rows.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

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

void FewShotForm::add_to(Command& form) {
  form.add_bounded("--shots", fewshot.shots, "training images per class, such as 1,5,10", 1, 1 << 24).comma_separated();
  form.add_bounded("--seeds", fewshot.seeds, "NumPy seeds that choose the images", std::int64_t{0},
                   std::int64_t(kMostCounted))
      .comma_separated();
  form.add_option("--l2", fewshot.l2, "weight of the squared norm").positive().show_default();
}

void FewShotForm::print(WeightsSource& weights, const EvalSource& source, bool transform_given,
                        const ComputeDevice& computer) const {
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
  Engine engine(computer.backend(), pool, network, settings);
  ConversionReport report;
  import_weights(file.tensors, NameScheme::normlab, network, {}, engine.parameters(), report);
  engine.state().progress = stated_progress(file);
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

void ProbeForm::add_to(Command& form) {
  descriptor.add_sets(form);
  form.add_bounded("--images", images, "number of training images (default: the batch size)", std::int64_t{1},
                   std::int64_t{1} << 30);
  form.add_choice("--axis", axis, "axis of the statistics in the text; auto: that of the main norm",
                  {"auto", "channel", "position"});
  form.add_choice("--format", format, "output format; json and csv have both axes", {"text", "json", "csv"});
}

int ProbeForm::print(const WeightsSource& source, const EvalSource& data, const ComputeDevice& computer) {
  const std::string& weights = source.file;
  if (source.trial.empty()) throw InputError("eval --probe: give a descriptor");
  descriptor.file = source.trial;
  descriptor.out = source.out;
  descriptor.data = data.root.value_or("");
  const Experiment experiment = descriptor.load();
  std::vector<Probed> all;
  std::vector<std::string> broken;  // rows without numbers, with the reason
  std::vector<std::pair<DatasetConfig, DataPair>> sets;
  std::optional<std::filesystem::path> weights_file;
  if (!weights.empty()) weights_file = weights;
  for (const Trial* trial : chosen(*this, experiment, weights)) {
    const TrialConfig& config = trial->config;
    auto set = std::find_if(sets.begin(), sets.end(), [&](const auto& one) { return one.first == config.dataset; });
    if (set == sets.end())
      set = sets.insert(set, {config.dataset, load_dataset(config.dataset, descriptor.data_root(), available_cores())});
    Probed p{trial, images > 0 ? images : config.train.batch_size, {}};
    try {
      p.reading = probe_network(config, set->second, p.images, data.threads, weights_file, computer.backend());
      all.push_back(std::move(p));
    } catch (const NonFiniteError& error) {
      broken.push_back(concat(trial->label, ": ", error.what()));
    }
  }
  if (format == "csv") print_csv(all);
  if (format == "json") print_json(*this, all, weights);
  if (format == "text")
    for (const Probed& p : all) print_layers(*this, p, weights);
  for (const std::string& why : broken) tell("{}\n", why);
  return static_cast<int>(broken.empty() ? ExitCode::done : ExitCode::trials_failed);
}

double largest_probability(std::span<const double> logits, bool sigmoid) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  if (sigmoid) return 1 / (1 + std::exp(-largest));
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return 1 / sum;
}

void Answers::add(std::string file, std::optional<std::int32_t> label, std::int32_t answer, double probability) {
  answers_.push_back({std::move(file), label, answer, probability});
}

std::string Answers::predictions_csv() const {
  const bool labelled = !answers_.empty() && answers_.front().label.has_value();
  std::string csv = labelled ? "file,true_class,answer,probability\n" : "file,answer,probability\n";
  for (const Answer& one : answers_) {
    csv += csv_cell(one.file) + ',';
    if (one.label) csv += csv_cell(name(*one.label)) + ',';
    csv += fmt::format("{},{}\n", csv_cell(name(one.answer)), one.probability);
  }
  return csv;
}

std::string Answers::confusion_csv() const {
  std::vector<std::vector<std::int64_t>> images(class_names_.size(), std::vector<std::int64_t>(class_names_.size()));
  for (const Answer& one : answers_)
    if (one.label) ++images[static_cast<std::size_t>(*one.label)][static_cast<std::size_t>(one.answer)];
  std::string csv = "true class / answer";
  for (const std::string& name : class_names_) csv += ',' + csv_cell(name);
  csv += '\n';
  for (std::size_t row = 0; row < class_names_.size(); ++row) {
    csv += csv_cell(class_names_[row]);
    for (const std::int64_t count : images[row]) csv += fmt::format(",{}", count);
    csv += '\n';
  }
  return csv;
}

}  // namespace normlab
