#include "nn/training/engine.h"

#include "core/backend.h"
#include "nn/model/freeze.h"
#include "nn/model/model.h"
#include "nn/model/text_tower.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

namespace normlab {
namespace {

/// `memory` as a tensor of another type; its elements may be smaller than doubles.
Tensor as_tensor(std::vector<double>& memory, const Shape& shape, DType dtype) {
  memory.resize(static_cast<std::size_t>(shape.size()));
  return Tensor(memory.data(), shape, dtype);
}

std::unique_ptr<Model> make_model_to_train(ParameterSet& parameters, const ModelConfig& config,
                                           const StepSettings& settings) {
  if (const auto* swin = std::get_if<SwinConfig>(&config); swin != nullptr && swin->one_side_unshifted)
    throw InputError(
        "model: is a Swin of an earlier version of normlab, in which a grid with one side of at most a window did not "
        "shift along the other side; this version shifts it and has no such network, so train it again");
  auto model = make_model(parameters, config);
  parameters.freeze(frozen_by(settings.freeze, parameters.parameters()));
  return model;
}

/// Those that training moves; `part`: images of a part of a step.
std::vector<RunningStatistic> running_statistics(const ModelConfig& config, const EngineSettings& settings,
                                                 const ParameterSet& parameters, std::int64_t part) {
  std::vector<RunningStatistic> out;
  for (const BatchStatistic& norm : batch_statistics(config, settings.freeze)) {
    const NormSpec& spec = *norm.spec;
    if (spec.momentum == 0) continue;  // never moves
    const bool of_parts = spec.running == RunningFrom::first_group;
    const std::int64_t updates = of_parts ? (settings.max_batch + part - 1) / part : 1;
    for (const auto& [last, initial] : {std::pair(".running_mean", kInitialMean), {".running_var", kInitialVariance}})
      out.push_back({parameters.find_buffer(norm.name + last), 1 - spec.momentum, initial, updates});
  }
  return out;
}

}  // namespace

Backend& in_precision(Backend& backend, Precision p) {
  if (p == Precision::tf32) return backend.with_tf32();
  if (!is_bf16(p)) return backend;
  return backend.with_bf16(p == Precision::bf16 ? Bf16Products::native : Bf16Products::emulated);
}

Engine::Engine(Backend& backend, ShardPool& pool, const ModelConfig& config, const EngineSettings& settings)
    : backend_(in_precision(backend, settings.precision)),
      one_thread_(1, pool.group()),
      pool_(backend.whole_batch() ? one_thread_ : pool),
      settings_(settings),
      config_(config),
      task_(row_of(task_of(config))),
      parameters_(backend.memory()),
      model_(make_model_to_train(parameters_, config, settings)),
      cut_{config_,
           parameters_.trained_size(),
           std::int64_t(size_of(dtype())),
           settings.max_batch,
           settings.accumulate,
           settings.images_per_shard,
           backend_.whole_batch() ? settings.device_shards : 0},
      runner_(backend_, pool_),
      recordings_(backend_) {
  const ShardPlan step = cut_.training(cut_.part_images(settings.max_batch));
  const bool few_buffers = group().alone() && !backend_.whole_batch();
  parameters_.allocate(acc_of(dtype()),
                       few_buffers ? gradient_buffers(step, settings.accumulate, pool_.threads())
                                   : ShardShare::lanes_here(group(), step.lanes, shards_meet(config)),
                       dtype() == DType::bf16, backend_.panel_rows(dtype()));
  optimizer_ = std::make_unique<Optimizer>(
      backend_, parameters_, settings.optimizer,
      update_factors(config, parameters_.parameters(), settings.optimizer.layer_decay, settings.optimizer.multipliers),
      settings.clip_form, group(), step.lanes);
  if (settings.ema.decay > 0)
    average_ = std::make_unique<WeightAverage>(
        backend_, parameters_, settings.ema,
        running_statistics(config, settings, parameters_, cut_.part_images(settings.max_batch)));
  state_.host.clip_norm = settings.clip_norm;
  backend_.synchronize();  // cleared memory is writable from here on
}

Engine::~Engine() { backend_.forget_reads(); }

void Engine::prepare(std::int64_t batch) {
  parameters_.refresh_copy(backend_, pool_);
  if (!prepared_.insert(batch).second) return;
  const std::int64_t images = cut_.training(batch).images;
  model_->prepare(backend_, images, dtype());
  if (batch % images != 0) model_->prepare(backend_, batch % images, dtype());
}

ShardShare Engine::share_of_part(const ShardPlan& plan, std::int64_t images, Pass pass) {
  const bool evaluates = pass == Pass::evaluation, rehearses = pass == Pass::rehearsal;
  return {rehearses ? group_of_one() : group(), plan, images, evaluates ? plan.lanes : step_lanes(),
          !evaluates && !rehearses && shards_meet(config_)};
}

std::vector<bool> Engine::images_read(std::int64_t images, bool training) {
  std::vector<bool> read(static_cast<std::size_t>(images));
  const std::int64_t part = training ? cut_.part_images(images) : images;
  for (std::int64_t first = 0; first < images; first += part) {
    const std::int64_t count = std::min(part, images - first);
    const ShardPlan plan = training ? cut_.training(count) : cut_.evaluation(count);
    share_of_part(plan, count, training ? Pass::training : Pass::evaluation).mark_images(read.begin() + first);
  }
  return read;
}

ShardShare Engine::run_part(const Part& part, const ShardPlan& plan, Pass pass,
                            FunctionRef<void(Workspace&, const BatchSlice&, const Var&, const Var&)> then,
                            const Observers* observers) {
  const std::int64_t images = part.images.shape()[0];
  ShardShare share = share_of_part(plan, images, pass);
  const bool training = pass != Pass::evaluation;
  const bool seen = !share.repeats();  // each image once among all processes
  const bool in_step = pass == Pass::training || pass == Pass::search;
  if (observers_ && seen && in_step) observers = &observers_;
  LaneSums& sums = optimizer_->lane_sums();
  const Step step{.parameters = parameters_,
                  .training = training,
                  .state = state_.device(),
                  .progress = state_.host.progress,
                  .drop_seed = settings_.drop_seed,
                  .part_begin = part.begin,
                  .step_images = part.step_images,
                  .rehearses = pass == Pass::rehearsal,
                  .spare_memory = training && plan.lockstep,
                  .observers = observers,
                  .without_layer = training ? 0 : without_layer_};
  const auto run_shard = [&](Workspace& w, const BatchSlice& slice) {
    const auto of_shard = [&](const Tensor& t) { return t.slice(slice.first_image, slice.images); };
    std::optional<Tape::Unrecorded> values_alone;
    if (!training) values_alone.emplace(w.tape);
    Shard shard{.step = step, .tape = w.tape, .slice = slice};
    const int number = slice.shards->rank();
    if (training) shard.lane = share.lane(number);
    std::optional<LaneSums::Use> use;
    if (in_step) {
      use.emplace(sums, shard.lane, number < plan.lanes, number + plan.lanes >= plan.shards);
      shard.lane = use->buffer();
    }
    // Takes memory, so it may throw. The lane has begun, so no other lane waits for it.
    if (pass == Pass::search) w.tape.guard();
    const Var input = w.tape.input(of_shard(part.images));
    const Var outputs =
        shard.show("outputs", part.images.dtype() == DType::i32
                                  ? shard.show("pre_logits", (*model_->text())(input.value(), dtype(), shard))
                              : input.shape().rank() == 2 ? model_->head(input, shard)
                                                          : (*model_)(input, shard));
    const auto targets = [&] { return of_shard(part.labels); };
    then(w, slice, outputs,
         part.labels ? task_.losses({.outputs = outputs,
                                     .targets = targets(),
                                     .settings = settings_,
                                     .shard = shard,
                                     .model = *model_,
                                     .weight = part.weight})
                     : Var());
  };
  runner_.run(plan, images, run_shard, share, in_step && sums.few());
  return share;
}

Tensor Engine::backward(Tape& tape, const Var& losses) const {
  const Tensor seed = tape.empty_like(losses.value());
  backend_.fill(seed, 1.0 / double(step_images_));
  tape.backward(losses, seed);
  return seed;
}

void Engine::rehearse(const DeviceBatch& batch) {
  const std::int64_t images = cut_.training(cut_.part_images(step_images_)).images;
  const bool alone = !has_text(config_);  // a loss over the whole batch cannot be rehearsed with one shard
  if (!alone || !model_->skips_dropped(backend_) || images <= rehearsed_) return;
  rehearsed_ = images;
  run_part({batch.images.slice(0, images), batch.labels.slice(0, images), 0, step_images_, step_weight_},
           {.images = images}, Pass::rehearsal,
           [&](Workspace& w, const BatchSlice&, const Var&, const Var& losses) { backward(w.tape, losses); });
}

void Engine::train_part(const Part& part, NonFinite* search) {
  const std::int64_t images = part.images.shape()[0];
  const ShardPlan plan = cut_.training(images);
  const Pass pass = search ? Pass::search : Pass::training;
  std::vector<NonFinite> findings(search ? static_cast<std::size_t>(plan.shards) : 0);
  const ShardShare share =
      run_part(part, plan, pass, [&](Workspace& w, const BatchSlice& slice, const Var& logits, const Var& losses) {
        backend_.copy_gradient(losses.value(), {step_losses_.slice(part.begin + slice.first_image, slice.images)});
        const Tensor seed = backward(w.tape, losses);
        w.addresses = {logits.value().raw(), losses.value().raw(), seed.raw(), w.tape.empty({1}, DType::f32).raw()};
        if (search) findings[static_cast<std::size_t>(slice.shards->rank())] = w.tape.nonfinite();
      });
  share.share_rows(step_losses_.slice(part.begin, images).raw(), size_of(step_losses_.dtype()),
                   backend_.exchange(group()));
  if (search && !*search) *search = first_finding(findings);
}

NonFinite Engine::first_finding(const std::vector<NonFinite>& findings) {
  const auto found = std::find_if(findings.begin(), findings.end(), [](const NonFinite& f) { return bool(f); });
  const std::vector<std::int64_t> all = group().gathered(std::int64_t(found - findings.begin()));
  const auto first = std::min_element(all.begin(), all.end());
  if (*first == std::ssize(findings)) return {};
  const int from = int(first - all.begin());
  const NonFinite here = found != findings.end() ? *found : NonFinite();
  return {group().shared_text(here.op, from), group().shared_text(here.site, from),
          group().shared(here.in_backward, from), group().shared(here.value, from)};
}

void Engine::begin_step(const DeviceBatch& batch, std::int64_t steps_done) {
  step_images_ = batch.images.shape()[0];
  step_weight_ = batch.targets > 0 ? double(step_images_) / double(batch.targets) : 0.0;
  if (!step_losses_ || step_losses_.size() < step_images_)
    step_losses_ = parameters_.make_zeroed({std::max(step_images_, settings_.max_batch)}, acc_of(dtype()));
  const std::int64_t part = cut_.part_images(step_images_);
  for (const std::int64_t at_once : {part, step_images_ % part})
    if (at_once > 0) prepare(at_once);
  optimizer_->begin_step(state_.host);
  state_.upload(backend_, steps_done);
}

void Engine::run_batch(const DeviceBatch& batch, NonFinite* search) {
  const std::int64_t part = cut_.part_images(step_images_);
  rehearse(batch);  // what this leaves in a lane is overwritten
  optimizer_->lane_sums().begin_step();
  for (std::int64_t first = 0; first < step_images_; first += part) {
    const std::int64_t count = std::min(part, step_images_ - first);
    train_part({batch.images.slice(first, count), batch.labels.slice(first, count), first, step_images_, step_weight_},
               search);
  }
  optimizer_->lane_sums().end_step();
}

Engine::DeviceBatch Engine::upload(Tensor images, Tensor labels) {
  const std::int64_t targets = task_.require(labels, config_, images.shape()[0]);
  return {backend_.upload(Upload::images, images), backend_.upload(Upload::targets, labels), targets};
}

double Engine::mean_loss() {
  const Tensor losses = as_tensor(losses_, {step_images_}, acc_of(dtype()));
  backend_.read(step_losses_.slice(0, step_images_), losses.raw());
  backend_.synchronize();
  double total = 0.0;
  first_nonfinite_loss_.reset();
  for (std::int64_t i = 0; i < step_images_; ++i) {
    const double loss = number_at(losses, i);
    if (!std::isfinite(loss) && !first_nonfinite_loss_) first_nonfinite_loss_ = i;
    total += loss;
  }
  return total / double(step_images_);
}

double Engine::forward_backward(Tensor images, Tensor labels) {
  const DeviceBatch batch = upload(images, labels);
  begin_step(batch, state_.host.step);
  run_batch(batch);
  return mean_loss();
}

void Engine::start_step(const DeviceBatch& batch) {
  std::int64_t& done = state_.host.step;
  if (average_ && done == 0) average_->start();  // before running statistics change
  begin_step(batch, done);
  const auto step = [&] {
    run_batch(batch);
    optimizer_->step(pool_, state_.device());
  };
  const bool same_weight = batch.targets == step_images_;  // a recording would repeat that of its own step
  if (observers_ || runner_.profiling() || !same_weight) {
    recordings_.clear();
    step();
  } else {
    recordings_.run(step_images_, {batch.images.raw(), batch.labels.raw(), state_.device()}, step);
  }
  ++done;
  if (average_) average_->step(pool_, done, state_.device());
}

double Engine::finish_step() {
  state_.read(backend_);
  const double loss = mean_loss();
  state_.take_results();
  return state_.host.nonfinite ? std::numeric_limits<double>::quiet_NaN() : loss;
}

NonFinite Engine::find_nonfinite(Tensor images, Tensor labels) {
  NonFinite found;
  const DeviceBatch batch = upload(images, labels);
  begin_step(batch, state_.host.step - 1);  // its masks are those of the previous step number
  run_batch(batch, &found);
  backend_.synchronize();
  return found;
}

std::optional<NonFiniteAnswer> Engine::evaluate(Tensor images, Tensor labels, std::span<double> losses,
                                                std::span<std::int32_t> predictions, std::span<double> logits) {
  if (task_.task != Task::classify) throw InputError("evaluate: only a classification has one answer for an image");
  const std::int64_t batch = images.shape()[0], classes = num_classes(config_);
  if (labels) task_.require(labels, config_, batch);
  prepare(batch);
  const Tensor all_logits = as_tensor(logits_, {batch, classes}, dtype()),
               all_losses = labels ? as_tensor(losses_, {batch}, acc_of(dtype())) : Tensor();
  const Part part{backend_.upload(Upload::evaluated_images, images),
                  labels ? backend_.upload(Upload::evaluated_targets, labels) : Tensor(), 0, batch};
  const ShardPlan plan = cut_.evaluation(batch);
  const ShardShare share =
      run_part(part, plan, Pass::evaluation,
               [&](Workspace&, const BatchSlice& slice, const Var& some_logits, const Var& some_losses) {
                 const auto of_shard = [&](const Tensor& t) { return t.slice(slice.first_image, slice.images).raw(); };
                 backend_.read(some_logits.value(), of_shard(all_logits));
                 if (some_losses) backend_.read(some_losses.value(), of_shard(all_losses));
               });
  backend_.synchronize();
  share.share_rows(all_logits.raw(), static_cast<std::size_t>(classes) * size_of(dtype()), group());
  if (labels) share.share_rows(all_losses.raw(), size_of(all_losses.dtype()), group());
  return write_answers(all_logits, all_losses, losses, predictions, logits);
}

void Engine::read_values(Tensor images, std::string_view wanted, std::vector<double>& out) {
  const std::int64_t batch = images.shape()[0];
  prepare(batch);
  const Part part{backend_.upload(Upload::evaluated_images, images), {}, 0, batch};
  std::mutex resizing;
  Observers observers;
  observers.value = [&](const Shard& shard, const std::string& name, const Var& value) {
    if (name != wanted) return;
    const BatchSlice& slice = shard.slice;
    const std::int64_t width = value.value().size() / slice.images;
    std::vector<double> copied;
    const Tensor of_shard = as_tensor(copied, {slice.images, width}, value.value().dtype());
    backend_.read(value.value(), of_shard.raw());
    backend_.synchronize();
    const std::lock_guard lock(resizing);
    out.resize(static_cast<std::size_t>(batch * width));
    for (std::int64_t i = 0; i < of_shard.size(); ++i)
      out[static_cast<std::size_t>(slice.first_image * width + i)] = number_at(of_shard, i);
  };
  const ShardShare share = run_part(
      part, cut_.evaluation(batch), Pass::evaluation, [](auto&&...) {}, &observers);
  out.resize(group().shared(out.size()));  // process 0 has a shard of every batch
  share.share_rows(out.data(), out.size() / static_cast<std::size_t>(batch) * sizeof(double), group());
}

bool Engine::state_is_finite() {
  if (!nonfinite_flag_) nonfinite_flag_ = parameters_.make_zeroed({1}, DType::i32);
  backend_.fill(nonfinite_flag_, 0);
  const auto check = [this](const Tensor& t) {
    if (t && t.size() > 0) backend_.check_finite(t, 1, nonfinite_flag_);
  };
  check(parameters_.update().values);
  check(parameters_.flat_buffers());
  const Stretch updated = optimizer_->updated_here();
  for (const Optimizer::Moment& moment : optimizer_->moments()) check(moment.flat.slice(updated.begin, updated.size()));
  if (average_) {
    check(average_->values());
    check(average_->buffers());
  }
  backend_.synchronize();
  const std::vector<std::int32_t> flags = group().gathered(*nonfinite_flag_.data<std::int32_t>());
  return std::all_of(flags.begin(), flags.end(), [](std::int32_t flag) { return flag == 0; });
}

}  // namespace normlab
