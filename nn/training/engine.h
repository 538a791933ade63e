// One network with all state of its training steps: parameters, optimiser, shard runner. It knows no files and no
// data sets.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "nn/model/model.h"
#include "nn/probes/probes.h"
#include "nn/training/answers.h"
#include "nn/training/device_step.h"
#include "nn/training/optimizer.h"
#include "nn/training/shard_runner.h"
#include "nn/training/task.h"
#include "nn/training/update_factors.h"
#include "nn/training/weight_average.h"

namespace normlab {

class Engine {
 public:
  /// Parameters are zero until initialise() or a checkpoint fills them. `pool` and `backend` must outlive the engine.
  /// Throws EnvironmentError if `backend` has no instructions for the products in `settings`.
  /// All processes of the pool's group make the same calls with the same arguments, which give the same results in each,
  /// with the bits of a single process. They divide shards and updates.
  Engine(Backend& backend, ShardPool& pool, const ModelConfig& config, const EngineSettings& settings);
  /// After a step that threw, forgets what its probes were to read.
  ~Engine();

  /// Forward, backward, clipping and update on one batch in host memory: images [B, H, W, C] in dtype(); labels i32 [B]
  /// or soft targets [B, classes] in acc_of(dtype()), here and below. The features() of images [B, width] in dtype()
  /// may take their place: then only the head runs. The caller sets state().lr and, for Big Vision's optimisers,
  /// state().schedule. state().clip_norm starts from the settings, and state().step counts up. Returns the mean loss,
  /// or NaN after a non-finite gradient, which leaves the parameters unchanged. Throws InputError for a label out of
  /// range.
  ///
  /// With gradient accumulation the parts of a batch run one after another and their gradients are summed. Loss and
  /// update cover the whole batch, but batch norms see one part at a time and update their running statistics for
  /// each part.
  double train_step(Tensor images, Tensor labels) {
    start_step(upload(images, labels));
    return finish_step();
  }
  /// train_step() in three parts, so that an asynchronous device receives its next batch while it works: upload a
  /// batch, start its step, upload the next batch, then finish the step, which waits. If whole_batch() is false, the
  /// uploaded batch is `images` and `labels` themselves, which must then stay valid until the step is finished.
  struct DeviceBatch {
    Tensor images, labels;
    std::int64_t targets = 0;  // that its loss is a mean over
  };
  DeviceBatch upload(Tensor images, Tensor labels);
  Backend& backend() const { return backend_; }
  void start_step(const DeviceBatch& batch);
  double finish_step();
  /// Forward and backward only. The gradients stay in the lanes; sum_gradients() sums them into lane 0.
  double forward_backward(Tensor images, Tensor labels);
  /// The first image with a non-finite loss in the last step or forward_backward().
  std::optional<std::int64_t> first_nonfinite_loss() const { return first_nonfinite_loss_; }
  void sum_gradients() { optimizer_->sum_gradients(pool_); }
  /// After a non-finite step: repeats it with the same masks, checks every value, and returns where the first
  /// non-finite value appeared.
  NonFinite find_nonfinite(Tensor images, Tensor labels);

  /// Evaluates B images by task classify: writes losses [B] without label smoothing, predicted classes [B] and, if
  /// `logits` is given, logits [B, num_classes]. Computes no loss if `labels` is an empty tensor. Returns none if all
  /// logits and losses are finite. Otherwise returns the first image's non-finite value; every such image is predicted
  /// as -1, and no output may be used as a result.
  [[nodiscard]] std::optional<NonFiniteAnswer> evaluate(Tensor images, Tensor labels, std::span<double> losses,
                                                        std::span<std::int32_t> predictions,
                                                        std::span<double> logits = {});
  /// The inputs of the head for B images, as in evaluation: after pooling, its norm and the representation layer.
  /// Writes [B, width]. For texts i32 [B, length] the vectors of the text tower.
  void features(Tensor images, std::vector<double>& out) { read_values(images, "pre_logits", out); }
  /// What the network makes of B images in evaluation: its logits, image by image.
  void outputs(Tensor images, std::vector<double>& out) { read_values(images, "outputs", out); }
  /// Whether everything that the next step reads is finite: parameters, running statistics, moments, weight average.
  bool state_is_finite();
  Group& group() { return pool_.group(); }
  /// Which of the images of a step, or of an evaluation, this process reads.
  std::vector<bool> images_read(std::int64_t images, bool training);

  ParameterSet& parameters() { return parameters_; }
  Optimizer& optimizer() { return *optimizer_; }
  /// The weight average, which starts with the first step; null without one.
  WeightAverage* average() { return average_.get(); }
  StepState& state() { return state_.host; }
  const ModelConfig& config() const { return config_; }
  DType dtype() const { return dtype_of(settings_.precision); }
  /// Measures time per operation, summed over all threads, until switched off.
  void set_profiling(bool on) { runner_.set_profiling(on); }
  Profile profile() const { return runner_.profile(); }
  /// Prepares steps or evaluations of `batch` images, so that they allocate nothing.
  /// Without this call the first one prepares them.
  void prepare(std::int64_t batch);
  std::size_t arena_bytes() const { return runner_.arena_bytes(); }
  /// Adds observers to the following training batches without changing a bit of any step; none stop.
  void use_probe(Observers observers) { observers_ = std::move(observers); }
  /// The following evaluations leave out this block, counted from 0 over all stages; none: they run all.
  void leave_out_block(std::optional<std::int64_t> block) { without_layer_ = block ? *block + 1 : 0; }
  /// Addresses of some tensors of the last step, for the test that steps repeat them.
  std::vector<const void*> last_addresses() const { return runner_.last_addresses(); }

 private:
  /// Images that pass through the network together: a whole evaluation batch or step, or the part of a step that starts
  /// at image `begin`. `labels` may be an empty tensor.
  struct Part {
    Tensor images, labels;
    std::int64_t begin, step_images;
    double weight = 1;  // see LossCall
  };
  /// search: training under the tape's guard. rehearsal: training that only claims memory, see Step::rehearses.
  enum class Pass : std::uint8_t { evaluation, training, search, rehearsal };
  using Workspace = ShardRunner::Workspace;
  /// Runs the network and the loss on each shard of a part, then calls `then` with logits [images, classes] and losses
  /// [images] (Var() without labels). `observers`: null for those of
  /// use_probe() in training. Returns the shards that ran here.
  ShardShare run_part(const Part& part, const ShardPlan& plan, Pass pass,
                      FunctionRef<void(Workspace&, const BatchSlice&, const Var& logits, const Var& losses)> then,
                      const Observers* observers = nullptr);
  /// The lanes of a step of max_batch images.
  std::int64_t step_lanes() const { return cut_.training(cut_.part_images(settings_.max_batch)).lanes; }
  ShardShare share_of_part(const ShardPlan& plan, std::int64_t images, Pass pass);
  /// The first finding of all processes, by shard.
  NonFinite first_finding(const std::vector<NonFinite>& findings);
  /// Runs the backward pass of a shard's losses, whose mean over the whole step is the step's loss. Returns the
  /// gradient that it starts from.
  Tensor backward(Tape& tape, const Var& losses) const;
  /// The value that the network shows under `name`, or its "outputs", for each of the images in evaluation, in order.
  void read_values(Tensor images, std::string_view name, std::vector<double>& out);
  /// Claims the most memory that a step of that batch can need where drop-path makes the amount vary.
  void rehearse(const DeviceBatch& batch);
  /// Forward and backward of one part. Stores the first non-finite value in `search`, if given.
  void train_part(const Part& part, NonFinite* search);
  /// Prepares a step of `batch` after `steps_done` steps.
  void begin_step(const DeviceBatch& batch, std::int64_t steps_done);
  /// Starts forward and backward of a step. step_losses_ is readable once the device has synchronised.
  void run_batch(const DeviceBatch& batch, NonFinite* search = nullptr);
  double mean_loss();

  Backend& backend_;
  ShardPool one_thread_;  // starts the kernels of a device, which keep the order of their calls
  ShardPool& pool_;
  EngineSettings settings_;
  const ModelConfig config_;
  const TaskRow& task_;
  ParameterSet parameters_;
  const std::unique_ptr<Model> model_;
  const BatchCut cut_;
  ShardRunner runner_;
  StepRecordings recordings_;
  DeviceState state_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<WeightAverage> average_;
  Tensor step_losses_;                   // of a step's batch, in the backend's memory
  Tensor nonfinite_flag_;                // i32 [1] of state_is_finite(), likewise
  std::int64_t step_images_ = 0;         // in the last step
  double step_weight_ = 1;               // LossCall's in the last step
  std::vector<double> losses_, logits_;  // host copies for one batch, in the device's types
  std::optional<std::int64_t> first_nonfinite_loss_;
  std::set<std::int64_t> prepared_;  // batch sizes
  std::int64_t rehearsed_ = 0;       // images per shard
  Observers observers_;
  std::int64_t without_layer_ = 0;
};

}  // namespace normlab
