#include "experiments/train/trial.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "core/cpu/blas.h"
#include "experiments/descriptor/canonical.h"
#include "experiments/results/build_info.h"
#include "experiments/results/metrics_log.h"
#include "experiments/train/batches.h"
#include "experiments/train/checkpoint.h"
#include "experiments/train/pipeline.h"
#include "experiments/train/probes.h"

namespace normlab {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr std::int64_t kStepsPerLine = 50;       // a metrics line with the mean loss of so many steps
constexpr std::int64_t kEvaluationImages = 512;  // made at a time

class TrialRun {
 public:
  TrialRun(const TrialConfig& config, const std::string& id, const DataPair& data, const TrialFolder& folder,
           const Claim& claim, const TrialOptions& options)
      : config_(config),
        options_(options),
        data_(data),
        folder_(folder),
        claim_(claim),
        attempt_(claim.attempt()),
        pool_(options.threads),
        engine_(*options.backend, pool_, config.model, engine_settings(config)),
        batches_(config, data.train, data.eval, engine_.dtype()),
        pipeline_(batches_, options.data_threads),
        schedule_(schedule_settings(config.train, batches_.steps())),
        probes_(options.probes) {
    info_.trial_id = id;
    info_.model = canonical_model_json(config.model);
    info_.bits = bits_identity();
  }

  TrialOutcome run() {
    started_ = utc_time();
    log_bad_images();
    resume_or_start();
    MetricsLog metrics(folder_.metrics(attempt_));
    const Clock::time_point begin = Clock::now();
    const double wall_before = info_.wall_seconds;
    const std::int64_t first_step = engine_.state().step, total = batches_.steps().total;
    Clock::time_point saved = begin;
    std::int64_t saved_step = first_step;
    while (engine_.state().step < total) {
      const std::int64_t step = engine_.state().step;
      const bool finite = train_one(step);
      if (probed_) metrics.append(*probed_);
      if (!finite) {
        info_.wall_seconds = wall_before + seconds_since(begin);
        return publish_divergence(step);
      }
      const std::int64_t done = step + 1;
      write_metrics(metrics, done);
      report(done);
      info_.wall_seconds = wall_before + seconds_since(begin);
      if (claim_.lost()) return abandon();
      const bool stop = options_.stop && *options_.stop;
      const bool due = seconds_since(saved) >= options_.checkpoint.seconds ||
                       (options_.checkpoint.steps > 0 && done - saved_step >= options_.checkpoint.steps);
      if (done < total && (stop || due)) {
        save(metrics);
        saved = Clock::now();
        saved_step = done;
        if (stop) return TrialOutcome::stopped;
      }
    }
    info_.wall_seconds = wall_before + seconds_since(begin);
    save(metrics);
    return publish(first_step);
  }

 private:
  void resume_or_start() {
    std::vector<std::string> problems;
    std::optional<ResumePoint> from = folder_.latest_checkpoint(problems);
    for (const std::string& problem : problems) log(problem);
    if (!from) {
      initialise(engine_.parameters(), config_.model, config_.seed);
      return;
    }
    const std::string bits = info_.bits;
    info_ = load_checkpoint(from->checkpoint, engine_, info_);
    if (info_.bits != bits) {
      if (!options_.allow_different_bits)
        throw InputError(fmt::format(
            "{}: was written by another program, and going on would not give the bits of an undisturbed run:\n"
            "  it:   {}\n  this: {}\nUse that program, remove the trial's folder to start anew, or go on with "
            "--allow-different-bits, which marks the result",
            from->checkpoint.string(), info_.bits, bits));
      info_.different_bits = true;
      info_.bits = bits;
    }
    // A former owner that was only paused may have written a newer one since latest_checkpoint() looked.
    from->metrics_bytes = info_.metrics_bytes;
    require_probes(*from);
    ++info_.resumed;
    folder_.copy_metrics(*from, attempt_);
    log(fmt::format("goes on at step {} from attempt {}", info_.step, from->attempt));
  }

  /// What was asked for must have been measured up to here: nobody can go back for it.
  void require_probes(const ResumePoint& from) const {
    if (options_.probes.empty()) return;
    const MissingProbes missing =
        missing_probes(options_.probes, read_metrics(folder_.metrics(from.attempt)), info_.step);
    if (!missing.empty())
      throw InputError(
          fmt::format("{}: is at step {}, and its training has not recorded these probes: {}; remove the "
                      "trial's folder to start anew, or leave them out",
                      from.checkpoint.string(), info_.step, missing.text()));
  }

  /// False where the loss or its gradient was not finite; `where_` then says where that began.
  bool train_one(std::int64_t step) {
    const BatchSource::Batch batch = pipeline_.training(step, pool_);
    const StepCount& steps = batches_.steps();
    StepState& state = engine_.state();
    state.epoch = step / steps.per_epoch;
    state.lr = schedule_.rate(step);
    state.schedule = schedule_.value(step);
    state.clip_norm = config_.train.clip_norm;
    probes_.begin(engine_, step);
    loss_ = engine_.train_step(batch.images, batch.wanted());
    probed_ = probes_.end(engine_, pool_, step, steps.total);
    if (!std::isfinite(loss_)) {
      const NonFinite found = engine_.find_nonfinite(batch.images, batch.wanted());
      where_ =
          found ? fmt::format("{} of {} at {}", found.in_backward ? "the gradient" : "the value", found.op, found.site)
                : std::string("the sum of the gradients");
      return false;
    }
    info_.loss_sum += loss_;
    ++info_.loss_count;
    return true;
  }

  void write_metrics(MetricsLog& metrics, std::int64_t done) {
    const StepCount& steps = batches_.steps();
    const bool last = done == steps.total, evaluates = last || (steps.eval_every > 0 && done % steps.eval_every == 0);
    if (!evaluates && done % kStepsPerLine != 0) return;
    MetricsLine line;
    line.step = done;
    line.progress = double(done) / double(steps.total);
    if (info_.loss_count > 0) line.values["train/loss"] = train_loss_ = info_.loss_sum / double(info_.loss_count);
    info_.loss_sum = 0.0;
    info_.loss_count = 0;
    if (evaluates) {
      evaluate();
      line.values.insert(evaluated_.begin(), evaluated_.end());
    }
    metrics.append(line);
  }

  void evaluate() {
    evaluate_as("eval/");
    if (engine_.average() == nullptr) return;
    const WeightAverage::InUse in_use(*engine_.average());
    evaluate_as("eval/ema_");
  }

  void evaluate_as(const std::string& prefix) {
    const std::int64_t n = data_.eval.size();
    std::int64_t right = 0;
    double loss = 0.0;
    std::vector<double> losses(static_cast<std::size_t>(kEvaluationImages));
    std::vector<std::int32_t> predicted(losses.size());
    for (std::int64_t first = 0; first < n; first += kEvaluationImages) {
      const std::int64_t count = std::min(kEvaluationImages, n - first);
      const BatchSource::Batch batch = batches_.evaluation(first, count, pool_);
      engine_.evaluate(batch.images, batch.labels, losses, predicted);
      for (std::int64_t i = 0; i < count; ++i) {
        right += predicted[static_cast<std::size_t>(i)] == data_.eval.labels[static_cast<std::size_t>(first + i)];
        loss += losses[static_cast<std::size_t>(i)];
      }
    }
    evaluated_[prefix + "accuracy"] = double(right) / double(n);
    evaluated_[prefix + "loss"] = loss / double(n);
  }

  void report(std::int64_t done) {
    images_ += std::min(config_.train.batch_size, data_.train.size());
    if (!options_.report || (seconds_since(reported_) < 0.2 && done < batches_.steps().total)) return;
    options_.report({done, batches_.steps().total, loss_, images_});
    images_ = 0;
    reported_ = Clock::now();
  }

  void save(MetricsLog& metrics) {
    metrics.sync();
    info_.metrics_bytes = metrics.bytes();
    info_.step = engine_.state().step;
    save_checkpoint(folder_.checkpoint(attempt_), engine_, info_);
  }

  void log_bad_images() {
    for (const ImageSet* set : {&data_.train, &data_.eval}) {
      for (const BadImage& bad : set->bad_images)
        bad_images_.push_back(fmt::format("{} {}: {}", set == &data_.train ? "train" : "eval", bad.key, bad.reason));
    }
    if (!bad_images_.empty())
      log(fmt::format("{} images cannot be decoded and are left out: {}", bad_images_.size(),
                      fmt::join(bad_images_, "; ")));
  }

  TrialResult result() const {
    TrialResult r;
    r.bad_images = bad_images_;
    r.id = info_.trial_id;
    r.seed = config_.seed;
    r.wall_seconds = info_.wall_seconds;
    r.resumed = info_.resumed;
    r.different_bits = info_.different_bits;
    r.provenance = {{"version", build_version()},
                    {"flags", build_flags()},
                    {"bits", info_.bits},
                    {"blas_core", blas_info().core},
                    {"blas_config", blas_info().config},
                    {"cpu", cpu_model()},
                    {"arithmetic", std::to_string(kArithmetic)},
                    {"data_hash", data_.train.hash + "+" + data_.eval.hash},
                    {"data", data_.train.provenance},
                    {"threads", std::to_string(options_.threads)},
                    {"data_threads", std::to_string(options_.data_threads)},
                    {"device", options_.backend->name()},
                    {"host", host_name()},
                    {"started", started_}};
    return r;
  }

  TrialOutcome publish(std::int64_t first_step) {
    TrialResult r = result();
    r.metrics = evaluated_;
    r.metrics["train/loss"] = train_loss_;
    const double images = double(batches_.steps().total * config_.train.batch_size);
    r.images_per_second = info_.wall_seconds > 0 ? images / info_.wall_seconds : 0.0;
    if (first_step == batches_.steps().total) {  // killed between the last checkpoint and the result
      const std::optional<MetricsLine> last = last_metrics_line(folder_.metrics(attempt_));
      if (last) r.metrics = last->values;
    }
    return publish(r);
  }

  TrialOutcome publish(const TrialResult& r) {
    if (folder_.publish_result(r)) return r.status == TrialEnd::done ? TrialOutcome::done : TrialOutcome::diverged;
    log("another process published a result first, which stays");
    return TrialOutcome::lost;
  }

  TrialOutcome abandon() {
    log("another process has taken the trial over, as it does where a lease has not moved; this attempt ends here");
    return TrialOutcome::lost;
  }

  TrialOutcome publish_divergence(std::int64_t step) {
    TrialResult r = result();
    r.status = TrialEnd::diverged;
    r.diverged_step = step;
    r.message = fmt::format("step {}: the loss or its gradient is not finite; first in {}", step, where_);
    return publish(r);
  }

  void log(const std::string& text) {
    LineFile file(folder_.log(attempt_));
    file.append(utc_time() + " " + text);
  }

  const TrialConfig& config_;
  const TrialOptions& options_;
  const DataPair& data_;
  const TrialFolder& folder_;
  const Claim& claim_;
  const std::int64_t attempt_;
  ShardPool pool_;
  Engine engine_;
  BatchSource batches_;
  BatchPipeline pipeline_;
  const Schedule schedule_;
  TrialProbes probes_;
  std::optional<MetricsLine> probed_;  // of the last step
  CheckpointInfo info_;
  std::string where_, started_;
  std::vector<std::string> bad_images_;
  double loss_ = 0.0, train_loss_ = 0.0;
  std::map<std::string, double> evaluated_;  // the last evaluation's metrics
  std::int64_t images_ = 0;
  Clock::time_point reported_ = Clock::now();
};

}  // namespace

TrialOutcome run_trial(const TrialConfig& config, const std::string& id, const DataPair& data,
                       const TrialFolder& folder, const Claim& claim, const TrialOptions& options) {
  return TrialRun(config, id, data, folder, claim, options).run();
}

}  // namespace normlab
