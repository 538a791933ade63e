// How a network is trained. The field names are the JSON keys of a descriptor's "train".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/devices.h"
#include "core/dtype.h"
#include "core/field.h"
#include "core/kernel_settings.h"
#include "core/update_settings.h"

namespace normlab {

/// Of activations and of the inputs of products; weights stay float. bf16_emulated computes in float what bf16 computes
/// by CPU instructions, with the same rounding. tf32: see Backend::with_tf32. fp64 is double throughout, for tests
/// only, and has no word.
enum class Precision : std::uint8_t { fp32, bf16, bf16_emulated, tf32, fp64 };
constexpr auto stated_words(Precision) { return words<Precision, 1>("fp32", "bf16", "bf16_emulated", "tf32"); }
constexpr bool is_bf16(Precision p) { return p == Precision::bf16 || p == Precision::bf16_emulated; }
/// The type of activations.
constexpr DType dtype_of(Precision p) {
  return is_bf16(p) ? DType::bf16 : p == Precision::fp64 ? DType::f64 : DType::f32;
}
/// The backend for this precision. Throws EnvironmentError if it lacks the instructions.
Backend& in_precision(Backend& backend, Precision p);

enum class LossKind : std::uint8_t { softmax, sigmoid };
constexpr auto stated_words(LossKind) { return words<LossKind>("softmax", "sigmoid"); }

/// Factors for the parameters whose name matches a pattern of words and `*`.
struct Multiplier {
  std::string name;
  double lr = 1.0, weight_decay = 1.0;
  bool operator==(const Multiplier&) const = default;
};
template <std::same_as<Multiplier> T>
constexpr auto rows_of(const T*) {
  return Fields{field("name", &T::name, "names of parameters; `*` matches any text"),
                field("lr", &T::lr, "multiplies their learning rate", kNotNegative),
                field("weight_decay", &T::weight_decay, "multiplies their weight decay", kNotNegative)};
}

enum class OptimizerName : std::uint8_t { adamw, sgd, big_vision_adam, momentum_hp, lamb, lion, muon, adam };
constexpr auto stated_words(OptimizerName) {
  return words<OptimizerName>("adamw", "sgd", "big_vision_adam", "momentum_hp", "lamb", "lion", "muon", "adam");
}

/// AdamW for the parameters that Muon does not update: all but the matrices of blocks.
struct BesideMuon {
  double lr = 1e-3;
  double weight_decay = 0.05;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  bool operator==(const BesideMuon&) const = default;
};
template <std::same_as<BesideMuon> T>
constexpr auto rows_of(const T*) {
  return Fields{field("lr", &T::lr, "peak learning rate", kNotNegative),
                field("weight_decay", &T::weight_decay, "multiplied by the rate", kNotNegative),
                field("beta1", &T::beta1, "decay rate of the first moment", kRate),
                field("beta2", &T::beta2, "decay rate of the second moment", kRate),
                field("eps", &T::eps, "added to the denominator", kPositive)};
}

struct OptimizerSettings {
  OptimizerName name = OptimizerName::adamw;
  double lr = 1e-3;
  std::int64_t lr_batch = 0;
  double weight_decay = 0.05;
  bool decay_matrices_only = true;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0.9;
  bool nesterov = false;
  bool bf16_moment = false;
  MomentProduct moment_product = MomentProduct::wide;
  MuonScale scale = MuonScale::original;
  BesideMuon adamw{};
  double layer_decay = 1.0;
  std::vector<Multiplier> multipliers{};

  bool is_big_vision() const { return name == OptimizerName::big_vision_adam || name == OptimizerName::momentum_hp; }
  bool is_muon() const { return name == OptimizerName::muon; }
  bool has_momentum() const { return name == OptimizerName::sgd || name == OptimizerName::momentum_hp || is_muon(); }
  /// The peak learning rate for steps of that many images, however they are accumulated.
  double peak_lr(std::int64_t batch_size) const {
    return lr_batch > 0 ? double(batch_size) / double(lr_batch) * lr : lr;
  }
  bool operator==(const OptimizerSettings&) const = default;
};
/// Muon has its author's defaults. The name is not a default.
inline OptimizerSettings defaults_beside(const OptimizerSettings& settings) {
  OptimizerSettings defaults;
  if (!settings.is_muon()) return defaults;
  defaults.weight_decay = 0.1;
  defaults.momentum = 0.95;
  defaults.nesterov = true;
  return defaults;
}
template <std::same_as<OptimizerSettings> T>
constexpr auto rows_of(const T*) {
  constexpr std::string_view kHasNone = "{name} has no {}";
  constexpr When<T> kBetas{[](const T& c) { return !c.has_momentum(); }, kHasNone};
  constexpr When<T> kMomentum{[](const T& c) { return c.has_momentum(); }, kHasNone};
  constexpr When<T> kMuon{[](const T& c) { return c.is_muon(); }, kHasNone};
  constexpr When<T> kBigVision{[](const T& c) { return c.is_big_vision(); }, kHasNone};
  return Fields{
      field("name", &T::name, "the optimiser"),
      field("lr", &T::lr, "peak learning rate", kNotNegative),
      field("lr_batch", &T::lr_batch,
            "batch size that lr is meant for; lr, and nothing else, is scaled to batch_size; 0: no scaling", kFromZero),
      field("weight_decay", &T::weight_decay,
            "adamw, lamb, lion, muon: multiplied by the rate; sgd, adam: added to the gradient; "
            "big_vision_adam, momentum_hp: multiplied by the schedule alone; muon's default is 0.1",
            kNotNegative),
      field("decay_matrices_only", &T::decay_matrices_only, "no weight decay on biases, gains, tokens and positions"),
      field("beta1", &T::beta1, "adamw, adam, big_vision_adam, lamb, lion: decay rate of the first moment", kRate)
          .when(kBetas),
      field("beta2", &T::beta2, "adamw, adam, big_vision_adam, lamb, lion: decay rate of the second moment", kRate)
          .when(kBetas),
      field("eps", &T::eps, "adamw, adam, big_vision_adam, lamb: added to the denominator", kPositive)
          .when(kBetas)
          .when({[](const T& c) { return c.name != OptimizerName::lion; }, kHasNone}),
      field("momentum", &T::momentum, "sgd, momentum_hp, muon: the momentum; muon's default is 0.95", kRate)
          .when(kMomentum),
      field("nesterov", &T::nesterov, "sgd, momentum_hp, muon: Nesterov's momentum; muon's default is true")
          .when(kMomentum),
      field("bf16_moment", &T::bf16_moment, "big_vision_adam, momentum_hp: the first moment is stored in bf16")
          .when(kBigVision),
      field("moment_product", &T::moment_product, "bf16_moment: how the product of decay rate and moment is computed")
          .when(kBigVision)
          .when({[](const T& c) { return c.bf16_moment; }, "bf16_moment is off"}),
      field("scale", &T::scale, "muon: how the shape of a matrix scales its step").when(kMuon),
      field("adamw", &T::adamw, "muon: AdamW for parameters that are not matrices of a block").when(kMuon),
      field("layer_decay", &T::layer_decay,
            "d: the rate of block i of n, counted from 0, is multiplied by d^(n - i), that of the stem by d^(n + 1)",
            kOpenShare),
      field("multipliers", &T::multipliers, "factors for parameters whose names match; the last match counts")};
}

struct AverageSettings {
  double decay = 0.0;
  std::int64_t every_steps = 1;
  bool operator==(const AverageSettings&) const = default;
};
template <std::same_as<AverageSettings> T>
constexpr auto rows_of(const T*) {
  return Fields{field("decay", &T::decay, "decay of the averaged weights; 0: no average", kRate),
                field("every_steps", &T::every_steps, "steps between two updates of the average", kFromOne)
                    .when({[](const T& c) { return c.decay > 0; }, "without a decay no average is kept"})};
}

/// The training settings that the engine uses; their rows are those of TrainConfig.
struct StepSettings {
  Precision precision = Precision::fp32;
  std::int64_t accumulate = 1;  // parts in which a batch passes through the network
  OptimizerSettings optimizer{};
  double clip_norm = 0.0;
  ClipForm clip_form = ClipForm::torch;
  LossKind loss = LossKind::softmax;
  double label_smoothing = 0.0;  // of labels; soft targets already contain it
  Smoothing smoothing = Smoothing::all;
  AverageSettings ema{};
  std::vector<std::string> freeze{};  // see stands_for() in nn/model/freeze.h
  bool operator==(const StepSettings&) const = default;
};

struct EngineSettings : StepSettings {
  std::int64_t max_batch = 1;  // the batch size of training, for which lanes are made
  std::uint64_t drop_seed = 0;
  std::int64_t images_per_shard = 0;  // 0: by plan_shards
  std::int64_t device_shards = 1;     // of a part of a batch on a GPU, at most kMostLanes
};

}  // namespace normlab
