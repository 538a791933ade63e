#include "experiments/train/probes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/data/eval_transform.h"
#include "experiments/results/trial_files.h"
#include "experiments/train/batches.h"
#include "experiments/train/trial.h"
#include "experiments/train/whitening.h"
#include "experiments/weights/convert_files.h"
#include "nn/engine.h"
#include "nn/init.h"
#include "nn/nonfinite.h"

namespace normlab {
namespace {

constexpr std::string_view kSignalBegins = "afsm.", kGradientsBegin = "grad_norm/";

std::string steps_text(const char* what, const std::vector<std::int64_t>& steps) {
  constexpr std::size_t kShown = 3;
  std::string text = fmt::format("{} at ", what);
  for (std::size_t i = 0; i < std::min(kShown, steps.size()); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", steps[i]);
  if (steps.size() > kShown) text += fmt::format(" and {} more", steps.size() - kShown);
  return text;
}

/// "training image 17 (pets/cat/1.jpg)": the image at `place` in the first batch.
std::string first_batch_image(const BatchSource& batches, const ImageSet& train, std::int64_t place) {
  return concat("training ", numbered_image(train, batches.samples(0)[static_cast<std::size_t>(place)].image));
}

std::optional<double> first_nonfinite(const ProbeReading& reading) {
  for (const auto& [name, value] : reading.values())
    if (!std::isfinite(value)) return value;
  return std::nullopt;
}

NonFiniteError nonfinite_batch(Engine& engine, const BatchSource& batches, const BatchSource::Batch& batch,
                               const ImageSet& train, double value) {
  const std::optional<std::int64_t> image = engine.first_nonfinite_loss();
  ++engine.state().step;  // the search expects a completed step
  const NonFinite found = engine.find_nonfinite(batch.images, batch.wanted());
  return {concat(image ? "the loss of " : "the losses are finite, but no gradient of the batch that begins with ",
                 first_batch_image(batches, train, image.value_or(0)), image ? " is not finite" : " is a result",
                 found ? concat("; first in ", found.words()) : ""),
          value};
}

}  // namespace

std::map<std::string, double> ProbeReading::values() const {
  std::map<std::string, double> out;
  for (const SignalProbe::Layer& layer : signal)
    for (const ProbeAxis axis : kProbeAxes) {
      const auto at = static_cast<std::size_t>(axis);
      out[fmt::format("afsm.{}/{}", word_of(axis), layer.name)] = layer.stream[at].afsm;
      out[fmt::format("afv.{}/{}", word_of(axis), layer.name)] = layer.stream[at].afv;
      out[fmt::format("afvr.{}/{}", word_of(axis), layer.name)] = layer.branch[at].afv;
    }
  for (const GradientNorm& gradient : gradients) out[std::string(kGradientsBegin) + gradient.layer] = gradient.norm;
  return out;
}

void TrialProbes::begin(Engine& engine, std::int64_t step) {
  if (!config_.signal_at(step)) return;
  signal_ = std::make_unique<SignalProbe>();
  engine.use_probe(signal_.get());
}

std::optional<MetricsLine> TrialProbes::end(Engine& engine, ShardPool& pool, std::int64_t step, std::int64_t steps) {
  ProbeReading reading;
  if (signal_) {
    engine.use_probe(nullptr);
    reading.signal = signal_->layers();
    signal_.reset();
  }
  if (config_.gradients_at(step)) reading.gradients = gradient_norms(engine.parameters(), pool);
  if (reading.signal.empty() && reading.gradients.empty()) return std::nullopt;
  return MetricsLine{step, double(step) / double(steps), reading.values()};
}

std::string MissingProbes::text() const {
  std::string text;
  if (!signal.empty()) text = steps_text("signal", signal);
  if (!gradients.empty()) text += (text.empty() ? "" : "; ") + steps_text("gradients", gradients);
  return text;
}

MissingProbes missing_probes(const ProbeConfig& config, const std::vector<MetricsLine>& lines, std::int64_t steps) {
  std::set<std::int64_t> signal, gradients;
  for (const MetricsLine& line : lines)
    for (const auto& [name, value] : line.values) {
      if (name.starts_with(kSignalBegins)) signal.insert(line.step);
      if (name.starts_with(kGradientsBegin)) gradients.insert(line.step);
    }
  MissingProbes missing;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (config.signal_at(step) && !signal.contains(step)) missing.signal.push_back(step);
    if (config.gradients_at(step) && !gradients.contains(step)) missing.gradients.push_back(step);
  }
  return missing;
}

MissingProbes missing_probes(const ProbeConfig& config, const TrialFolder& trial) {
  if (config.empty()) return {};
  const std::optional<TrialResult> result = trial.load_result();
  if (!result || result->status == TrialEnd::failed) return {};
  const bool there = std::filesystem::exists(trial.metrics(result_attempt(trial, *result)));
  const std::vector<MetricsLine> lines = there ? read_result_metrics(trial, *result) : std::vector<MetricsLine>();
  const std::int64_t trained = lines.empty() ? 0 : lines.back().step;
  return missing_probes(config, lines, result->diverged_step ? *result->diverged_step + 1 : trained);
}

std::string missing_probes_note(const Experiment& experiment, const ResultStore& store) {
  std::string folders;
  for (const Trial& trial : experiment.trials)
    if (const MissingProbes missing = missing_probes(experiment.probes, store.trial(trial.id)); !missing.empty())
      folders += fmt::format("  {} ({}): {}\n", store.trial(trial.id).path().string(), trial.label, missing.text());
  if (folders.empty()) return folders;
  return "Finished, but without these probes of the descriptor, which can only be measured during training:\n" +
         folders + "Remove these folders, or give another --out, and run again; the results will be the same.\n";
}

ProbeReading probe_network(const TrialConfig& config, const DataPair& data, std::int64_t images, int threads,
                           const std::optional<std::filesystem::path>& weights, Backend& backend) {
  if (images < 1 || images > data.train.size())
    throw InputError(
        fmt::format("--images: {} is not between 1 and the {} training images", images, data.train.size()));
  TrialConfig one = config;
  one.train.batch_size = images;
  ShardPool pool(threads);
  Engine engine(backend, pool, one.model, engine_settings(one));
  if (weights)
    load_weights(*weights, one.model, engine.parameters());
  else
    initialise(engine.parameters(), one.model, one.seed);
  if (!weights) fit_whitening(one, data.train, engine.parameters(), pool);
  BatchSource batches(one, data.train, data.eval, engine.dtype());
  if (const auto weight = first_nonfinite(engine.parameters()))
    throw NonFiniteError(concat(weight->text(), weights ? concat(" in ", weights->string()) : " before the first step",
                                "; nothing that is measured of the batch, the first of which is ",
                                first_batch_image(batches, data.train, 0), ", is a result"),
                         weight->value);
  const BatchSource::Batch batch = batches.training(0, pool);
  SignalProbe signal;
  engine.use_probe(&signal);
  const double loss = engine.forward_backward(batch.images, batch.wanted());
  engine.sum_gradients();
  engine.use_probe(nullptr);
  ProbeReading reading{signal.layers(), gradient_norms(engine.parameters(), pool)};
  const std::optional<double> broken = std::isfinite(loss) ? first_nonfinite(reading) : loss;
  if (broken) throw nonfinite_batch(engine, batches, batch, data.train, *broken);
  return reading;
}

}  // namespace normlab
