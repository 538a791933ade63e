// One network with everything that a step of it needs: parameters, optimiser, the runner of shards. It knows nothing of
// files or data sets.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "nn/answers.h"
#include "nn/device_step.h"
#include "nn/model.h"
#include "nn/optimizer.h"
#include "nn/probes.h"
#include "nn/shard_runner.h"
#include "nn/update_factors.h"
#include "nn/weight_average.h"

namespace normlab {

class Engine {
 public:
  /// Parameters are zero until initialise() or a checkpoint fills them. `pool` and `backend` must outlive the engine.
  /// Throws EnvironmentError where `backend` has no instructions for the products that `settings` ask for.
  Engine(Backend& backend, ShardPool& pool, const ModelConfig& config, const EngineSettings& settings);

  /// Forward, backward, clip and update on one batch: images [B, H, W, C] in dtype(), labels i32 [B] or, here and
  /// below, soft targets [B, classes] in the type of statistics (acc_of(dtype())), all in memory of the host whatever
  /// the device. state().lr is set by the caller, for Big Vision's optimisers state().schedule too; state().clip_norm
  /// begins as the settings say; state().step counts up. Returns the mean loss, or NaN where the gradient was not
  /// finite; parameters are then as before. InputError for a label that is no class.
  /// Accumulation: the parts of the batch go through one after the other and their gradients are added up; loss and
  /// update are those of the whole batch, but batch norms see a part at a time and take its statistics into the running
  /// ones each time.
  double train_step(Tensor images, Tensor labels) {
    start_step(upload(images, labels));
    return finish_step();
  }
  /// The same in three parts, so that a device which works on its own gets its next batch in the meantime: upload one,
  /// start its step, upload the next, and finish the step, which waits. Where the device is the host (its whole_batch()
  /// is false) the uploaded batch is `images` and `labels` themselves, which must stay until then.
  struct DeviceBatch {
    Tensor images, labels;
  };
  DeviceBatch upload(Tensor images, Tensor labels);
  void start_step(const DeviceBatch& batch);
  double finish_step();
  /// Forward and backward only: gradients are left in the lanes, summed into lane 0 by sum_gradients().
  double forward_backward(Tensor images, Tensor labels);
  /// The first image of the last step, or of forward_backward(), whose loss is not finite.
  std::optional<std::int64_t> first_nonfinite_loss() const { return first_nonfinite_loss_; }
  void sum_gradients();
  /// After a step that was not finite: runs it once more, with its masks, searching every value, and names the first
  /// place.
  NonFinite find_nonfinite(Tensor images, Tensor labels);

  /// Evaluation of B images: writes losses [B] and the predicted classes [B]; logits [B, num_classes] too where given.
  /// Without labels (an empty tensor) no loss is computed. None where all logits and losses are finite; otherwise the
  /// first that is not, by image: nothing that was written is a result then, and -1 is predicted for each such image.
  [[nodiscard]] std::optional<NonFiniteAnswer> evaluate(Tensor images, Tensor labels, std::span<double> losses,
                                                        std::span<std::int32_t> predictions,
                                                        std::span<double> logits = {});
  /// Whether all that the next step continues from is finite: parameters, running statistics, moments, the average.
  bool state_is_finite();

  ParameterSet& parameters() { return parameters_; }
  Optimizer& optimizer() { return *optimizer_; }
  /// The average of the weights, which starts with the first step; null where none is kept.
  WeightAverage* average() { return average_.get(); }
  StepState& state() { return state_.host; }
  const ModelConfig& config() const { return config_; }
  DType dtype() const { return dtype_of(settings_.precision); }
  /// Measures where the time goes by operation, added up over all threads, until it is turned off.
  void set_profiling(bool on) { runner_.set_profiling(on); }
  Profile profile() const { return runner_.profile(); }
  /// Gets everything ready for steps (or evaluations) of `batch` images, so that they take no memory. The first of that
  /// size does it too.
  void prepare(std::int64_t batch);
  /// Bytes of all arenas.
  std::size_t arena_bytes() const { return runner_.arena_bytes(); }
  /// Measures the signal of the next batches, which changes no bit of a step; null to stop.
  void use_probe(SignalProbe* probe) { probe_ = probe; }
  /// Where some tensors of the last step lay, for the test that steps repeat their addresses.
  std::vector<const void*> last_addresses() const { return runner_.last_addresses(); }

 private:
  /// What goes through the network at a time: all images of a step or an evaluation, or those of a step from `begin`
  /// on. `labels` may be an empty tensor.
  struct Part {
    Tensor images, labels;
    std::int64_t begin, step_images;
  };
  /// search: training under the tape's guard. rehearsal: training for its memory, see Context::rehearses.
  enum class Pass : std::uint8_t { evaluation, training, search, rehearsal };
  using Workspace = ShardRunner::Workspace;
  /// Runs the network and the loss on each shard of a part, and `then` on what that gives: logits [images, classes] and
  /// losses [images], or Var() without labels.
  void run_part(const Part& part, const ShardPlan& plan, Pass pass,
                FunctionRef<void(Workspace&, const BatchSlice&, const Var& logits, const Var& losses)> then);
  Var loss(const Var& logits, Tensor labels) const;
  /// From the losses of a shard, whose mean over the whole step is the step's loss. Gives the gradient it begins with.
  Tensor backward(Tape& tape, const Var& losses) const;
  /// Takes as much memory as a step of that batch may need, where drop-path decides how much that is.
  void rehearse(const DeviceBatch& batch);
  /// Forward and backward of a part; puts the first value that is not finite into `search` where that is given.
  void train_part(const Part& part, NonFinite* search);
  /// Makes everything ready for a step of `batch` after `steps_done` steps.
  void begin_step(const DeviceBatch& batch, std::int64_t steps_done);
  /// Starts forward and backward of a step; step_losses_ may be read once the device has been waited for.
  void run_batch(const DeviceBatch& batch, NonFinite* search = nullptr);
  double mean_loss();

  Backend& backend_;
  ShardPool& pool_;
  EngineSettings settings_;
  const ModelConfig config_;
  ParameterSet parameters_;
  const std::unique_ptr<Model> model_;
  const BatchCut cut_;
  ShardRunner runner_;
  StepRecordings recordings_;
  DeviceState state_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<WeightAverage> average_;
  Tensor step_losses_;                   // of a step's batch, in the backend's memory
  Tensor nonfinite_flag_;                // i32 [1], of state_is_finite(), likewise
  std::int64_t step_images_ = 0;         // of the last step
  std::vector<double> losses_, logits_;  // memory on the host for those of a batch, in the device's types
  std::optional<std::int64_t> first_nonfinite_loss_;
  std::set<std::int64_t> prepared_;  // batch sizes
  std::int64_t rehearsed_ = 0;       // images of a shard
  SignalProbe* probe_ = nullptr;
};

}  // namespace normlab
