#include "nn/engine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/nonfinite.h"

namespace normlab {
namespace {

/// That many values of some type, in memory that has room for them.
Tensor room(std::vector<double>& memory, DType dtype) {
  return Tensor(memory.data(), {static_cast<std::int64_t>(memory.size())}, dtype);
}

double element(const Tensor& t, std::int64_t i) {
  switch (t.dtype()) {
    case DType::f64:
      return t.data<double>()[i];
    case DType::bf16:
      return double(float(t.data<bf16>()[i]));
    default:
      return double(t.data<float>()[i]);
  }
}

/// Kernels of a device cannot throw, so labels and soft targets are looked at while they are in the host's memory.
void require_targets(const Tensor& images, const Tensor& targets, std::int64_t classes) {
  const std::int64_t batch = images.shape()[0];
  const bool soft = targets.shape().rank() == 2;
  const Shape expected = soft ? Shape{batch, classes} : Shape{batch};
  if (targets.shape() != expected)
    throw InputError(concat(soft ? "targets is " : "labels is ", targets.shape().str(), ", expected ", expected.str()));
  for (std::int64_t i = 0; i < batch && !soft; ++i)
    if (const std::int32_t label = targets.data<std::int32_t>()[i]; label < 0 || label >= classes)
      throw InputError(
          concat("image ", i, " of the batch has label ", label, "; the network has ", classes, " classes"));
}

}  // namespace

Engine::Engine(Backend& backend, ShardPool& pool, const ModelConfig& config, const EngineSettings& settings)
    : backend_(settings.dtype == DType::bf16 ? backend.with_bf16(settings.bf16_products) : backend),
      pool_(pool),
      settings_(settings),
      config_(config),
      parameters_(backend.memory()),
      model_(make_model(parameters_, config)) {
  backend_.set_tf32(settings.tf32);
  parameters_.allocate(acc_of(settings.dtype), plan(part_images(settings.max_batch)).lanes,
                       settings.dtype == DType::bf16);
  optimizer_ = std::make_unique<Optimizer>(
      backend_, parameters_, settings.optimizer,
      update_factors(config, parameters_.parameters(), settings.layer_decay, settings.multipliers));
  if (settings.average.decay > 0) average_ = std::make_unique<WeightAverage>(backend_, parameters_, settings.average);
  backend_.synchronize();  // what was cleared may be written
}

void Engine::prepare(std::int64_t batch) {
  parameters_.refresh_copy(backend_);
  if (!prepared_.insert(batch).second) return;
  const ShardPlan p = plan(batch);
  model_->prepare(backend_, p.images, dtype());
  if (batch % p.images != 0) model_->prepare(backend_, batch % p.images, dtype());
}

std::int64_t Engine::part_images(std::int64_t batch) const {
  if (settings_.accumulate <= 1) return batch;
  return std::min(batch, std::max<std::int64_t>(1, settings_.max_batch / settings_.accumulate));
}

ShardPlan Engine::plan(std::int64_t batch) const {
  ShardPlan p = plan_shards(config_, batch, parameters_.flat_size(), std::int64_t(size_of(settings_.dtype)));
  if (backend_.whole_batch()) {
    p.images = batch;
    p.shards = p.lanes = 1;
    p.lockstep = false;
  } else if (settings_.images_per_shard > 0) {
    p.images = std::min(batch, settings_.images_per_shard);
    p.shards = (batch + p.images - 1) / p.images;
    p.lanes = std::min(p.lanes, p.shards);
    p.lockstep = uses_batch_norm(config_) && p.shards > 1;
  }
  if (parameters_.lanes() > 0) p.lanes = std::min(p.lanes, parameters_.lanes());
  return p;
}

/// The tape and arena of one shard while it runs. There are as many as shards run at a time, not one a lane: memory
/// that was just used is in a cache. Shards in lockstep are all alive, and each has its own.
class Engine::Lease {
 public:
  Lease(Engine& engine, const ShardPlan& plan, std::int64_t shard) : engine_(engine), shared_(!plan.lockstep) {
    if (!shared_) {
      workspace_ = engine.workspaces_[static_cast<std::size_t>(shard)].get();
      return;
    }
    std::lock_guard lock(engine.free_mutex_);
    workspace_ = engine.free_.back();
    engine.free_.pop_back();
  }
  ~Lease() {
    if (!shared_) return;
    std::lock_guard lock(engine_.free_mutex_);
    engine_.free_.push_back(workspace_);
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Workspace& operator*() const { return *workspace_; }

 private:
  Engine& engine_;
  const bool shared_;
  Workspace* workspace_;
};

void Engine::make_workspaces(std::int64_t count) {
  while (static_cast<std::int64_t>(workspaces_.size()) < count) {
    workspaces_.push_back(std::make_unique<Workspace>(backend_));
    free_.push_back(workspaces_.back().get());
  }
}

Var Engine::loss(const Var& logits, Tensor labels) const {
  const bool soft = labels.shape().rank() == 2;
  const Targets targets{soft ? Tensor() : labels, soft ? labels : Tensor(), settings_.label_smoothing,
                        settings_.smooth_others};
  return settings_.loss == LossKind::softmax ? softmax_cross_entropy(logits, targets)
                                             : sigmoid_cross_entropy(logits, targets);
}

void Engine::train_shard(Collective& shards, const ShardPlan& plan, const Part& part, bool guard, NonFinite* found) {
  const std::int64_t batch = part.images.shape()[0], shard = shards.rank(), first = shard * plan.images;
  const std::int64_t count = std::min(plan.images, batch - first), lane = shard % plan.lanes;
  const Lease lease(*this, plan, shard);
  Workspace& w = *lease;
  w.tape.set_profile(profiling_ ? &w.profile : nullptr);
  w.tape.reset();
  if (guard) w.tape.guard();
  Context ctx{w.tape, parameters_, lane, true, {count, first, batch, &shards}, device_state_, settings_.drop_seed};
  ctx.part_begin = part.begin;
  ctx.step_images = part.step_images;
  std::map<std::string, Tensor> masks;
  if (masks_) {
    for (const auto& [name, mask] : *masks_) masks[name] = mask.slice(part.begin + first, count);
    ctx.masks = &masks;
  }
  if (probe_) probe_->observe(ctx);
  const Var logits = (*model_)(w.tape.input(part.images.slice(first, count)), ctx);
  const Var losses = loss(logits, part.labels.slice(first, count));
  Tensor seed = w.tape.empty_like(losses.value());
  backend_.fill(seed, 1.0 / double(part.step_images));
  backend_.copy_gradient(losses.value(), {step_losses_.slice(part.begin + first, count), Write::assign});
  w.tape.backward(losses, seed);
  w.addresses = {logits.value().raw(), losses.value().raw(), seed.raw(), w.tape.empty({1}, DType::f32).raw()};
  if (guard) *found = w.tape.nonfinite();
}

void Engine::even_out_arenas() {
  // Which workspace met which shard was chance: the others may meet the same one in the next step.
  const auto largest = std::max_element(workspaces_.begin(), workspaces_.end(), [](const auto& a, const auto& b) {
    return a->arena.reserved() < b->arena.reserved();
  });
  for (const auto& w : workspaces_) w->arena.grow_like((*largest)->arena);
}

void Engine::even_out_threads() {
  if (backend_.thread_memory() == thread_memory_) return;
  pool_.on_each_thread([this] { backend_.even_out_thread_memory(); });
  thread_memory_ = backend_.thread_memory();
}

void Engine::run_part(const Part& part, bool guard, NonFinite* found) {
  const std::int64_t batch = part.images.shape()[0];
  const ShardPlan p = plan(batch);
  make_workspaces(p.lockstep ? p.shards : std::min<std::int64_t>(p.lanes, pool_.threads()));
  std::vector<NonFinite> findings(guard ? static_cast<std::size_t>(p.shards) : 0);
  pool_.run(static_cast<int>(p.shards), static_cast<int>(p.lanes), p.lockstep, [&](Collective& shards) {
    train_shard(shards, p, part, guard, guard ? &findings[static_cast<std::size_t>(shards.rank())] : nullptr);
  });
  if (!p.lockstep) even_out_arenas();
  even_out_threads();
  for (const NonFinite& f : findings)
    if (f && !*found) *found = f;
}

void Engine::begin(const Brought& batch) {
  step_images_ = batch.images.shape()[0];
  if (!step_losses_ || step_losses_.size() < step_images_)
    step_losses_ = parameters_.make_zeroed({std::max(step_images_, settings_.max_batch)}, acc_of(dtype()));
  const std::int64_t part = part_images(step_images_);
  for (const std::int64_t at_once : {part, step_images_ % part})
    if (at_once > 0) prepare(at_once);
  optimizer_->begin_step(state_);
  const Tensor state = backend_.upload(Upload::state, Tensor(&state_, {sizeof(StepState)}, DType::u8));
  device_state_ = reinterpret_cast<StepState*>(state.data<std::uint8_t>());
}

void Engine::run_batch(const Brought& batch, bool guard, NonFinite* found) {
  const std::int64_t images = batch.images.shape()[0], part = part_images(images);
  parameters_.begin_step();
  for (std::int64_t first = 0; first < images; first += part) {
    const std::int64_t count = std::min(part, images - first);
    run_part({batch.images.slice(first, count), batch.labels.slice(first, count), first, images}, guard, found);
  }
  parameters_.end_step();
}

void Engine::run_step(const Brought& batch) {
  const auto ask = [&] {
    run_batch(batch, false, nullptr);
    optimizer_->step(pool_, device_state_);
  };
  const bool looked_at = probe_ || masks_ || profiling_;
  if (looked_at || recorded_batch_ != step_images_ || recorded_memory_ != backend_.thread_memory()) {
    recordings_.clear();
    ask();
    recorded_batch_ = looked_at ? 0 : step_images_;  // what it needs is there now, so the next may be recorded
    recorded_memory_ = backend_.thread_memory();
    return;
  }
  auto& recording = recordings_[{batch.images.raw(), batch.labels.raw(), device_state_}];
  if (!recording) recording = backend_.record(ask);
  if (recording)
    recording->replay();
  else
    ask();
}

Engine::Brought Engine::bring(Tensor images, Tensor labels) {
  require_targets(images, labels, num_classes(config_));
  return {backend_.upload(Upload::images, images), backend_.upload(Upload::targets, labels)};
}

double Engine::mean_loss(std::int64_t batch) {
  losses_.resize(static_cast<std::size_t>(batch));
  backend_.read(step_losses_.slice(0, batch), losses_.data());
  backend_.synchronize();
  const Tensor losses = room(losses_, acc_of(dtype()));
  double total = 0.0;
  first_nonfinite_loss_.reset();
  for (std::int64_t i = 0; i < batch; ++i) {
    const double loss = element(losses, i);
    if (!std::isfinite(loss) && !first_nonfinite_loss_) first_nonfinite_loss_ = i;
    total += loss;
  }
  return total / double(batch);
}

double Engine::forward_backward(Tensor images, Tensor labels) {
  const Brought batch = bring(images, labels);
  begin(batch);
  run_batch(batch, false, nullptr);
  return mean_loss(step_images_);
}

void Engine::sum_gradients() {
  optimizer_->sum_gradients(pool_);
  backend_.synchronize();
}

void Engine::start_step(const Brought& batch) {
  if (average_ && state_.step == 0) average_->start();  // before running statistics change
  begin(batch);
  run_step(batch);
  ++state_.step;
  if (average_) average_->step(pool_, state_.step, device_state_);
}

double Engine::finish_step() {
  StepState after;
  if (device_state_ != &state_) backend_.read(Tensor(device_state_, {sizeof(StepState)}, DType::u8), &after);
  const double loss = mean_loss(step_images_);
  if (device_state_ != &state_) {
    state_.grad_norm = after.grad_norm;
    state_.clip_factor = after.clip_factor;
    state_.nonfinite = after.nonfinite;
  }
  return state_.nonfinite ? std::numeric_limits<double>::quiet_NaN() : loss;
}

NonFinite Engine::find_nonfinite(Tensor images, Tensor labels) {
  NonFinite found;
  --state_.step;  // of whose masks it was
  const Brought batch = bring(images, labels);
  begin(batch);
  run_batch(batch, true, &found);
  backend_.synchronize();
  ++state_.step;
  return found;
}

std::optional<NonFiniteAnswer> Engine::evaluate(Tensor images, Tensor labels, std::span<double> losses,
                                                std::span<std::int32_t> predictions, std::span<double> logits_out) {
  const std::int64_t batch = images.shape()[0], classes = num_classes(config_);
  if (labels) require_targets(images, labels, classes);
  prepare(batch);
  ShardPlan p = plan(batch);
  p.lanes = std::min<std::int64_t>(p.shards, 8);
  p.lockstep = false;
  make_workspaces(std::min<std::int64_t>(p.lanes, pool_.threads()));
  losses_.resize(static_cast<std::size_t>(batch));
  logits_.resize(static_cast<std::size_t>(batch * classes));
  const Tensor all_losses = room(losses_, acc_of(dtype())), all_logits = room(logits_, dtype());
  const Tensor image_values = backend_.upload(Upload::evaluated_images, images),
               targets = labels ? backend_.upload(Upload::evaluated_targets, labels) : Tensor();
  pool_.run(static_cast<int>(p.shards), static_cast<int>(p.lanes), false, [&](Collective& shards) {
    const std::int64_t first = shards.rank() * p.images, count = std::min(p.images, batch - first);
    const Lease lease(*this, p, shards.rank());
    Workspace& w = *lease;
    w.tape.reset();
    const Tape::Unrecorded values_alone(w.tape);
    const Context ctx{w.tape,        parameters_,        -1, false, {count, first, batch, &shards},
                      device_state_, settings_.drop_seed};
    const Var logits = (*model_)(w.tape.input(image_values.slice(first, count)), ctx);
    backend_.read(logits.value(), all_logits.slice(first * classes, count * classes).raw());
    if (targets) backend_.read(loss(logits, targets.slice(first, count)).value(), all_losses.slice(first, count).raw());
  });
  backend_.synchronize();
  std::optional<NonFiniteAnswer> found;
  const auto see = [&](std::int64_t image, std::int64_t logit, double value) {
    if (!found && !std::isfinite(value)) found = NonFiniteAnswer{image, logit, value};
    return std::isfinite(value);
  };
  for (std::int64_t i = 0; i < batch; ++i) {
    const auto at = static_cast<std::size_t>(i);
    std::int64_t best = 0;
    bool finite = true;
    for (std::int64_t c = 0; c < classes; ++c) {
      const double z = element(all_logits, i * classes + c);
      finite = see(i, c, z) && finite;
      if (z > element(all_logits, i * classes + best)) best = c;
      if (!logits_out.empty()) logits_out[static_cast<std::size_t>(i * classes + c)] = z;
    }
    if (targets) {
      losses[at] = element(all_losses, i);
      finite = see(i, -1, losses[at]) && finite;
    }
    predictions[at] = finite ? static_cast<std::int32_t>(best) : -1;
  }
  even_out_arenas();
  even_out_threads();
  return found;
}

std::string NonFiniteAnswer::text() const {
  return logit < 0 ? concat("the loss is ", nonfinite_word(value))
                   : concat("the logit of class ", logit, " is ", nonfinite_word(value));
}

bool Engine::state_is_finite() {
  if (!flag_) flag_ = parameters_.make_zeroed({1}, DType::i32);
  backend_.fill(flag_, 0);
  const auto see = [this](const Tensor& t) {
    if (t && t.size() > 0) backend_.check_finite(t, 1, flag_);
  };
  see(parameters_.update().values);
  see(parameters_.flat_buffers());
  for (const Optimizer::Moment& moment : optimizer_->moments()) see(moment.flat);
  if (average_) {
    see(average_->values());
    see(average_->buffers());
  }
  backend_.synchronize();
  return *flag_.data<std::int32_t>() == 0;
}

void Engine::set_profiling(bool on) {
  profiling_ = on;
  for (const auto& w : workspaces_) w->profile.clear();
}

Profile Engine::profile() const {
  Profile all;
  for (const auto& w : workspaces_) all.add(w->profile);
  return all;
}

std::size_t Engine::arena_bytes() const {
  std::size_t total = 0;
  for (const auto& w : workspaces_) total += w->arena.reserved();
  return total;
}

std::vector<const void*> Engine::last_addresses() const {
  std::vector<const void*> all;
  for (const auto& w : workspaces_) all.insert(all.end(), w->addresses.begin(), w->addresses.end());
  return all;
}

}  // namespace normlab
