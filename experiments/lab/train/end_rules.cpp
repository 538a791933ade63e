#include "experiments/lab/train/end_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/trials/trial_result.h"

namespace normlab {
namespace {

/// The `count` numbers of a rule's state.
std::vector<double> numbers_of(const char* rule, const std::string& text, std::size_t count) {
  try {
    if (std::vector<double> numbers = exact_numbers(text); numbers.size() == count) return numbers;
  } catch (const std::logic_error&) {
  }
  throw InputError(concat("the state of the ", rule, " rule ", in_quotes(text), " cannot be read"));
}
std::optional<double> if_number(double value) { return std::isnan(value) ? std::nullopt : std::optional(value); }

}  // namespace

Divergence nonfinite(double loss, const NonFinite& first) {
  Divergence d{.rule = "nonfinite", .site = {}, .value = first ? first.value : loss, .message = {}};
  if (first) d.site = first.site;
  d.message =
      concat("the loss or its gradient is not finite; first in ", first ? first.words() : "the sum of the gradients");
  return d;
}

Divergence nonfinite(const NonFiniteError& error) {
  return {.rule = "nonfinite",
          .site = kEvaluationSite,
          .value = error.value,
          .message = concat("the evaluation is not finite: ", error.what())};
}

CollapseWatch::CollapseWatch(std::int64_t collapse_steps, std::int64_t warmup_steps)
    : limit_(collapse_steps),
      window_(std::clamp<std::int64_t>(collapse_steps, 1, kWindow)),
      level_end_(std::max(warmup_steps, window_)) {}

bool CollapseWatch::add(double loss) {
  if (limit_ == 0) return false;
  ++steps_;
  if (steps_ <= level_end_ - window_) return false;
  sum_ += loss;
  if (++count_ < window_) return false;
  mean_ = sum_ / double(count_);
  sum_ = 0.0;
  count_ = 0;
  if (!level_) {
    level_ = mean_;
    return false;
  }
  above_ = mean_ <= *level_ ? 0 : above_ + window_;
  return above_ >= limit_;
}

Divergence CollapseWatch::divergence() const {
  return {.rule = "collapse",
          .site = "train/loss",
          .value = mean_,
          .message = fmt::format("collapsed: for {} steps the mean training loss of each {} steps was above {:.4g}, "
                                 "its level at the end of the warm-up; the last was {:.4g}",
                                 limit_, window_, level_.value_or(0.0), mean_)};
}

std::string CollapseWatch::state() const {
  return fmt::format("{} {} {} {} {} {}", steps_, count_, above_, exact(sum_), exact(mean_), exact(level_));
}

void CollapseWatch::set_state(const std::string& text) {
  const std::vector<double> numbers = numbers_of("collapse", text, 6);
  steps_ = std::int64_t(numbers[0]);
  count_ = std::int64_t(numbers[1]);
  above_ = std::int64_t(numbers[2]);
  sum_ = numbers[3];
  mean_ = numbers[4];
  level_ = if_number(numbers[5]);
}

EarlyStop::EarlyStop(const EarlyStopConfig& config)
    : config_(config),
      higher_(config.mode == Better::max || (config.mode == Better::inferred && is_share(config.metric))) {}

void EarlyStop::add(double value) {
  const double sign = higher_ ? 1.0 : -1.0;
  const bool better = std::isfinite(value) && (!best_ || sign * (value - *best_) > config_.min_delta);
  if (better) best_ = value;
  since_best_ = better ? 0 : since_best_ + 1;
}

std::string EarlyStop::words() const {
  if (!active()) return "";
  return fmt::format("{} has not {}{} for {}", config_.metric, higher_ ? "risen" : "fallen",
                     config_.min_delta > 0 ? fmt::format(" by more than {:g}", config_.min_delta) : "",
                     plural(config_.patience, "evaluation"));
}

std::string EarlyStop::state() const { return fmt::format("{} {}", since_best_, exact(best_)); }

void EarlyStop::set_state(const std::string& text) {
  const std::vector<double> numbers = numbers_of("early_stop", text, 2);
  since_best_ = std::int64_t(numbers[0]);
  best_ = if_number(numbers[1]);
}

}  // namespace normlab
