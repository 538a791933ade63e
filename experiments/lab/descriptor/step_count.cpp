#include "experiments/lab/descriptor/step_count.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

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

}  // namespace normlab
