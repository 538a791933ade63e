#include "nn/optimizer.h"

#include <algorithm>
#include <cmath>

namespace normlab {
namespace {
constexpr std::int64_t kBlock = 16384;  // elements; five float arrays of it fit the second-level cache
}  // namespace

Optimizer::Optimizer(Backend& backend, ParameterSet& parameters, const OptimizerSettings& settings)
    : backend_(backend), parameters_(parameters), settings_(settings) {
  moments_.push_back({"m", parameters.make_flat()});
  if (settings.kind == OptimizerKind::adamw) moments_.push_back({"v", parameters.make_flat()});
  decay_.assign(static_cast<std::size_t>(parameters.flat_size()), 0);
  for (const ParameterInfo& p : parameters.parameters())
    if (p.decays || !settings.decay_matrices_only)
      std::fill_n(decay_.begin() + p.offset, p.shape.size(), std::uint8_t{1});
}

void Optimizer::step(ShardPool& pool, StepState& state) {
  const std::int64_t n = parameters_.flat_size(), lanes = parameters_.lanes(), blocks = (n + kBlock - 1) / kBlock;
  const Tensor lane0 = parameters_.flat_lane(0);
  const ParameterSet::Update update = parameters_.update();
  const Tensor decay(decay_.data(), {n}, DType::u8);
  const auto part = [&](const Tensor& flat, std::int64_t b) {
    return flat.slice(b * kBlock, std::min(kBlock, n - b * kBlock));
  };
  const double square =
      pool.sum_blocks(blocks, [&](std::int64_t b) { return backend_.sum_lanes(lanes, n, part(lane0, b)); });
  state.grad_norm = std::sqrt(square);
  state.nonfinite = !std::isfinite(state.grad_norm);
  state.clip_factor = state.clip_norm > 0 ? std::min(1.0, state.clip_norm / (state.grad_norm + 1e-6)) : 1.0;
  const double t = double(state.step + 1);
  state.bias_correction1 = 1 - std::pow(settings_.adamw.beta1, t);
  state.bias_correction2 = 1 - std::pow(settings_.adamw.beta2, t);
  pool.for_blocks(blocks, [&](std::int64_t b) {
    if (settings_.kind == OptimizerKind::adamw)
      backend_.adamw(settings_.adamw, &state, part(lane0, b), part(decay, b), part(update.values, b),
                     part(moments_[0].flat, b), part(moments_[1].flat, b));
    else
      backend_.sgd(settings_.sgd, &state, part(lane0, b), part(decay, b), part(update.values, b),
                   part(moments_[0].flat, b));
    if (update.copy) backend_.round_to_bf16(part(update.values, b), part(update.copy, b));  // still in the cache
  });
}

double learning_rate(ScheduleKind kind, double lr, double final_lr, std::int64_t step, std::int64_t total,
                     std::int64_t warmup) {
  if (step < warmup) return lr * double(step + 1) / double(warmup + 1);
  const double progress =
      std::clamp(double(step - warmup) / double(std::max<std::int64_t>(total - warmup, 1)), 0.0, 1.0);
  switch (kind) {
    case ScheduleKind::constant:
      return lr;
    case ScheduleKind::linear:
      return lr + (final_lr - lr) * progress;
    case ScheduleKind::cosine:
      return final_lr + (lr - final_lr) * 0.5 * (1 + std::cos(M_PI * progress));
  }
  return lr;
}

}  // namespace normlab
