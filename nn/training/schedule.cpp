#include "nn/training/schedule.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/visible_text.h"

namespace normlab {
namespace {

/// The progress at `step` from `first` to `last`, in [0, 1].
double progress(std::int64_t step, std::int64_t first, std::int64_t last) {
  return std::clamp(double(step - first) / double(std::max<std::int64_t>(last - first, 1)), 0.0, 1.0);
}
double half_cosine(double done) { return 0.5 * (1 + std::cos(M_PI * done)); }

}  // namespace

std::vector<std::string_view> split_factors(std::string_view factors) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin <= factors.size();) {
    const std::size_t end = std::min(factors.find('*', begin), factors.size());
    std::string_view word = factors.substr(begin, end - begin);
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    words.push_back(word);
    begin = end + 1;
  }
  return words;
}

bool has_factor(std::string_view factors, std::string_view word) {
  const std::vector<std::string_view> words = split_factors(factors);
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::optional<std::string> problem_of_factors(std::string_view factors) {
  const std::vector<std::string_view> words = split_factors(factors);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (ScheduleFactor known{}; !find_word(words[i], known)) return concat("unknown factor ", in_quotes(words[i]));
    if (std::find(words.begin(), words.begin() + std::ptrdiff_t(i), words[i]) != words.begin() + std::ptrdiff_t(i))
      return concat("the factor ", words[i], " occurs twice");
  }
  if (!has_factor(factors, "constant"))
    return "the factor constant, which is lr, is missing, so lr would have no effect; add it";
  return std::nullopt;
}

Schedule::Schedule(const ScheduleSettings& settings, double lr, std::int64_t total, std::int64_t warmup,
                   std::int64_t per_epoch)
    : s_(settings), lr_(lr), total_(total), warmup_(warmup), per_epoch_(per_epoch) {
  if (s_.name != ScheduleName::compound) return;
  if (const auto problem = problem_of_factors(s_.factors)) throw InputError(concat("schedule: ", *problem));
  for (const std::string_view word : split_factors(s_.factors)) find_word(word, factors_.emplace_back());
  if (s_.cooldown_steps < 1 && has_factor(s_.factors, "linear_cooldown"))
    throw InputError("schedule: linear_cooldown needs at least one step");
}

double Schedule::after_warmup(std::int64_t step) const {
  const std::int64_t first = s_.decay_from == DecayFrom::start ? 0 : warmup_;
  const double done = progress(step, first, total_), lr = lr_, end = s_.final_lr;
  switch (s_.name) {
    case ScheduleName::constant:
    case ScheduleName::compound:
      return lr;
    case ScheduleName::linear:
      return lr + (end - lr) * done;
    case ScheduleName::cosine:
      return end + (lr - end) * 0.5 * (1 + std::cos(M_PI * done));
    case ScheduleName::polynomial:
      return end + (lr - end) * std::pow(1 - done, s_.power);
    case ScheduleName::rsqrt:
      return std::max(end, lr / std::sqrt(1 + double(step - warmup_ + s_.shift) / s_.timescale));
    case ScheduleName::milestones: {
      const auto passed = std::count_if(s_.milestones.begin(), s_.milestones.end(), [&](double epoch) {
        return double(step) >= std::round(epoch * double(per_epoch_));
      });
      return lr * std::pow(s_.decay_factor, double(passed));
    }
  }
  return lr;
}

double Schedule::compound(std::int64_t step) const {
  const double end = lr_ > 0 ? s_.final_lr / lr_ : 0.0, from = lr_ > 0 ? s_.warmup_from / lr_ : 0.0;
  double rate = 1.0;
  for (const ScheduleFactor factor : factors_) switch (factor) {
      case ScheduleFactor::constant:
        rate *= lr_;
        break;
      case ScheduleFactor::linear_warmup:
        if (step < warmup_)
          rate *= s_.warmup == Warmup::lifted ? double(step + 1) / double(warmup_ + 1)
                                              : from + (1 - from) * double(step) / double(warmup_);
        break;
      case ScheduleFactor::polynomial:
        rate *= (1 - end) * std::pow(1 - progress(step, 0, total_), s_.power) + end;
        break;
      case ScheduleFactor::rsqrt_decay:
        if (step > warmup_) rate *= std::sqrt(s_.timescale) / std::sqrt(double(step - warmup_) + s_.timescale);
        break;
      case ScheduleFactor::decay_every:
        rate *= std::pow(s_.decay_factor, double(step / s_.decay_every));
        break;
      case ScheduleFactor::cosine_decay:
        rate *= (1 - end) * half_cosine(progress(step, warmup_, total_)) + end;
        break;
      case ScheduleFactor::linear_decay:
        rate = s_.final_lr + (rate - s_.final_lr) * (1 - progress(step, warmup_, total_));
        break;
      case ScheduleFactor::linear_cooldown:
        rate *= std::clamp(double(total_ - std::max(step, warmup_)) / double(s_.cooldown_steps), 0.0, 1.0);
        break;
    }
  return rate;
}

double Schedule::rate(std::int64_t step) const {
  if (s_.name == ScheduleName::compound) return compound(step);
  double rate = 0.0;
  if (step >= warmup_) {
    rate = after_warmup(step);
  } else {
    const double start = s_.name == ScheduleName::rsqrt ? after_warmup(warmup_) : lr_;
    rate = s_.warmup == Warmup::lifted ? start * double(step + 1) / double(warmup_ + 1)
                                       : s_.warmup_from + (start - s_.warmup_from) * double(step) / double(warmup_);
  }
  if (s_.cooldown_steps > 0) rate *= std::clamp(double(total_ - step) / double(s_.cooldown_steps), 0.0, 1.0);
  return rate;
}

double Schedule::value(std::int64_t step) const {
  if (lr_ > 0) return rate(step) / lr_;
  ScheduleSettings unit = s_;  // the factor on a peak of 0
  unit.final_lr = unit.warmup_from = 0.0;
  return Schedule(unit, 1.0, total_, warmup_, per_epoch_).rate(step);
}

}  // namespace normlab
