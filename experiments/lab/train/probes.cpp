#include "experiments/lab/train/probes.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <span>

#include "experiments/lab/data/eval_transform.h"
#include "experiments/lab/descriptor/metric_names.h"
#include "experiments/lab/train/batches.h"
#include "experiments/lab/train/trial.h"
#include "experiments/lab/train/whitening.h"
#include "experiments/lab/trials/trial_files.h"
#include "experiments/lab/weights/convert_files.h"
#include "nn/model/init.h"
#include "nn/model/sites.h"
#include "nn/training/engine.h"
#include "nn/training/nonfinite.h"

namespace normlab {
namespace {

std::string steps_text(std::string_view what, const std::vector<std::int64_t>& steps) {
  constexpr std::size_t kShown = 3;
  std::string text =
      fmt::format("{} at {}", what, fmt::join(std::span(steps).first(std::min(kShown, steps.size())), ", "));
  if (steps.size() > kShown) text += fmt::format(" and {} more", steps.size() - kShown);
  return text;
}

/// "training image 17 (pets/cat/1.jpg)": the image at `place` in the first batch.
std::string first_batch_image(const BatchSource& batches, const ImageSet& train, std::int64_t place) {
  return concat("training ", numbered_image(train, batches.samples(0)[static_cast<std::size_t>(place)].image));
}

void put_activations(const NormProbe::Site& site, MetricsLine& line) {
  const ActivationMoments& m = site.moments;
  for (const auto& [name, value] : {std::pair{"count", double(m.count)},
                                    {"mean", m.mean},
                                    {"variance", m.variance},
                                    {"kurtosis", m.kurtosis},
                                    {"lowest", m.lowest},
                                    {"highest", m.highest}})
    line.values[fmt::format("activation.{}/{}", name, site.name)] = value;
  line.lists["activation.bins/" + site.name].assign(m.bins.begin(), m.bins.end());
}

/// Five digits are more than a picture shows, and the points are the largest part of a metrics file.
double rounded(double value) { return std::isfinite(value) ? std::stod(fmt::format("{:.5g}", value)) : value; }

void put_mapping(const NormProbe::Site& site, const TrialConfig& config, MetricsLine& line) {
  const auto list = [&](const char* name) -> std::vector<double>& {
    return line.lists[fmt::format("mapping.{}/{}", name, site.name)];
  };
  for (const char* name : {"in", "out", "token", "channel"}) list(name);
  std::vector<double> in, out;
  for (const MappedPoint& point : site.points) {
    in.push_back(point.in);
    out.push_back(point.out);
    list("in").push_back(rounded(point.in));
    list("out").push_back(rounded(point.out));
    list("token").push_back(double(point.token));
    list("channel").push_back(double(point.channel));
  }
  const Saturation fit = fit_saturation(in, out, mapping_shape(config));
  line.values["mapping.curvature/" + site.name] = fit.curvature;
  line.values["mapping.slope/" + site.name] = fit.slope;
  line.values["mapping.scale/" + site.name] = fit.scale;
}

void read_stem_scale(const ParameterSet& parameters, const TrialConfig& config, MetricsLine& line) {
  const auto read = [&](const char* name, std::vector<double>& out) {
    const int found = parameters.find(name);
    if (found < 0) return;
    const Tensor t = parameters.read(found);
    for (std::int64_t i = 0; i < t.size(); ++i) out.push_back(number_at(t, i));
  };
  std::vector<double> gain, bias;
  read("stem.patch_in.gamma", gain);
  read("stem.patch_in.beta", bias);
  if (gain.empty()) return;
  // The gain weights the pixels [p, p, colours] of a patch.
  const auto side = std::size_t(network(config.model).patch_size);
  const std::size_t colours = gain.size() / (side * side);
  double marked = 0, rest = 0;
  std::size_t marks = 0;
  const auto end = [&](std::size_t at) { return at == 0 || at == side - 1; };
  const auto middle = [&](std::size_t at) { return at == (side - 1) / 2 || at == side / 2; };
  for (std::size_t i = 0; i < gain.size(); ++i) {
    const std::size_t y = i / colours / side, x = i / colours % side;
    const bool mark = (end(y) && end(x)) || (middle(y) && middle(x));
    (mark ? marked : rest) += std::abs(gain[i]);
    marks += mark;
  }
  line.values["stem_scale/marked"] = marked / double(marks);
  line.values["stem_scale/rest"] = rest / double(std::max<std::size_t>(gain.size() - marks, 1));
  line.lists["stem_scale.gain"] = std::move(gain);
  if (!bias.empty()) line.lists["stem_scale.bias"] = std::move(bias);
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

SaturationShape mapping_shape(const TrialConfig& config) {
  const Placement& p = placement_of(config.model);
  const auto bends_as_erf = [](const NormSpec& spec) {
    return spec.formula ? spec.formula->tree.reads("erf") : applies(spec, PointwisePhi::erf);
  };
  return bends_as_erf(p.attn.pre) || bends_as_erf(p.mlp.pre) ? SaturationShape::erf : SaturationShape::tanh;
}

std::map<std::string, double> ProbeReading::values() const {
  std::map<std::string, double> out;
  for (const SignalProbe::Layer& layer : signal)
    for (const ProbeAxis axis : kProbeAxes) {
      const auto at = static_cast<std::size_t>(axis);
      out[fmt::format("afsm.{}/{}", word_of(axis), layer.name)] = layer.stream[at].afsm;
      out[fmt::format("afv.{}/{}", word_of(axis), layer.name)] = layer.stream[at].afv;
      out[fmt::format("afvr.{}/{}", word_of(axis), layer.name)] = layer.branch[at].afv;
    }
  for (const GradientNorm& gradient : gradients) out["grad_norm/" + gradient.layer] = gradient.norm;
  return out;
}

void TrialProbes::begin(Engine& engine, std::int64_t step, const Tensor& targets) {
  const auto wanted = [&](ProbeKind kind) { return probes_.at(kind, step); };
  if (wanted(ProbeKind::stem_scale)) read_stem_scale(engine.parameters(), config_, stem_scale_);
  const bool sees_norms = wanted(ProbeKind::activations) || wanted(ProbeKind::mapping),
             sees_answers = wanted(ProbeKind::batch_accuracy) && has_probed(ProbeKind::batch_accuracy, config_);
  if (!sees_norms && !sees_answers && !wanted(ProbeKind::signal) && !wanted(ProbeKind::attention) &&
      !wanted(ProbeKind::updates))
    return;
  now_.reset(new StepProbes{.norms = NormProbe(wanted(ProbeKind::mapping))});
  Observers observers;
  if (wanted(ProbeKind::signal)) now_->signal.observe(observers);
  if (sees_norms) now_->norms.observe(observers);
  if (wanted(ProbeKind::attention)) now_->attention.observe(observers);
  if (sees_answers) now_->accuracy.observe(observers, engine.backend(), targets);
  if (wanted(ProbeKind::updates)) now_->updates.emplace(engine.parameters());
  engine.use_probe(observers);
}

std::array<MetricsLine, kProbes> TrialProbes::read(Engine& engine, ShardPool& pool, std::int64_t step) {
  std::array<MetricsLine, kProbes> readings;
  const auto reading = [&](ProbeKind kind) -> MetricsLine& { return readings[static_cast<std::size_t>(kind)]; };
  reading(ProbeKind::stem_scale) = std::exchange(stem_scale_, {});
  if (probes_.at(ProbeKind::gradients, step)) {
    engine.optimizer().gather_gradient();
    reading(ProbeKind::gradients).values = ProbeReading{{}, gradient_norms(engine.parameters(), pool)}.values();
  }
  const std::unique_ptr<StepProbes> seen = std::exchange(now_, nullptr);
  if (!seen) return readings;
  engine.use_probe({});
  seen->signal.gather(engine.group());
  seen->norms.gather(engine.group());
  seen->attention.gather(engine.group());
  if (probes_.at(ProbeKind::batch_accuracy, step) && has_probed(ProbeKind::batch_accuracy, config_)) {
    seen->accuracy.gather(engine.group());
    reading(ProbeKind::batch_accuracy).values["train/batch_accuracy"] = seen->accuracy.accuracy();
  }
  reading(ProbeKind::signal).values = ProbeReading{seen->signal.layers(), {}}.values();
  if (seen->updates)
    for (const GradientNorm& layer : seen->updates->ratios(engine.parameters(), pool))
      reading(ProbeKind::updates).values["update/" + layer.layer] = layer.norm;
  for (const AttentionProbe::Layer& layer : seen->attention.layers()) {
    reading(ProbeKind::attention).values["attention.entropy/" + layer.name] = layer.entropy;
    reading(ProbeKind::attention).values["attention.largest_logit/" + layer.name] = layer.largest_logit;
  }
  for (const NormProbe::Site& site : seen->norms.sites()) {
    if (probes_.at(ProbeKind::activations, step)) put_activations(site, reading(ProbeKind::activations));
    if (probes_.at(ProbeKind::mapping, step)) put_mapping(site, config_, reading(ProbeKind::mapping));
  }
  return readings;
}

std::optional<MetricsLine> TrialProbes::end(Engine& engine, ShardPool& pool, std::int64_t step, std::int64_t steps) {
  std::array<MetricsLine, kProbes> readings = read(engine, pool, step);
  MetricsLine now{step, double(step) / double(steps), {}, {}};
  for (const ProbeRow& row : kProbeRows) {
    MetricsLine& reading = readings[static_cast<std::size_t>(row.kind)];
    if (reading.values.empty() && reading.lists.empty()) continue;
    if (!probes_.of(row.kind).waits(step)) {
      now.values.merge(reading.values);
      now.lists.merge(reading.lists);
      continue;
    }
    reading.step = step;
    held_.push_back({row.kind, std::move(reading)});
    const auto of_kind = [&](const Held& held) { return held.kind == row.kind; };
    if (std::count_if(held_.begin(), held_.end(), of_kind) > probes_.of(row.kind).last)
      held_.erase(std::find_if(held_.begin(), held_.end(), of_kind));
  }
  if (now.values.empty() && now.lists.empty()) return std::nullopt;
  return now;
}

std::vector<MetricsLine> TrialProbes::at_end(std::int64_t done, std::int64_t steps) const {
  std::vector<MetricsLine> lines;
  for (const Held& held : held_) {
    MetricsLine line = held.line;
    line.values[kMeasuredAt] = double(line.step);
    line.step = done;
    line.progress = double(done) / double(steps);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string TrialProbes::held() const {
  std::string text;
  for (const Held& held : held_) text += metrics_text(held.line) + '\n';
  return text;
}

void TrialProbes::set_held(const std::string& text) {
  held_.clear();
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
    const MetricsLine line = parse_metrics(std::string_view(text).substr(begin, end + 1 - begin), "checkpoint").front();
    const std::string& name = line.values.empty() ? line.lists.begin()->first : line.values.begin()->first;
    for (const ProbeRow& row : kProbeRows)
      if (name.starts_with(row.metrics)) held_.push_back({row.kind, line});
  }
}

std::string MissingProbes::text() const {
  std::string text;
  for (const ProbeRow& row : kProbeRows)
    if (const auto& missing = steps[static_cast<std::size_t>(row.kind)]; !missing.empty())
      text += (text.empty() ? "" : "; ") + steps_text(row.word, missing);
  if (without_block) text += concat(text.empty() ? "" : "; ", "without_block at the end");
  return text;
}

bool has_probed(ProbeKind kind, const TrialConfig& config) {
  const Placement& placement = placement_of(config.model);
  if (kind == ProbeKind::batch_accuracy) return task_of(config.model) == Task::classify;
  if (kind == ProbeKind::stem_scale) return parts_of(placement.stem.patch_in.kind).learns.gamma;
  if (kind != ProbeKind::activations && kind != ProbeKind::mapping) return true;
  bool any = false;
  for (const SiteRow& site : kSites)
    for (std::int64_t block = 0; block < (site.in_block() ? block_count(config.model) : 1); ++block)
      any = any || norm_at(placement, site, block).kind != NormKind::none;
  return any;
}

MissingProbes missing_probes(const ProbeConfig& probes, const TrialConfig& config,
                             const std::vector<MetricsLine>& lines, std::int64_t steps, bool end) {
  std::array<std::set<std::int64_t>, kProbes> there;
  bool without_block = false;
  for (const MetricsLine& line : lines) {
    const auto see = [&](const std::string& name) {
      for (const ProbeRow& row : kProbeRows)
        if (name.starts_with(row.metrics)) there[static_cast<std::size_t>(row.kind)].insert(line.step);
      without_block = without_block || name.starts_with("without_block.");
    };
    for (const auto& [name, value] : line.values) see(name);
    for (const auto& [name, value] : line.lists) see(name);
  }
  MissingProbes missing;
  missing.without_block = end && probes.without_block && !without_block;
  for (const ProbeRow& row : kProbeRows) {
    if (!has_probed(row.kind, config)) continue;
    const auto at = static_cast<std::size_t>(row.kind);
    for (const std::int64_t step : probes.of(row.kind).kept(steps))
      if ((end || !probes.of(row.kind).waits(step)) && !there[at].contains(step)) missing.steps[at].push_back(step);
  }
  return missing;
}

MissingProbes missing_probes(const ProbeConfig& probes, const TrialConfig& config, const TrialFolder& trial) {
  if (probes.empty()) return {};
  const std::optional<TrialResult> result = trial.load_result();
  if (!result || result->status == TrialEnd::failed) return {};
  const bool there = std::filesystem::exists(trial.metrics(result_attempt(trial, *result)));
  const std::vector<MetricsLine> lines =
      there ? by_measured_step(read_result_metrics(trial, *result)) : std::vector<MetricsLine>();
  const std::int64_t trained = lines.empty() ? 0 : lines.back().step;
  MissingProbes missing =
      missing_probes(probes, config, lines, result->diverged_step ? *result->diverged_step + 1 : trained, true);
  if (result->status == TrialEnd::diverged) missing.without_block = false;
  return missing;
}

void require_probes(const ProbeConfig& probes, const TrialConfig& config, const std::vector<MetricsLine>& lines,
                    std::int64_t steps, const std::filesystem::path& checkpoint) {
  const MissingProbes missing = missing_probes(probes, config, lines, steps, false);
  if (!missing.empty())
    throw InputError(
        fmt::format("{}: is at step {}, and the training up to there has not recorded these probes: {}; remove the "
                    "trial's folder to restart it, or leave the probes out",
                    checkpoint.string(), steps, missing.text()));
}

std::string missing_measurements_note(const Experiment& experiment, const ResultStore& store) {
  std::string folders;
  for (const Trial& trial : experiment.trials)
    if (const MissingProbes missing = missing_probes(experiment.probes, trial.config, store.trial(trial.id));
        !missing.empty())
      folders += fmt::format("  {} ({}): {}\n", store.trial(trial.id).path().string(), trial.label, missing.text());
  constexpr std::string_view kAgain =
      "Remove these folders, or give another --out, and run again; the results will be "
      "the same.\n";
  std::string note;
  if (!folders.empty())
    note = concat("Finished, but without these probes of the descriptor, which can only be measured during training:\n",
                  folders, kAgain);
  std::string unmeasured_in;
  for (const Trial& trial : experiment.trials) {
    if (trial.purpose != Purpose::table || trial.config.eval.metrics.empty()) continue;
    const TrialFolder folder = store.trial(trial.id);
    try {
      const std::optional<TrialResult> result = folder.load_result();
      if (!result || result->status != TrialEnd::done) continue;
      if (const std::string names = unmeasured(trial.config, result->metrics); !names.empty())
        unmeasured_in += fmt::format("  {} ({}): {}\n", folder.path().string(), trial.label, names);
    } catch (const InputError&) {  // the table names it
    }
  }
  if (!unmeasured_in.empty())
    note += concat("Finished, but without these metrics of the descriptor's eval.metrics:\n", unmeasured_in, kAgain);
  return note;
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
  engine.state().progress = weights ? stated_progress(read_weight_file(*weights)) : 0;
  if (!weights) fit_whitening(one, data.train, engine.parameters(), pool);
  BatchSource batches(one, data.train, data.eval, engine.dtype());
  if (const auto weight = first_nonfinite(engine.parameters()))
    throw NonFiniteError(concat(weight->text(), weights ? concat(" in ", weights->string()) : " before the first step",
                                "; nothing that is measured of the batch, the first of which is ",
                                first_batch_image(batches, data.train, 0), ", is a result"),
                         weight->value);
  const BatchSource::Batch batch = batches.training(0, pool);
  SignalProbe signal;
  Observers observers;
  signal.observe(observers);
  engine.use_probe(observers);
  double broken = engine.forward_backward(batch.images, batch.wanted());
  engine.sum_gradients();
  engine.use_probe({});
  ProbeReading reading{signal.layers(), gradient_norms(engine.parameters(), pool)};
  for (const auto& [name, value] : reading.values())
    if (std::isfinite(broken)) broken = value;
  if (!std::isfinite(broken)) throw nonfinite_batch(engine, batches, batch, data.train, broken);
  return reading;
}

}  // namespace normlab
