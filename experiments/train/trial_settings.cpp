// From a descriptor's words to what computes.
#include "experiments/train/trial.h"

namespace normlab {

EngineSettings engine_settings(const TrialConfig& c) {
  const TrainConfig& t = c.train;
  EngineSettings s;
  s.dtype = dtype_of(t.precision);
  s.bf16_products = bf16_products_of(t.precision);
  s.tf32 = t.precision == Precision::tf32;
  s.loss = t.loss == LossName::softmax ? LossKind::softmax : LossKind::sigmoid;
  s.label_smoothing = t.label_smoothing;
  s.smooth_others = t.smoothing == Smoothing::others;
  s.max_batch = t.batch_size;
  s.drop_seed = c.seed;
  s.accumulate = t.accumulate;
  s.average = {t.ema.decay, t.ema.every_steps};
  const OptimizerConfig& o = t.optimizer;
  s.layer_decay = o.layer_decay;
  s.multipliers = o.multipliers;
  s.optimizer = {.name = o.name,
                 .beta1 = o.beta1,
                 .beta2 = o.beta2,
                 .eps = o.eps,
                 .momentum = o.momentum,
                 .nesterov = o.nesterov,
                 .weight_decay = o.weight_decay,
                 .decay_matrices_only = o.decay_matrices_only,
                 .bf16_moment = o.bf16_moment,
                 .moment_product = o.moment_product,
                 .clip_form = t.clip_form};
  return s;
}

ScheduleSettings schedule_settings(const TrainConfig& train, const StepCount& steps) {
  const ScheduleConfig& c = train.schedule;
  const std::int64_t meant_for = train.optimizer.lr_batch;
  const double scale = meant_for > 0 ? double(train.batch_size) / double(meant_for) : 1.0;
  return {.name = c.name,
          .lr = scale * train.optimizer.lr,
          .final_lr = c.final_lr,
          .total = steps.total,
          .warmup = steps.warmup,
          .warmup_form = c.warmup,
          .warmup_from = c.warmup_from,
          .decay_from = c.decay_from,
          .power = c.power,
          .timescale = c.timescale,
          .shift = c.shift,
          .cooldown = c.cooldown_steps,
          .decay_every = c.decay_every,
          .decay_factor = c.decay_factor,
          .factors = c.factors};
}

}  // namespace normlab
