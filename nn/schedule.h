// The learning rate over time: a pure function of the step, so that a resumed training needs nothing but its number.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

enum class ScheduleName : std::uint8_t { constant, linear, cosine, rsqrt, polynomial, compound };

/// lifted: lr (step + 1) / (warmup + 1), so that no step is lost at rate zero. line: from warmup_from at step 0 to lr
/// at step `warmup`.
enum class Warmup : std::uint8_t { lifted, line };

/// Where the way down begins: at the end of the warm-up, or at step 0, of which the warm-up then hides a part (timm's
/// schedulers without warmup_prefix, and so DeiT's).
enum class DecayFrom : std::uint8_t { warmup, start };

/// All rates as they are used (scaled by batch already), all lengths in steps.
struct ScheduleSettings {
  ScheduleName name = ScheduleName::cosine;
  double lr = 1e-3;       // the peak
  double final_lr = 0.0;  // linear, cosine, polynomial: rate at step `total`; rsqrt: the least rate
  std::int64_t total = 1, warmup = 0;
  Warmup warmup_form = Warmup::lifted;
  double warmup_from = 0.0;
  DecayFrom decay_from = DecayFrom::warmup;  // linear, cosine, polynomial
  double power = 1.0;
  double timescale = 10000;
  std::int64_t shift = 0, cooldown = 0;
  std::int64_t decay_every = 1;  // compound
  double decay_factor = 1.0;
  std::string factors{};  // compound
};

/// The words of a compound schedule, as in Scenic's lr_schedules.py.
enum class ScheduleFactor : std::uint8_t {
  constant,         // lr
  linear_warmup,    // by warmup_form, up to 1
  polynomial,       // (1 - end) (1 - step / total)^power + end for end = final_lr / lr; the warm-up is part of it
  rsqrt_decay,      // sqrt(timescale) / sqrt(step - warmup + timescale), 1 up to the end of the warm-up
  decay_every,      // decay_factor^floor(step / decay_every)
  cosine_decay,     // one half cosine from the end of the warm-up to `total`, down to final_lr / lr
  linear_decay,     // what stands left of it goes to final_lr along a line
  linear_cooldown,  // (total - step) / cooldown, at most 1
};

/// The words between the stars, without spaces around them.
std::vector<std::string_view> split_factors(std::string_view factors);
/// Whether `word` stands among factors such as "constant * polynomial * linear_warmup".
bool has_factor(std::string_view factors, std::string_view word);
/// What is wrong with them: an unknown word, one that comes up twice, no `constant`.
std::optional<std::string> problem_of_factors(std::string_view factors);
/// All words, for suggestions.
const std::vector<std::string_view>& schedule_factor_words();

class Schedule {
 public:
  /// Throws InputError for factors with a problem, and for linear_cooldown without a cooldown.
  explicit Schedule(const ScheduleSettings& settings);

  /// The rate of 0-based `step`. With progress = (step - warmup) / (total - warmup) in [0, 1], or step / total for
  /// decay_from start, after the warm-up:
  ///   constant lr; linear lr + (final_lr - lr) progress; cosine final_lr + (lr - final_lr) (1 + cos(pi progress)) / 2;
  ///   polynomial final_lr + (lr - final_lr) (1 - progress)^power; rsqrt lr / sqrt(1 + (step - warmup + shift) /
  ///   timescale), at least final_lr (Big Vision's schedules, utils.py).
  /// The warm-up leads to lr, of rsqrt to what it has at its end. Over the last `cooldown` steps all is multiplied by
  /// (total - step) / cooldown.
  double rate(std::int64_t step) const;
  /// rate over lr: Big Vision's schedule value.
  double value(std::int64_t step) const;

 private:
  double after_warmup(std::int64_t step) const;
  double compound(std::int64_t step) const;
  ScheduleSettings s_;
  std::vector<ScheduleFactor> factors_;
};

}  // namespace normlab
