// One network with everything that a step of it needs: parameters, optimiser, shards with their tapes and arenas. It
// knows nothing of files or data sets.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "nn/model.h"
#include "nn/optimizer.h"
#include "nn/probes.h"
#include "nn/shard_plan.h"
#include "nn/update_factors.h"
#include "nn/weight_average.h"

namespace normlab {

enum class LossKind : std::uint8_t { softmax, sigmoid };

struct EngineSettings {
  DType dtype = DType::f32;  // of activations: f32, f64, bf16
  Bf16Products bf16_products = Bf16Products::native;
  bool tf32 = false;  // f32: see Backend::set_tf32
  OptimizerSettings optimizer{};
  double layer_decay = 1.0;  // and multipliers: factors of single parameters, as update_factors() has them
  std::vector<Multiplier> multipliers{};
  AverageSettings average{};
  LossKind loss = LossKind::softmax;
  double label_smoothing = 0.0;  // of labels; soft targets have it in them
  bool smooth_others = false;    // e / (C - 1) for each other class (Big Vision), not e / C for every one (PyTorch)
  std::int64_t max_batch = 1;    // the batch size of training, for which lanes are made
  std::int64_t accumulate = 1;   // parts of max_batch / accumulate images in which it goes through the network
  std::int64_t images_per_shard = 0;  // 0: by plan_shards
  std::uint64_t drop_seed = 0;
};

/// What a network says of an image where that is no number.
struct NonFiniteAnswer {
  std::int64_t image = 0;  // of the batch
  std::int64_t logit = 0;  // the class; below 0: its logits are finite, and its loss is not
  double value = 0.0;
  /// "the logit of class 3 is nan", "the loss is inf".
  std::string text() const;
};

class Engine {
 public:
  /// Parameters are zero until initialise() or a checkpoint fills them. `pool` and `backend` must outlive the engine.
  /// Throws EnvironmentError where `backend` has no instructions for the products that `settings` ask for.
  Engine(Backend& backend, ShardPool& pool, const ModelConfig& config, const EngineSettings& settings);

  /// Forward, backward, clip and update on one batch: images [B, H, W, C] in dtype(), labels i32 [B] or, here and
  /// below, soft targets [B, classes] in the type of statistics (acc_of(dtype())), all in memory of the host whatever
  /// the device. state().lr and clip_norm are set by
  /// the caller, for Big Vision's optimisers state().schedule too; state().step counts up. Returns the mean loss, or
  /// NaN where the gradient was not finite; parameters are then as before. InputError for a label that is no class.
  /// Accumulation: the parts of the batch go through one after the other and their gradients are added up; loss and
  /// update are those of the whole batch, but batch norms see a part at a time and take its statistics into the running
  /// ones each time.
  double train_step(Tensor images, Tensor labels) {
    start_step(bring(images, labels));
    return finish_step();
  }
  /// The same in three parts, so that a device which works on its own has its next batch brought in the meantime: bring
  /// one, start its step, bring the next, and finish the step, which waits. Where the device is the host (its
  /// whole_batch() is false) what is brought are `images` and `labels` themselves, which must stay until then.
  struct Brought {
    Tensor images, labels;
  };
  Brought bring(Tensor images, Tensor labels);
  void start_step(const Brought& batch);
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
  /// Whether all that the next step goes on from is finite: parameters, running statistics, moments, the average.
  bool state_is_finite();

  ParameterSet& parameters() { return parameters_; }
  Optimizer& optimizer() { return *optimizer_; }
  /// The average of the weights, which starts with the first step; null where none is kept.
  WeightAverage* average() { return average_.get(); }
  StepState& state() { return state_; }
  const ModelConfig& config() const { return config_; }
  DType dtype() const { return settings_.dtype; }
  ShardPlan plan(std::int64_t batch) const;
  /// Measures where the time goes by operation, added up over all threads, until it is turned off.
  void set_profiling(bool on);
  Profile profile() const;
  /// Gets everything ready for steps (or evaluations) of `batch` images, that they make nothing. The first of that size
  /// does it too.
  void prepare(std::int64_t batch);
  /// Bytes of all arenas.
  std::size_t arena_bytes() const;
  /// Given masks by name for the whole batch, in the backend's memory, as fixtures have them; null to draw them again.
  void use_masks(const std::map<std::string, Tensor>* masks) { masks_ = masks; }
  /// Measures the signal of the batches to come, which changes no bit of a step; null to stop.
  void use_probe(SignalProbe* probe) { probe_ = probe; }
  /// Where some tensors of the last step lay, for the test that steps repeat their addresses.
  std::vector<const void*> last_addresses() const;

 private:
  struct Workspace {
    Arena arena;
    Tape tape;
    Profile profile;
    std::array<const void*, 4> addresses{};
    explicit Workspace(Backend& backend) : arena(backend.memory()), tape(backend, arena) {}
  };
  class Lease;
  void make_workspaces(std::int64_t count);
  void even_out_arenas();
  void even_out_threads();
  Var loss(const Var& logits, Tensor labels) const;
  /// What goes through the network at a time: all of a step's batch, or the images of it from `begin` on.
  struct Part {
    Tensor images, labels;
    std::int64_t begin, step_images;
  };
  void train_shard(Collective& shards, const ShardPlan& plan, const Part& part, bool guard, NonFinite* found);
  void run_part(const Part& part, bool guard, NonFinite* found);
  /// Images of a part of a step of `batch` images; the last part may have fewer.
  std::int64_t part_images(std::int64_t batch) const;
  void begin(const Brought& batch);
  /// Asks the device for forward and backward of a step; step_losses_ is there when it has been waited for.
  void run_batch(const Brought& batch, bool guard, NonFinite* found);
  /// The same and the update, as they were recorded where that can be.
  void run_step(const Brought& batch);
  double mean_loss(std::int64_t batch);

  Backend& backend_;
  ShardPool& pool_;
  EngineSettings settings_;
  const ModelConfig config_;
  ParameterSet parameters_;
  const std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<WeightAverage> average_;
  StepState state_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;
  std::mutex free_mutex_;
  std::vector<Workspace*> free_;       // used last at the end: its memory is still in a cache
  StepState* device_state_ = &state_;  // where kernels read it
  Tensor step_losses_;                 // of a step's batch, in the backend's memory
  Tensor flag_;                        // i32 [1], of state_is_finite(), likewise
  /// Steps that may be started again, by what they read. They hold for the batch size that ran last, and for what the
  /// backend had in memory then.
  std::map<std::array<const void*, 3>, std::unique_ptr<Recording>> recordings_;
  std::int64_t step_images_ = 0;  // of the last step
  std::int64_t recorded_batch_ = 0;
  std::uint64_t recorded_memory_ = 0;
  std::optional<std::int64_t> first_nonfinite_loss_;
  std::vector<double> losses_, logits_;  // room for those of a batch, in the type of statistics and of activations
  std::set<std::int64_t> prepared_;      // batch sizes
  const std::map<std::string, Tensor>* masks_ = nullptr;
  std::uint64_t thread_memory_ = 0;  // the backend's number when threads were last evened out
  SignalProbe* probe_ = nullptr;
  bool profiling_ = false;
};

}  // namespace normlab
