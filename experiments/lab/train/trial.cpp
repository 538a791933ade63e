#include "experiments/lab/train/trial.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "core/backend.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/clock.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/metric_names.h"
#include "experiments/lab/train/attempt_files.h"
#include "experiments/lab/train/device.h"
#include "experiments/lab/train/end_rules.h"
#include "experiments/lab/train/evaluation.h"
#include "experiments/lab/train/pipeline.h"
#include "experiments/lab/train/probes.h"
#include "experiments/lab/train/provenance.h"
#include "experiments/lab/train/whitening.h"
#include "experiments/lab/trials/loss_meaning.h"
#include "experiments/lab/weights/start.h"
#include "experiments/lab/weights/trained_on.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"

namespace normlab {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kStepsPerLine = 50;  // a metrics line is written after as many, beside those of evaluations

/// Whether `steps` reach the interval `every`, where 0 stands for none.
bool passed(std::int64_t every, std::int64_t steps) { return every > 0 && steps >= every; }

/// What an attempt at a trial works with, and what its checkpoints hold.
struct Attempt {
  const TrialConfig& config;
  const std::string& id;
  const TrialOptions& options;
  const DataPair& data;
  const TrialFolder& folder;
  const Claim* claim;
  Group& group;
  AttemptFiles files{folder, claim != nullptr ? claim->attempt() : 0, group.root()};
  ShardPool pool{options.threads, group};
  Engine engine{*options.backend, pool, config.model, engine_settings(config, options.gpu_shards)};
  BatchSource batches{config, data.train, data.eval, engine.dtype()};
  UploadedBatches uploaded{batches, options.data_threads, engine, pool, options.clock};
  TrialEvaluation evaluation{config, data, engine, batches, pool};
  const StepCount& steps = batches.steps();
  const Schedule schedule{config.train.schedule, config.train.optimizer.peak_lr(config.train.batch_size), steps.total,
                          steps.warmup, steps.per_epoch};
  CollapseWatch collapse{config.train.collapse_steps, steps.warmup};
  EarlyStop early_stop{config.train.early_stop};
  TrialProbes probes{options.probes, config};
  CheckpointInfo info{
      .trial_id = id,
      .model = canonical_model_json(config.model),
      .bits = bits_identity(*options.backend, config.train.precision, options.gpu_shards,
                            formula_compiler_of(*options.backend, config.model)),
      .trained_on = to_metadata({config, data.train.channel_mean, data.train.channel_std, data.train.class_names}),
      .data_hash = data_hash(data),
      .note_of_data = note_of_data(config.dataset, data),
      .collapse = collapse.state(),
      .early_stop = early_stop.state()};
  const std::string started = utc_time();
  const std::function<void(const std::string&)> log = [this](const std::string& line) { files.log(line); };

  std::int64_t done() { return engine.state().step; }
  double progress() { return double(done()) / double(steps.total); }
  /// At the last step, or once early stopping triggered.
  bool finished() { return done() >= steps.total || early_stop.triggered(); }
  MetricsLine line(const std::map<std::string, double>& values = {}) {
    return {done(), double(done()) / double(steps.total), values, {}};
  }
};

void start(Attempt& a) {
  a.options.backend->choose_products("");
  initialise(a.engine.parameters(), a.config.model, a.config.seed);
  fit_whitening(a.config, a.data.train, a.engine.parameters(), a.pool);
  if (a.config.start.given())
    for (const std::string& line : load_start(a.config, a.options.start(), a.engine.parameters())) a.log(line);
}

void resume(Attempt& a, ResumePoint& from) {
  const std::string checkpoint = from.checkpoint.string();
  a.info = load_checkpoint(from.checkpoint, a.engine, a.info, a.options.allow_different_bits);
  if (!a.info.loss.complete(a.info.step))
    a.log(
        fmt::format("{}: an older version kept no losses in it; until {} steps after step {}, train/loss is "
                    "the mean of the steps since then",
                    checkpoint, TrainingLoss::kWindow, a.info.step));
  a.collapse.set_state(a.info.collapse);
  a.probes.set_held(a.info.held_probes);
  a.early_stop.set_state(a.info.early_stop);
  try {
    a.options.backend->choose_products(a.info.products);
  } catch (const InputError& error) {
    if (!a.options.allow_different_bits) throw InputError(fmt::format("{}: {}", checkpoint, error.what()));
    a.options.backend->choose_products("");
    a.info.different_bits = true;
  }
  // A former owner that was only paused may have written a newer checkpoint since latest_checkpoint() ran.
  from.metrics_bytes = a.info.metrics_bytes;
  if (a.group.root() && !a.options.probes.empty())
    require_probes(a.options.probes, a.config, read_metrics(a.folder.metrics(from.attempt)), a.info.step,
                   from.checkpoint);
  ++a.info.resumed;
  a.files.copy_metrics(from);
  a.log(fmt::format("resumes at step {} from attempt {}", a.info.step, from.attempt));
}

/// Starts, or resumes from the checkpoint that the first process chooses. Processes that differ in what is required here
/// would train something else than a single one.
void begin(Attempt& a) {
  require_equal(a.group, "trial", a.info.trial_id);
  require_equal(a.group, "program or CPU", a.info.bits);
  require_equal(a.group, "data set", a.info.data_hash);
  for (const std::string& remark : remarks_on(a.config.dataset, a.data)) a.log(remark);
  std::vector<std::string> problems;
  ResumePoint from;
  if (a.group.root()) from = a.folder.latest_checkpoint(problems).value_or(ResumePoint{});
  for (const std::string& problem : problems) a.log(problem);
  from.checkpoint = a.group.shared_text(from.checkpoint.string());
  a.group.agree([&] { from.checkpoint.empty() ? start(a) : resume(a, from); });
  if (a.group.shared(a.done()) != a.done())
    throw EnvironmentError(fmt::format("{}: another process replaced it while the processes read it; start again",
                                       from.checkpoint.string()));
}

struct StepOutcome {
  double loss = 0;
  std::optional<Divergence> nonfinite{};  // the step changed nothing
};

StepOutcome train_one(Attempt& a) {
  const std::int64_t step = a.done();
  const Engine::DeviceBatch& batch = a.uploaded.take(step);
  StepState& state = a.engine.state();
  state.epoch = step / a.steps.per_epoch;
  state.progress = a.progress();
  state.lr = a.schedule.rate(step);
  state.schedule = a.schedule.value(step);
  a.probes.begin(a.engine, step, batch.labels);
  a.engine.start_step(batch);
  if (a.options.backend->whole_batch() && step + 1 < a.steps.total) a.uploaded.prepare(step + 1);
  StepOutcome out{.loss = a.engine.finish_step()};
  if (const auto probed = a.probes.end(a.engine, a.pool, step, a.steps.total)) a.files.write({*probed});
  if (std::isfinite(out.loss))
    a.info.loss.add(step, out.loss);
  else
    out.nonfinite = nonfinite(out.loss, a.uploaded.find_nonfinite(step));
  return out;
}

/// Returns the reason if there are no finite results.
std::optional<Divergence> evaluate(Attempt& a) {
  const WorkScope scope(a.options.clock, WorkPart::evaluation);
  a.engine.state().progress = a.progress();
  try {
    a.evaluation.measure();
  } catch (const NonFiniteError& error) {
    return nonfinite(error);
  }
  return std::nullopt;
}

/// Returns the reason if an evaluation was due and gave no finite results. Adds the time of one to `evaluating`.
std::optional<Divergence> write_metrics(Attempt& a, double& evaluating) {
  const bool last = a.done() == a.steps.total,
             evaluates = last || (a.steps.eval_every > 0 && a.done() % a.steps.eval_every == 0);
  if (!evaluates && a.done() % kStepsPerLine != 0) return std::nullopt;
  MetricsLine line = a.line();
  if (const auto mean = a.info.loss.mean()) line.values[kTrainLoss] = *mean;
  line.values[kTrainRate] = a.engine.state().lr;
  if (a.config.train.clip_norm > 0) line.values[kGradientNorm] = a.engine.state().grad_norm;
  std::optional<Divergence> broken;
  if (evaluates) {
    const Clock::time_point begin = Clock::now();
    broken = evaluate(a);
    if (!broken) evaluating += seconds_since(begin);
    if (!broken && a.early_stop.active()) a.early_stop.add(a.evaluation.metrics().at(a.early_stop.metric()));
  }
  const bool ends = last || a.early_stop.triggered();
  if (evaluates && !broken)
    for (const auto& [name, value] : a.evaluation.metrics())
      if (ends || !is_class_accuracy(name)) line.values[name] = value;  // a thousand classes would fill the file
  if (!broken && ends) {
    a.files.write(a.probes.at_end(a.done(), a.steps.total));
    if (a.options.probes.without_block) {
      const WorkScope scope(a.options.clock, WorkPart::evaluation);
      a.files.write({a.line(a.evaluation.without_each_block(a.log))});
    }
  }
  a.files.write({line});
  return broken;
}

void save(Attempt& a) {
  const WorkScope scope(a.options.clock, WorkPart::checkpoints);
  a.info.step = a.done();
  a.info.products = a.options.backend->product_choices();
  a.info.collapse = a.collapse.state();
  a.info.early_stop = a.early_stop.state();
  a.info.held_probes = a.probes.held();
  a.engine.state().progress = a.progress();
  a.files.save(a.engine, a.info);
}

TrialResult result_of(Attempt& a) {
  TrialResult r = result_so_far(a.config, a.options, a.data, a.info, a.started);
  r.attempt = a.files.attempt();
  r.steps = a.done();
  r.peak_mb = std::int64_t(a.options.backend->memory().peak() >> 20);
  if (a.early_stop.active()) r.early_stop_rule = a.early_stop.words();
  return r;
}

TrialOutcome publish(Attempt& a, const TrialResult& r) {
  const WorkScope scope(a.options.clock, WorkPart::result);
  const bool diverged = r.status == TrialEnd::diverged,
             last = diverged && a.options.checkpoint.keep_before_divergence > 0;
  if (a.group.root()) a.folder.write_config(full_json(a.config));  // which a user may have deleted
  if (!a.files.publish(r, last ? KeepCheckpoint::last : a.options.checkpoint.keep)) return TrialOutcome::lost;
  return diverged ? TrialOutcome::diverged : TrialOutcome::done;
}

TrialOutcome diverged_at(Attempt& a, std::int64_t step, const Divergence& why) {
  TrialResult r = result_of(a);
  r.status = TrialEnd::diverged;
  r.diverged_step = r.steps = step;
  r.diverged_rule = why.rule;
  r.diverged_site = why.site;
  r.diverged_value = why.value;
  r.message = fmt::format("step {}: {}", step, why.message);
  a.files.write(a.probes.at_end(step, a.steps.total));
  return publish(a, r);
}

/// `trained`: in this attempt. Otherwise it was killed between the last checkpoint and the result.
TrialOutcome publish_end(Attempt& a, bool trained) {
  std::optional<MetricsLine> last;
  if (!trained) {
    if (const auto broken = evaluate(a)) return diverged_at(a, a.done(), *broken);
    last = a.files.last_metrics();
  }
  TrialResult r = result_of(a);
  if (!trained) r.peak_mb = 0;  // of an evaluation alone
  r.slices = a.evaluation.slices();
  for (const auto& [name, value] : a.evaluation.metrics())
    // The line is from before the kill, when the descriptor may not have asked for all of them.
    if (!last || last->values.contains(name)) r.metrics[name] = value;
  if (const auto mean = a.info.loss.mean()) r.metrics[kTrainLoss] = *mean;
  if (a.info.loss.complete(r.steps)) r.provenance[kTrainLossMeaning] = kLastStepsLoss;
  if (r.wall_seconds > 0) r.images_per_second = double(r.steps * a.config.train.batch_size) / r.wall_seconds;
  if (r.steps < a.steps.total) r.stopped_early_step = r.steps;
  if (a.evaluation.right().images() > 0) a.files.write(a.evaluation.right());
  return publish(a, r);
}

/// From the current step to the end.
TrialOutcome train(Attempt& a) {
  a.files.open(a.options.tensorboard);
  const Clock::time_point began = Clock::now();
  const double wall_before = a.info.wall_seconds;
  const std::int64_t first_step = a.done();
  Clock::time_point saved = began, reported = began, epoch_began = began;
  std::int64_t saved_step = first_step, epoch_step = first_step, images = 0;
  double evaluating = 0;  // seconds, in this epoch
  const WorkScope scope(a.options.clock, WorkPart::steps);
  if (!a.finished() && !a.evaluation.store_features(a.options, a.log)) return TrialOutcome::stopped;
  while (!a.finished()) {
    const std::int64_t step = a.done();
    const StepOutcome out = train_one(a);
    const std::int64_t done = step + 1;
    a.info.wall_seconds = wall_before + seconds_since(began);
    if (out.nonfinite) return diverged_at(a, step, *out.nonfinite);
    if (const auto broken = write_metrics(a, evaluating)) return diverged_at(a, done, *broken);
    if (a.collapse.add(out.loss)) return diverged_at(a, done, a.collapse.divergence());
    if (done % a.steps.per_epoch == 0 || a.finished()) {
      a.files.write(EpochTime{.epoch = (done + a.steps.per_epoch - 1) / a.steps.per_epoch,
                              .step = done,
                              .steps = done - std::exchange(epoch_step, done),
                              .seconds = seconds_since(epoch_began),
                              .evaluation_seconds = std::exchange(evaluating, 0)});
      epoch_began = Clock::now();
    }
    images += std::min(a.config.train.batch_size, a.data.train.size());
    if (a.options.report && a.group.root() && (seconds_since(reported) >= 0.2 || done >= a.steps.total)) {
      a.options.report({done, a.steps.total, out.loss, std::exchange(images, 0)});
      reported = Clock::now();
    }
    a.info.wall_seconds = wall_before + seconds_since(began);
    // The first process decides for all, since time, signals and claims are its own.
    struct Decision {
      bool lost, stop, due;  // due: a checkpoint
    };
    const CheckpointConfig& every = a.options.checkpoint;
    const Decision now = a.group.shared(
        Decision{.lost = a.claim != nullptr && a.group.root() && a.claim->lost(),  // which may write the lease
                 .stop = (a.options.stop && *a.options.stop) || done == a.options.stop_at,
                 .due = seconds_since(saved) >= every.seconds || passed(every.steps, done - saved_step) ||
                        passed(every.keep_before_divergence, done - saved_step)});
    if (now.lost) {
      a.log("another process has taken over this trial, because its lease was not renewed; this attempt ends");
      return TrialOutcome::lost;
    }
    if (!a.finished() && (now.stop || now.due)) {
      save(a);
      saved = Clock::now();
      saved_step = done;
      if (now.stop) return TrialOutcome::stopped;
    } else if (done == saved_step + kRecordAfter || a.options.record_at.contains(done)) {
      const WorkScope recording(a.options.clock, WorkPart::checkpoints);
      a.files.record(a.engine);
    }
  }
  a.info.wall_seconds = wall_before + seconds_since(began);
  save(a);
  return publish_end(a, first_step < a.done());
}

}  // namespace

TrialOutcome run_trial(const TrialConfig& config, const std::string& id, const DataPair& data,
                       const TrialFolder& folder, const Claim* claim, const TrialOptions& options) {
  require_divisible(options.team, config, options.backend->whole_batch() ? options.gpu_shards : 0);
  TrialOutcome outcome = TrialOutcome::done;
  options.team.run([&](Group& group) {
    try {
      std::unique_ptr<Attempt> attempt;
      options.backend->memory().restart_peak();
      options.backend->exchange(group);  // may wait for the others, which agree() must not
      group.agree([&] {
        attempt.reset(new Attempt{config, id, options, data, folder, claim, group});
        if (config.start.given() && attempt->engine.average()) attempt->engine.average()->start_from_statistics();
      });
      begin(*attempt);
      try {
        outcome = train(*attempt);
      } catch (const std::exception& error) {
        group.fail(error);
        throw;
      }
    } catch (const DeviceMemoryError& error) {
      if (options.stack > 1) throw_stack_too_large(error, *options.backend, options.stack);
      throw_step_too_large(error, *options.backend, options.threads, config.model,
                           engine_settings(config, options.gpu_shards), {"train.batch_size", "train.accumulate"},
                           evaluated_at_once(config, data));
    }
  });
  return outcome;
}

}  // namespace normlab
