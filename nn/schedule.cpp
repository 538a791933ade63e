#include "nn/schedule.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/visible_text.h"

namespace normlab {
namespace {

// In the order of ScheduleFactor.
constexpr std::string_view kFactorWords[] = {"constant",    "linear_warmup", "polynomial",   "rsqrt_decay",
                                             "decay_every", "cosine_decay",  "linear_decay", "linear_cooldown"};

/// Share of the way from `first` to `last` that is done at `step`, in [0, 1].
double progress(std::int64_t step, std::int64_t first, std::int64_t last) {
  return std::clamp(double(step - first) / double(std::max<std::int64_t>(last - first, 1)), 0.0, 1.0);
}
double half_cosine(double done) { return 0.5 * (1 + std::cos(M_PI * done)); }

}  // namespace

const std::vector<std::string_view>& schedule_factor_words() {
  static const std::vector<std::string_view> words(std::begin(kFactorWords), std::end(kFactorWords));
  return words;
}

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
    if (std::find(std::begin(kFactorWords), std::end(kFactorWords), words[i]) == std::end(kFactorWords))
      return concat("unknown factor ", in_quotes(words[i]));
    if (std::find(words.begin(), words.begin() + std::ptrdiff_t(i), words[i]) != words.begin() + std::ptrdiff_t(i))
      return concat("the factor ", words[i], " comes up twice");
  }
  if (!has_factor(factors, "constant")) return "without the factor constant, which is lr, lr would have no effect";
  return std::nullopt;
}

Schedule::Schedule(const ScheduleSettings& settings) : s_(settings) {
  if (s_.name != ScheduleName::compound) return;
  if (const auto problem = problem_of_factors(s_.factors)) throw InputError(concat("schedule: ", *problem));
  for (const std::string_view word : split_factors(s_.factors))
    factors_.push_back(
        ScheduleFactor(std::find(std::begin(kFactorWords), std::end(kFactorWords), word) - std::begin(kFactorWords)));
  if (s_.cooldown < 1 && has_factor(s_.factors, "linear_cooldown"))
    throw InputError("schedule: linear_cooldown over no steps");
}

double Schedule::after_warmup(std::int64_t step) const {
  const std::int64_t first = s_.decay_from == DecayFrom::start ? 0 : s_.warmup;
  const double done = progress(step, first, s_.total), lr = s_.lr, end = s_.final_lr;
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
      return std::max(end, lr / std::sqrt(1 + double(step - s_.warmup + s_.shift) / s_.timescale));
  }
  return lr;
}

double Schedule::compound(std::int64_t step) const {
  const double end = s_.lr > 0 ? s_.final_lr / s_.lr : 0.0, from = s_.lr > 0 ? s_.warmup_from / s_.lr : 0.0;
  double rate = 1.0;
  for (const ScheduleFactor factor : factors_) switch (factor) {
      case ScheduleFactor::constant:
        rate *= s_.lr;
        break;
      case ScheduleFactor::linear_warmup:
        if (step < s_.warmup)
          rate *= s_.warmup_form == Warmup::lifted ? double(step + 1) / double(s_.warmup + 1)
                                                   : from + (1 - from) * double(step) / double(s_.warmup);
        break;
      case ScheduleFactor::polynomial:
        rate *= (1 - end) * std::pow(1 - progress(step, 0, s_.total), s_.power) + end;
        break;
      case ScheduleFactor::rsqrt_decay:
        if (step > s_.warmup) rate *= std::sqrt(s_.timescale) / std::sqrt(double(step - s_.warmup) + s_.timescale);
        break;
      case ScheduleFactor::decay_every:
        rate *= std::pow(s_.decay_factor, double(step / s_.decay_every));
        break;
      case ScheduleFactor::cosine_decay:
        rate *= (1 - end) * half_cosine(progress(step, s_.warmup, s_.total)) + end;
        break;
      case ScheduleFactor::linear_decay:
        rate = s_.final_lr + (rate - s_.final_lr) * (1 - progress(step, s_.warmup, s_.total));
        break;
      case ScheduleFactor::linear_cooldown:
        rate *= std::clamp(double(s_.total - std::max(step, s_.warmup)) / double(s_.cooldown), 0.0, 1.0);
        break;
    }
  return rate;
}

double Schedule::rate(std::int64_t step) const {
  if (s_.name == ScheduleName::compound) return compound(step);
  double rate = 0.0;
  if (step >= s_.warmup) {
    rate = after_warmup(step);
  } else {
    const double start = s_.name == ScheduleName::rsqrt ? after_warmup(s_.warmup) : s_.lr;
    rate = s_.warmup_form == Warmup::lifted
               ? start * double(step + 1) / double(s_.warmup + 1)
               : s_.warmup_from + (start - s_.warmup_from) * double(step) / double(s_.warmup);
  }
  if (s_.cooldown > 0) rate *= std::clamp(double(s_.total - step) / double(s_.cooldown), 0.0, 1.0);
  return rate;
}

double Schedule::value(std::int64_t step) const {
  if (s_.lr > 0) return rate(step) / s_.lr;
  ScheduleSettings unit = s_;  // what would be multiplied by a peak of 0
  unit.lr = 1.0;
  unit.final_lr = unit.warmup_from = 0.0;
  return Schedule(unit).rate(step);
}

}  // namespace normlab
