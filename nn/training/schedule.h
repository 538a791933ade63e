// The learning rate over time: a pure function of the step, so that resuming needs only the step number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/field.h"

namespace normlab {

enum class ScheduleName : std::uint8_t { constant, linear, cosine, rsqrt, polynomial, compound, milestones };
constexpr auto stated_words(ScheduleName) {
  return words<ScheduleName>("constant", "linear", "cosine", "rsqrt", "polynomial", "compound", "milestones");
}

/// With a warm-up of `warmup` steps. lifted: lr (step + 1) / (warmup + 1), so that no step has rate zero. line: linear
/// from warmup_from at step 0 to lr at step `warmup`.
enum class Warmup : std::uint8_t { lifted, line };
constexpr auto stated_words(Warmup) { return words<Warmup>("lifted", "line"); }

/// Where the decay begins: at the end of the warm-up, or at step 0, in which case the warm-up hides a part of it
/// (timm's schedulers without warmup_prefix, and thus DeiT's).
enum class DecayFrom : std::uint8_t { warmup, start };
constexpr auto stated_words(DecayFrom) { return words<DecayFrom>("warmup", "start"); }

/// The words of a compound schedule, as in Scenic's lr_schedules.py.
enum class ScheduleFactor : std::uint8_t {
  constant,         // lr
  linear_warmup,    // by its form, up to 1
  polynomial,       // (1 - end) (1 - step / total)^power + end for end = final_lr / lr; includes the warm-up
  rsqrt_decay,      // sqrt(timescale) / sqrt(step - warmup + timescale), 1 up to the end of the warm-up
  decay_every,      // decay_factor^floor(step / decay_every)
  cosine_decay,     // half a cosine from the end of the warm-up to `total`, down to final_lr / lr
  linear_decay,     // the product of the factors to its left goes linearly to final_lr
  linear_cooldown,  // (total - max(step, warmup)) / cooldown, at most 1
};
constexpr auto stated_words(ScheduleFactor) {
  return words<ScheduleFactor>("constant", "linear_warmup", "polynomial", "rsqrt_decay", "decay_every", "cosine_decay",
                               "linear_decay", "linear_cooldown");
}

/// The words between the stars, without surrounding spaces.
std::vector<std::string_view> split_factors(std::string_view factors);
/// Whether `word` is among factors such as "constant * polynomial * linear_warmup".
bool has_factor(std::string_view factors, std::string_view word);
/// The problem of the factors: an unknown word, a repeated word, no `constant`.
std::optional<std::string> problem_of_factors(std::string_view factors);

/// All lengths but warmup_epochs and milestones are in steps. At most one of warmup_epochs and warmup_steps is not 0.
struct ScheduleSettings {
  ScheduleName name = ScheduleName::cosine;
  double warmup_epochs = 0.0;
  std::int64_t warmup_steps = 0;
  Warmup warmup = Warmup::lifted;
  double warmup_from = 0.0;
  DecayFrom decay_from = DecayFrom::warmup;
  double final_lr = 0.0;
  double power = 1.0;
  double timescale = 10000;
  std::int64_t shift = 0;
  std::int64_t cooldown_steps = 0;
  std::string factors{};
  std::vector<double> milestones{};  // epochs
  std::int64_t decay_every = 1;
  double decay_factor = 1.0;

  /// Whether a compound schedule has this factor; always true for other schedules.
  bool may_have(std::string_view factor) const { return name != ScheduleName::compound || has_factor(factors, factor); }
  bool warms_up() const { return may_have("linear_warmup") && (warmup_steps > 0 || warmup_epochs > 0); }
  bool operator==(const ScheduleSettings&) const = default;
};
template <std::same_as<ScheduleSettings> T>
constexpr auto rows_of(const T*) {
  using N = ScheduleName;
  constexpr std::string_view kHasNone = "a {name} schedule has no {}";
  constexpr When<T> kMayWarmUp{[](const T& c) { return c.may_have("linear_warmup"); },
                               "there is no linear_warmup among the factors"};
  constexpr When<T> kDecayEvery{[](const T& c) { return c.may_have("decay_every"); },
                                "there is no decay_every among the factors"};
  constexpr When<T> kCompound{[](const T& c) { return c.name == N::compound; }, kHasNone};
  return Fields{
      field("name", &T::name, "shape after the warm-up"),
      field("warmup_epochs", &T::warmup_epochs, "epochs of linear warm-up; give this or warmup_steps", kEpochs)
          .when(kMayWarmUp)
          .when({[](const T& c) { return c.warmup_steps == 0; }, kHasNone}),
      field("warmup_steps", &T::warmup_steps, "steps of linear warm-up; give this or warmup_epochs", kFromZero)
          .when(kMayWarmUp),
      field("warmup", &T::warmup, "lifted: lr (step + 1) / (warmup + 1); line: from warmup_from at step 0 to lr")
          .when({[](const T& c) { return c.warms_up(); }, "there is no warm-up"}),
      field("warmup_from", &T::warmup_from, "warmup line: rate of the first step", kNotNegative)
          .when({[](const T& c) { return c.warmup == Warmup::line && c.warms_up(); }, "only warmup \"line\" has it"}),
      field("decay_from", &T::decay_from,
            "linear, cosine, polynomial: start the decay at the end of the warm-up, or at step 0 as timm does")
          .when({[](const T& c) { return c.warms_up(); }, "there is no warm-up"})
          .when({[](const T& c) { return c.name == N::linear || c.name == N::cosine || c.name == N::polynomial; },
                 kHasNone}),
      field("final_lr", &T::final_lr, "linear, cosine, polynomial: rate at the end; rsqrt: the lowest rate",
            kNotNegative)
          .when({[](const T& c) { return c.name != N::constant && c.name != N::milestones; }, kHasNone})
          .when({[](const T& c) {
                   return c.may_have("polynomial") || c.may_have("cosine_decay") || c.may_have("linear_decay");
                 },
                 "there is no polynomial, cosine_decay or linear_decay among the factors"}),
      field("power", &T::power, "polynomial: its exponent", kPositive)
          .when({[](const T& c) { return c.may_have("polynomial"); }, "there is no polynomial among the factors"})
          .when({[](const T& c) { return c.name == N::compound || c.name == N::polynomial; }, kHasNone}),
      field("timescale", &T::timescale, "rsqrt, rsqrt_decay: time scale in steps", kPositive)
          .when({[](const T& c) { return c.may_have("rsqrt_decay"); }, "there is no rsqrt_decay among the factors"})
          .when({[](const T& c) { return c.name == N::compound || c.name == N::rsqrt; }, kHasNone}),
      field("shift", &T::shift, "rsqrt: shift in steps", kFromZero)
          .when({[](const T& c) { return c.name == N::rsqrt; }, kHasNone}),
      field("cooldown_steps", &T::cooldown_steps, "steps at the end over which the rate falls linearly to 0", kFromZero)
          .when({[](const T& c) { return c.may_have("linear_cooldown"); },
                 "there is no linear_cooldown among the factors"}),
      field("factors", &T::factors, "compound: a product such as \"constant * polynomial * linear_warmup\"")
          .when(kCompound),
      field("decay_every", &T::decay_every, "factor decay_every of compound: steps between two decays", kFromOne)
          .when(kCompound)
          .when(kDecayEvery),
      field("milestones", &T::milestones, "milestones: the epochs after which the rate is multiplied by decay_factor",
            kEpochs)
          .when({[](const T& c) { return c.name == N::milestones; }, kHasNone}),
      field("decay_factor", &T::decay_factor,
            "milestones, factor decay_every of compound: what each decay multiplies the rate by", kNotNegative)
          .when({[](const T& c) { return c.name == N::compound || c.name == N::milestones; }, kHasNone})
          .when(kDecayEvery)};
}

class Schedule {
 public:
  /// Training for `total` steps with the peak rate `lr`; the first `warmup` steps are the warm-up. An epoch has
  /// `per_epoch` steps. Throws InputError for factors with a problem, and for linear_cooldown without a cooldown.
  Schedule(const ScheduleSettings& settings, double lr, std::int64_t total, std::int64_t warmup,
           std::int64_t per_epoch = 1);

  /// The rate of 0-based `step`. With progress = (step - warmup) / (total - warmup) in [0, 1], or step / total for
  /// decay_from start, after the warm-up:
  ///   constant    lr
  ///   linear      lr + (final_lr - lr) progress
  ///   cosine      final_lr + (lr - final_lr) (1 + cos(pi progress)) / 2
  ///   polynomial  final_lr + (lr - final_lr) (1 - progress)^power
  ///   rsqrt       lr / sqrt(1 + (step - warmup + shift) / timescale), at least final_lr (Big Vision, utils.py)
  ///   milestones  lr decay_factor^(number of milestones passed), as torch.optim.lr_scheduler.MultiStepLR
  /// The warm-up leads to lr, or for rsqrt to its value at the end of the warm-up. Over the last `cooldown_steps` the
  /// rate is multiplied by (total - step) / cooldown_steps.
  double rate(std::int64_t step) const;
  /// rate / lr: Big Vision's schedule value.
  double value(std::int64_t step) const;

 private:
  double after_warmup(std::int64_t step) const;
  double compound(std::int64_t step) const;
  ScheduleSettings s_;
  double lr_;
  std::int64_t total_, warmup_, per_epoch_;
  std::vector<ScheduleFactor> factors_;
};

}  // namespace normlab
