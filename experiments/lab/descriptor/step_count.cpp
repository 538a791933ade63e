#include "experiments/lab/descriptor/step_count.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/kernels.h"
#include "nn/model/model.h"
#include "nn/training/shard_plan.h"

namespace normlab {
namespace {

std::int64_t rounded(double steps) {
  constexpr double kMost = 9e15;  // a finite limit for values that earlier versions accepted
  return std::llround(std::min(steps, kMost));
}

StepCount count(const TrainConfig& train, std::int64_t images) {
  StepCount steps;
  steps.per_epoch = train.drop_last ? images / train.batch_size : (images + train.batch_size - 1) / train.batch_size;
  const double per_epoch = double(steps.per_epoch);
  steps.total = train.images > 0  ? rounded(double(train.images) / double(train.batch_size))
                : train.steps > 0 ? train.steps
                                  : rounded(train.epochs * per_epoch);
  steps.warmup =
      train.schedule.warmup_steps > 0 ? train.schedule.warmup_steps : rounded(train.schedule.warmup_epochs * per_epoch);
  if (train.eval_every_epochs > 0)
    steps.eval_every = std::max<std::int64_t>(1, rounded(train.eval_every_epochs * per_epoch));
  return steps;
}

/// `see` gets all batch norms of the model.
template <class Visitor>
void visit_batch_norms(ModelConfig& model, Visitor&& see) {
  const auto see_spec = [&](const SiteRow&, NormSpec& spec) {
    if (parts_of(spec.kind).over == Statistics::batch) see(spec);
  };
  visit_all_sites(network(model).placement, see_spec);
  if (auto* vit = std::get_if<ViTConfig>(&model)) visit_all_sites(vit->text.placement, see_spec);
}

bool has_several_groups(const NormSpec& spec, const TrainConfig& train) {
  const bool grouped = spec.statistics_batch > 0 && spec.statistics_batch < train.batch_size;
  return train.accumulate > 1 || grouped;
}

/// A batch norm, and how few images one of its statistics covers in a batch of that many.
struct Fewest {
  std::int64_t batch = 0, part = 0, group = 0;  // images
};
Fewest fewest_images(const TrainConfig& train, const ModelConfig& model, std::int64_t statistics_batch,
                     std::int64_t batch) {
  const std::int64_t whole = BatchCut{model, 0, 0, train.batch_size, train.accumulate, 0, 0}.part_images(batch);
  Fewest fewest{batch, whole, whole};
  for (const std::int64_t part : {whole, batch % whole}) {
    const BatchNormDims dims{.images = part,
                             .rows_per_image = 1,
                             .cols = 1,
                             .first_image = 0,
                             .batch = part,
                             .statistics_batch = statistics_batch,
                             .eps = 0,
                             .momentum = 0};
    if (part > 0 && dims.smallest_group() < fewest.group) fewest = {batch, part, dims.smallest_group()};
  }
  return fewest;
}

std::string counted(std::int64_t images) { return concat(images, images == 1 ? " image" : " images"); }

/// A statistic of one image in an epoch's last batch, or in every batch.
StepProblem one_value(const TrialConfig& trial, const BatchStatistic& norm, const Fewest& found,
                      std::optional<std::int64_t> images) {
  const TrainConfig& train = trial.train;
  const bool last = found.batch != train.batch_size;
  std::string where = last ? concat(*images, *images == 1 ? " training image" : " training images", " in batches of ",
                                    train.batch_size, " leave a last batch of ", found.batch)
                           : concat("a batch has ", counted(found.batch));
  if (train.accumulate > 1) where += concat(", train.accumulate leaves parts of ", found.part);
  if (found.group < found.part) where += concat(", statistics_batch ", norm.spec->statistics_batch, " a group of 1");
  StepProblem problem{"train.batch_size", {}};
  std::string advice = "raise train.batch_size";
  if (last) {
    problem.key = "train.drop_last";
    advice = "set train.drop_last to true, or another train.batch_size";
  } else if (found.group < found.part) {
    problem.key = "model.placement";
    advice = "raise statistics_batch";
  } else if (train.accumulate > 1) {
    problem.key = "train.accumulate";
    advice = "lower train.accumulate";
  }
  problem.what =
      concat("the batch norm ", norm.name, " would see one value per channel, which has no variance: it has one row ",
             "per image, and ", where, "; ", advice);
  return problem;
}

}  // namespace

std::optional<StepProblem> problem_of_steps(const TrainConfig& train, std::int64_t images) {
  const StepCount steps = count(train, images);
  if (steps.per_epoch < 1)
    return {{"batch_size", concat(train.batch_size, " is more than the ", images,
                                  " training images; lower it, or set train.drop_last to false")}};
  if (steps.total < 1 && train.images > 0)
    return {{"images", concat(train.images, " images round to 0 steps of ", train.batch_size, " images; raise it")}};
  if (steps.total < 1)
    return {{"epochs", concat(train.epochs, " epochs of ", steps.per_epoch, " steps round to 0 steps; raise it")}};
  if (train.schedule.cooldown_steps > steps.total)
    return {{"schedule.cooldown_steps",
             concat(train.schedule.cooldown_steps, " is more than the ", steps.total, " steps of the training")}};
  const std::vector<double>& milestones = train.schedule.milestones;
  if (!milestones.empty() && milestones.back() * double(steps.per_epoch) >= double(steps.total))
    return {{"schedule.milestones", concat("the training ends before epoch ", milestones.back(), ", after ",
                                           steps.total, " steps of ", steps.per_epoch, " an epoch; remove it")}};
  if (train.ema.decay > 0 && train.ema.every_steps > steps.total)
    return {{"ema.every_steps", concat(train.ema.every_steps, " is more than the ", steps.total,
                                       " steps of the training, so the average would keep its initial value")}};
  return std::nullopt;
}

std::optional<StepProblem> problem_of_warmup(const TrainConfig& train, std::int64_t images) {
  const StepCount steps = count(train, images);
  if (problem_of_steps(train, images) || steps.warmup <= steps.total) return std::nullopt;
  const bool in_steps = train.schedule.warmup_steps > 0;
  const std::string length = in_steps ? std::to_string(steps.warmup)
                                      : concat(train.schedule.warmup_epochs, " epochs, ", steps.warmup, " steps,");
  return {{in_steps ? "schedule.warmup_steps" : "schedule.warmup_epochs",
           concat(length, " is more than the ", steps.total,
                  " steps of the training, so the rate would never reach lr; shorten the warm-up")}};
}

StepCount count_steps(const TrainConfig& train, std::int64_t images) {
  if (const auto problem = problem_of_steps(train, images))
    throw InputError(concat("train.", problem->key, ": ", problem->what));
  return count(train, images);
}

void settle_running(TrialConfig& trial, RunningFrom moot) {
  std::set<const NormSpec*> moved;
  bool any = false;
  visit_batch_norms(trial.model, [&](const NormSpec& spec) { any = any || has_several_groups(spec, trial.train); });
  if (any)
    for (const BatchStatistic& norm : batch_statistics(trial.model, trial.train.freeze))
      if (has_several_groups(*norm.spec, trial.train)) moved.insert(norm.spec);
  visit_batch_norms(trial.model, [&](NormSpec& spec) {
    if (!moved.contains(&spec))
      spec.running = moot;
    else if (spec.running == RunningFrom::first_group_of_step && trial.train.accumulate <= 1)
      spec.running = RunningFrom::first_group;
  });
}

void set_running(ModelConfig& model, RunningFrom to) {
  visit_batch_norms(model, [&](NormSpec& spec) { spec.running = to; });
}

std::optional<StepProblem> problem_of_statistics(const TrialConfig& trial, std::optional<std::int64_t> images) {
  const TrainConfig& train = trial.train;
  std::vector<std::int64_t> batches;
  if (!images || *images >= train.batch_size) batches.push_back(train.batch_size);
  if (images && !train.drop_last && *images % train.batch_size > 0) {
    const StepCount steps = count_steps(train, *images);
    if (steps.total >= steps.per_epoch) batches.push_back(*images % train.batch_size);
  }
  for (const BatchStatistic& norm : batch_statistics(trial.model, train.freeze))
    for (const std::int64_t batch : batches)
      if (const Fewest found = fewest_images(train, trial.model, norm.spec->statistics_batch, batch);
          found.group * norm.rows < 2)
        return one_value(trial, norm, found, images);
  return std::nullopt;
}

bool statistics_need_images(const TrialConfig& trial) {
  const std::vector<BatchStatistic> norms = batch_statistics(trial.model, trial.train.freeze);
  return !trial.train.drop_last &&
         std::any_of(norms.begin(), norms.end(), [](const auto& norm) { return norm.rows < 2; });
}

void require_trainable(const TrialConfig& trial, std::int64_t images) {
  auto problem = problem_of_steps(trial.train, images);
  if (!problem) problem = problem_of_warmup(trial.train, images);
  if (problem) throw InputError(concat("train.", problem->key, ": ", problem->what));
  if (const auto one = problem_of_statistics(trial, images)) throw InputError(concat(one->key, ": ", one->what));
}

}  // namespace normlab
