#include "experiments/lab/train/end_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/trials/trial_result.h"

namespace normlab {
namespace {

std::string exact(double value) { return fmt::format("{:a}", value); }
std::string exact(const std::optional<double>& value) { return value ? exact(*value) : "none"; }

/// Reads the words of a state in order.
class StateReader {
 public:
  StateReader(const char* what, const std::string& text) : what_(what), text_(text), words_(text) {}
  std::int64_t integer() {
    return converted<std::int64_t>(next(),
                                   [](const std::string& word, std::size_t* end) { return std::stoll(word, end); });
  }
  double real() { return real_of(next()); }
  std::optional<double> optional_real() {
    const std::string word = next();
    return word == "none" ? std::nullopt : std::optional(real_of(word));
  }
  void finish() {
    std::string rest;
    if (words_ >> rest) fail();
  }

 private:
  std::string next() {
    std::string word;
    if (!(words_ >> word)) fail();
    return word;
  }
  double real_of(const std::string& word) {
    return converted<double>(word, [](const std::string& text, std::size_t* end) { return std::stod(text, end); });
  }
  template <class T, class Convert>
  T converted(const std::string& word, Convert&& convert) {
    try {
      std::size_t end = 0;
      const T value = convert(word, &end);
      if (end == word.size()) return value;
    } catch (const std::logic_error&) {  // thrown by std::sto…
    }
    fail();
  }
  [[noreturn]] void fail() const {
    throw InputError(concat("the state of the ", what_, " rule ", in_quotes(text_), " cannot be read"));
  }
  const char* what_;
  const std::string& text_;
  std::istringstream words_;
};

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
  StateReader reader("collapse", text);
  steps_ = reader.integer();
  count_ = reader.integer();
  above_ = reader.integer();
  sum_ = reader.real();
  mean_ = reader.real();
  level_ = reader.optional_real();
  reader.finish();
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
  return fmt::format("{} has not {}{} for {} evaluation{}", config_.metric, higher_ ? "risen" : "fallen",
                     config_.min_delta > 0 ? fmt::format(" by more than {:g}", config_.min_delta) : "",
                     config_.patience, config_.patience == 1 ? "" : "s");
}

std::string EarlyStop::state() const { return fmt::format("{} {}", since_best_, exact(best_)); }

void EarlyStop::set_state(const std::string& text) {
  StateReader reader("early_stop", text);
  since_best_ = reader.integer();
  best_ = reader.optional_real();
  reader.finish();
}

}  // namespace normlab
