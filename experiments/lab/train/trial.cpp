#include "experiments/lab/train/trial.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "core/backend.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/metric_names.h"
#include "experiments/lab/train/attempt_files.h"
#include "experiments/lab/train/device.h"
#include "experiments/lab/train/end_rules.h"
#include "experiments/lab/train/evaluation.h"
#include "experiments/lab/train/probes.h"
#include "experiments/lab/train/provenance.h"
#include "experiments/lab/train/trial_ranks.h"
#include "experiments/lab/train/uploaded_batches.h"
#include "experiments/lab/train/whitening.h"
#include "experiments/lab/trials/loss_meaning.h"
#include "experiments/lab/weights/start.h"
#include "experiments/lab/weights/trained_on.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"

namespace normlab {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr std::int64_t kStepsPerLine = 50;  // a metrics line is written after as many, beside those of evaluations

/// Whether `steps` reach the interval `every`, where 0 stands for none.
bool passed(std::int64_t every, std::int64_t steps) { return every > 0 && steps >= every; }

class TrialRun {
 public:
  TrialRun(const TrialConfig& config, const std::string& id, const DataPair& data, const TrialFolder& folder,
           const Claim* claim, const TrialOptions& options)
      : config_(config),
        options_(options),
        data_(data),
        folder_(folder),
        claim_(claim),
        ranks_(*options.ranks),
        files_(folder, claim != nullptr ? claim->attempt() : 0, ranks_),
        pool_(options.threads),
        engine_(*options.backend, pool_, config.model, engine_settings(config, options.gpu_shards), ranks_),
        batches_(config, data.train, data.eval, engine_.dtype()),
        uploaded_(batches_, options.data_threads, engine_, pool_, options.clock),
        evaluation_(config, data, engine_, batches_, pool_),
        schedule_(config.train.schedule, config.train.optimizer.peak_lr(config.train.batch_size),
                  batches_.steps().total, batches_.steps().warmup),
        collapse_(config.train.collapse_steps, batches_.steps().warmup),
        early_stop_(config.train.early_stop),
        probes_(options.probes, config),
        bad_images_(describe_bad_images(data)) {
    if (config.start.given() && engine_.average() != nullptr) engine_.average()->start_from_statistics();
    info_.trial_id = id;
    info_.model = canonical_model_json(config.model);
    info_.bits = bits_identity(*options.backend, config.train.precision, options.gpu_shards);
    info_.data_hash = data_hash(data);
    info_.note_of_data = note_of_data(config.dataset, data);
    info_.trained_on = to_metadata({config, data.train.channel_mean, data.train.channel_std, data.train.class_names});
    info_.collapse = collapse_.state();
    info_.early_stop = early_stop_.state();
  }

  TrialOutcome run() {
    require_same_everywhere();
    started_ = utc_time();
    if (!bad_images_.empty())
      files_.log(fmt::format("{} images cannot be decoded and are left out: {}", bad_images_.size(),
                             fmt::join(bad_images_, "; ")));
    if (const std::string note = gray16_note(data_); !note.empty()) files_.log(note.substr(1));
    if (const std::string copy = jpeg_copy(config_.dataset.name, data_); !copy.empty())
      files_.log(copy + kNotPublished);
    std::optional<ResumePoint> from = resume_point();
    ranks_.agree([&] { from ? resume(*from) : start(); });
    if (ranks_.shared(engine_.state().step) != engine_.state().step)
      throw EnvironmentError(fmt::format("{}: another process replaced it while the ranks read it; start again",
                                         from->checkpoint.string()));
    try {
      return train();
    } catch (const std::exception& error) {
      ranks_.fail(error);
      throw;
    }
  }

 private:
  TrialOutcome train() {
    files_.open(options_.tensorboard);
    const Clock::time_point begin = Clock::now();
    const double wall_before = info_.wall_seconds;
    const std::int64_t first_step = engine_.state().step;
    Clock::time_point saved = begin;
    epoch_ = {.begin = begin, .first_step = first_step};
    std::int64_t saved_step = first_step;
    const WorkScope scope(options_.clock, WorkPart::steps);
    if (!finished() && !evaluation_.store_features(options_, [this](const std::string& line) { files_.log(line); }))
      return TrialOutcome::stopped;
    while (!finished()) {
      const std::int64_t step = engine_.state().step;
      const bool finite = train_one(step);
      if (probed_) files_.write(*probed_);
      info_.wall_seconds = wall_before + seconds_since(begin);
      if (!finite) return diverged_at(step, nonfinite(loss_, found_));  // the step changed nothing
      const std::int64_t done = step + 1;
      if (const auto broken = write_metrics(done)) return diverged_at(done, *broken);
      if (collapsed_) return diverged_at(done, collapse_.divergence());
      time_epoch(done);
      report(done);
      info_.wall_seconds = wall_before + seconds_since(begin);
      const Decision now = decide(done, saved, saved_step);
      if (now.lost) {
        files_.log("another process has taken over this trial, because its lease was not renewed; this attempt ends");
        return TrialOutcome::lost;
      }
      if (!finished() && (now.stop || now.due)) {
        save();
        saved = Clock::now();
        saved_step = done;
        if (now.stop) return TrialOutcome::stopped;
      } else if (done == saved_step + kRecordAfter || options_.record_at.contains(done)) {
        const WorkScope recording(options_.clock, WorkPart::checkpoints);
        files_.record(engine_);
      }
    }
    info_.wall_seconds = wall_before + seconds_since(begin);
    save();
    return publish(first_step);
  }

  struct Decision {
    bool lost, stop, due;  // due: a checkpoint
  };
  /// Rank 0 decides for all, since time, signals and claims are its own.
  Decision decide(std::int64_t done, Clock::time_point saved, std::int64_t saved_step) {
    const bool stop = (options_.stop && *options_.stop) || done == options_.stop_at;
    const bool due = seconds_since(saved) >= options_.checkpoint.seconds ||
                     passed(options_.checkpoint.steps, done - saved_step) ||
                     passed(options_.checkpoint.keep_before_divergence, done - saved_step);
    const bool lost = ranks_.root() && claim_ != nullptr && claim_->lost();  // which may write the lease
    return ranks_.shared(Decision{lost, stop, due});
  }

  /// The checkpoint to resume from, which rank 0 chooses.
  std::optional<ResumePoint> resume_point() {
    std::vector<std::string> problems;
    std::optional<ResumePoint> from;
    if (ranks_.root()) from = folder_.latest_checkpoint(problems);
    for (const std::string& problem : problems) files_.log(problem);
    const std::string path = ranks_.shared_text(from ? from->checkpoint.string() : "");
    if (!ranks_.root() && !path.empty()) from.emplace().checkpoint = path;
    return from;
  }

  /// Ranks that differ in one of these would train something else than a single process.
  void require_same_everywhere() {
    if (ranks_.alone()) return;
    require_equal(ranks_, "trial", info_.trial_id);
    require_equal(ranks_, "program or CPU", info_.bits);
    require_equal(ranks_, "data set", info_.data_hash);
  }

  void start() {
    options_.backend->choose_products("");
    initialise(engine_.parameters(), config_.model, config_.seed);
    fit_whitening(config_, data_.train, engine_.parameters(), pool_);
    if (config_.start.given())
      for (const std::string& line : load_start(config_, options_.start(), engine_.parameters())) files_.log(line);
  }

  void resume(ResumePoint& from) {
    const std::string bits = info_.bits;
    std::string products;
    info_ = load_checkpoint(from.checkpoint, engine_, info_);
    if (!info_.loss.complete(info_.step))
      files_.log(
          fmt::format("{}: an older version kept no losses in it; until {} steps after step {}, train/loss is "
                      "the mean of the steps since then",
                      from.checkpoint.string(), TrainingLoss::kWindow, info_.step));
    collapse_.set_state(info_.collapse);
    probes_.set_held(info_.held_probes);
    early_stop_.set_state(info_.early_stop);
    if (info_.bits != bits) {
      if (!options_.allow_different_bits)
        throw InputError(fmt::format(
            "{}: was written by another program, so resuming would not give the bits of an uninterrupted run:\n"
            "  it:   {}\n  this: {}\nUse that program, remove the trial's folder to restart it, or resume with "
            "--allow-different-bits, which marks the result",
            from.checkpoint.string(), info_.bits, bits));
      info_.different_bits = true;
      info_.bits = bits;
    } else {
      products = info_.products;
    }
    choose_products(from.checkpoint, products);
    // A former owner that was only paused may have written a newer checkpoint since latest_checkpoint() ran.
    from.metrics_bytes = info_.metrics_bytes;
    if (ranks_.root() && !options_.probes.empty())
      require_probes(options_.probes, config_, read_metrics(folder_.metrics(from.attempt)), info_.step,
                     from.checkpoint);
    ++info_.resumed;
    files_.copy_metrics(from);
    files_.log(fmt::format("resumes at step {} from attempt {}", info_.step, from.attempt));
  }

  void choose_products(const std::filesystem::path& checkpoint, const std::string& products) {
    try {
      options_.backend->choose_products(products);
    } catch (const InputError& error) {
      if (!options_.allow_different_bits) throw InputError(fmt::format("{}: {}", checkpoint.string(), error.what()));
      options_.backend->choose_products("");
      info_.different_bits = true;
    }
  }

  /// At the last step, or once early stopping triggered.
  bool finished() { return engine_.state().step >= batches_.steps().total || early_stop_.triggered(); }

  /// False if the loss or its gradient was not finite; `found_` then says where that began.
  bool train_one(std::int64_t step) {
    const Engine::DeviceBatch& batch = uploaded_.take(step);
    const StepCount& steps = batches_.steps();
    StepState& state = engine_.state();
    state.epoch = step / steps.per_epoch;
    state.lr = schedule_.rate(step);
    state.schedule = schedule_.value(step);
    probes_.begin(engine_, step);
    engine_.start_step(batch);
    if (options_.backend->whole_batch() && step + 1 < steps.total) uploaded_.prepare(step + 1);
    loss_ = engine_.finish_step();
    probed_ = probes_.end(engine_, pool_, step, steps.total);
    if (!std::isfinite(loss_)) {
      found_ = uploaded_.find_nonfinite(step);
      return false;
    }
    info_.loss.add(step, loss_);
    collapsed_ = collapse_.add(loss_);
    return true;
  }

  /// Returns the reason if an evaluation was due and gave no finite results.
  std::optional<Divergence> write_metrics(std::int64_t done) {
    const StepCount& steps = batches_.steps();
    const bool last = done == steps.total, evaluates = last || (steps.eval_every > 0 && done % steps.eval_every == 0);
    if (!evaluates && done % kStepsPerLine != 0) return std::nullopt;
    MetricsLine line{done, double(done) / double(steps.total), {}, {}};
    if (const auto mean = info_.loss.mean()) line.values[kTrainLoss] = *mean;
    line.values[kTrainRate] = engine_.state().lr;
    if (config_.train.clip_norm > 0) line.values[kGradientNorm] = engine_.state().grad_norm;
    std::optional<Divergence> broken;
    if (evaluates) broken = evaluate();
    const bool ends = last || early_stop_.triggered();
    if (evaluates && !broken)
      for (const auto& [name, value] : evaluation_.metrics())
        if (ends || !is_class_accuracy(name)) line.values[name] = value;  // a thousand classes would fill the file
    if (!broken && ends) {
      write_held(done);
      if (options_.probes.without_block) files_.write(without_each_block(done));
    }
    files_.write(line);
    return broken;
  }

  /// The probes that wait for the end of the training, here after `done` steps.
  void write_held(std::int64_t done) {
    for (const MetricsLine& line : probes_.at_end(done, batches_.steps().total)) files_.write(line);
  }

  MetricsLine without_each_block(std::int64_t done) {
    const WorkScope scope(options_.clock, WorkPart::evaluation);
    return {done,
            double(done) / double(batches_.steps().total),
            evaluate_without_each_block(config_, data_.eval, engine_, batches_, pool_,
                                        [this](const std::string& line) { files_.log(line); }),
            {}};
  }

  /// Returns the reason if there are no finite results.
  std::optional<Divergence> evaluate() {
    const WorkScope scope(options_.clock, WorkPart::evaluation);
    const Clock::time_point begin = Clock::now();
    try {
      evaluation_.measure();
      epoch_.evaluating += seconds_since(begin);
    } catch (const NonFiniteError& error) {
      return nonfinite(error);
    }
    if (early_stop_.active()) early_stop_.add(evaluation_.metrics().at(early_stop_.metric()));
    return std::nullopt;
  }

  /// Notes how long an epoch took here, once its last step or that of the training is done.
  void time_epoch(std::int64_t done) {
    const std::int64_t per_epoch = batches_.steps().per_epoch;
    if (done % per_epoch != 0 && !finished()) return;
    files_.write(EpochTime{.epoch = (done + per_epoch - 1) / per_epoch,
                           .step = done,
                           .steps = done - epoch_.first_step,
                           .seconds = seconds_since(epoch_.begin),
                           .evaluation_seconds = epoch_.evaluating});
    epoch_ = {.begin = Clock::now(), .first_step = done};
  }

  void report(std::int64_t done) {
    images_ += std::min(config_.train.batch_size, data_.train.size());
    if (!options_.report || (seconds_since(reported_) < 0.2 && done < batches_.steps().total)) return;
    options_.report({done, batches_.steps().total, loss_, images_});
    images_ = 0;
    reported_ = Clock::now();
  }

  void save() {
    const WorkScope scope(options_.clock, WorkPart::checkpoints);
    info_.step = engine_.state().step;
    info_.products = options_.backend->product_choices();
    info_.collapse = collapse_.state();
    info_.early_stop = early_stop_.state();
    info_.held_probes = probes_.held();
    files_.save(engine_, info_);
  }

  TrialResult result() {
    TrialResult r;
    r.bad_images = bad_images_;
    r.id = info_.trial_id;
    r.seed = config_.seed;
    r.wall_seconds = info_.wall_seconds;
    r.resumed = info_.resumed;
    r.different_bits = info_.different_bits;
    r.attempt = files_.attempt();
    r.steps = engine_.state().step;
    if (info_.loss.first) r.metrics[kFirstLoss] = *info_.loss.first;
    if (early_stop_.active()) r.early_stop_rule = early_stop_.words();
    r.provenance = provenance(options_, config_.dataset.name, data_, info_, started_);
    if (!config_.dataset.labels.empty()) r.provenance[kLabelsKey] = "names first";
    return r;
  }

  TrialOutcome publish(std::int64_t first_step) {
    const std::int64_t steps = engine_.state().step;
    std::optional<MetricsLine> last;
    if (first_step == steps) {  // killed between the last checkpoint and the result
      const EarlyStop before = early_stop_;
      if (const auto broken = evaluate()) return diverged_at(steps, *broken);
      early_stop_ = before;
      last = files_.last_metrics();
    }
    TrialResult r = result();
    r.slices = evaluation_.slices();
    for (const auto& [name, value] : evaluation_.metrics())
      // The line is from before the kill, when the descriptor may not have asked for all of them.
      if (!last || last->values.contains(name)) r.metrics[name] = value;
    if (const auto mean = info_.loss.mean()) r.metrics[kTrainLoss] = *mean;
    if (info_.loss.complete(steps)) r.provenance[kTrainLossMeaning] = kLastStepsLoss;
    r.images_per_second = info_.wall_seconds > 0 ? double(steps * config_.train.batch_size) / info_.wall_seconds : 0.0;
    if (steps < batches_.steps().total) r.stopped_early_step = steps;
    if (evaluation_.right().images() > 0) files_.write(evaluation_.right());
    return publish(r);
  }

  TrialOutcome publish(const TrialResult& r) {
    const WorkScope scope(options_.clock, WorkPart::result);
    const bool diverged = r.status == TrialEnd::diverged;
    const bool last = diverged && options_.checkpoint.keep_before_divergence > 0;
    if (ranks_.root()) folder_.write_config(full_json(config_));  // which a user may have deleted
    if (!files_.publish(r, last ? KeepCheckpoint::last : options_.checkpoint.keep)) return TrialOutcome::lost;
    return diverged ? TrialOutcome::diverged : TrialOutcome::done;
  }

  TrialOutcome diverged_at(std::int64_t step, const Divergence& why) {
    TrialResult r = result();
    r.status = TrialEnd::diverged;
    r.diverged_step = r.steps = step;
    r.diverged_rule = why.rule;
    r.diverged_site = why.site;
    r.diverged_value = why.value;
    r.message = fmt::format("step {}: {}", step, why.message);
    write_held(step);
    return publish(r);
  }

  const TrialConfig& config_;
  const TrialOptions& options_;
  const DataPair& data_;
  const TrialFolder& folder_;
  const Claim* claim_;  // null in a rank that joins another's trial
  Ranks& ranks_;
  AttemptFiles files_;
  ShardPool pool_;
  Engine engine_;
  BatchSource batches_;
  UploadedBatches uploaded_;
  TrialEvaluation evaluation_;
  const Schedule schedule_;
  CollapseWatch collapse_;
  EarlyStop early_stop_;
  TrialProbes probes_;
  std::optional<MetricsLine> probed_;  // of the last step
  CheckpointInfo info_;
  /// The steps of the current epoch so far, in this attempt.
  struct Epoch {
    Clock::time_point begin{};
    std::int64_t first_step = 0;
    double evaluating = 0;  // seconds
  } epoch_;
  NonFinite found_{};  // where a step was not finite
  bool collapsed_ = false;
  std::string started_;
  const std::vector<std::string> bad_images_;
  double loss_ = 0.0;
  std::int64_t images_ = 0;
  Clock::time_point reported_ = Clock::now();
};

TrialOutcome train_trial(const TrialConfig& config, const std::string& id, const DataPair& data,
                         const TrialFolder& folder, const Claim* claim, const TrialOptions& options) {
  try {
    std::optional<TrialRun> run;
    options.backend->exchange(*options.ranks);  // may wait for the others, which agree() must not
    options.ranks->agree([&] { run.emplace(config, id, data, folder, claim, options); });
    return run->run();
  } catch (const DeviceMemoryError& error) {
    throw_step_too_large(error, *options.backend, options.threads, config.model,
                         engine_settings(config, options.gpu_shards), {"train.batch_size", "train.accumulate"},
                         evaluated_at_once(config, data));
  }
}

}  // namespace

TrialOutcome run_trial(const TrialConfig& config, const std::string& id, const DataPair& data,
                       const TrialFolder& folder, const Claim& claim, const TrialOptions& options) {
  return train_trial(config, id, data, folder, &claim, options);
}

TrialOutcome join_trial(const TrialConfig& config, const std::string& id, const DataPair& data,
                        const TrialFolder& folder, const TrialOptions& options) {
  return train_trial(config, id, data, folder, nullptr, options);
}

}  // namespace normlab
