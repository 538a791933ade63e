#include "experiments/lab/train/end_rules.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/error.h"

using namespace normlab;

namespace {

/// The step after which it collapses; 0: never. With `saved`, the state goes through its text before each step.
std::int64_t collapse_step(CollapseWatch watch, const std::vector<double>& losses, bool saved = false) {
  for (std::size_t i = 0; i < losses.size(); ++i) {
    if (saved) watch.set_state(watch.state());
    if (watch.add(losses[i])) return std::int64_t(i + 1);
  }
  return 0;
}

std::vector<double> constant(std::size_t steps, double loss) { return std::vector<double>(steps, loss); }
std::vector<double> joined(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A warm-up of 100 steps, whose level is the mean of steps 51 to 100.
const std::vector<double> kLevel = joined(constant(50, 3.0), constant(50, 1.0));

EarlyStopConfig patient_rule(const char* metric) {
  EarlyStopConfig rule;
  rule.metric = metric;
  rule.patience = 2;
  return rule;
}

/// The evaluation that triggers the rule; 0: none. The state goes through its text before each.
int triggered_at(const EarlyStopConfig& config, const std::vector<double>& values) {
  EarlyStop stop(config);
  for (std::size_t i = 0; i < values.size(); ++i) {
    stop.set_state(EarlyStop(stop).state());
    stop.add(values[i]);
    if (stop.triggered()) return int(i + 1);
  }
  return 0;
}

}  // namespace

TEST_CASE("end rules: a collapse is K steps above the level of the warm-up's end") {
  CHECK(collapse_step({200, 100}, joined(kLevel, constant(200, 1.1))) == 300);
  CHECK(collapse_step({200, 100}, joined(kLevel, constant(200, 1.0))) == 0);  // not above
  CHECK(collapse_step({0, 100}, joined(kLevel, constant(500, 9.0))) == 0);    // switched off
}

TEST_CASE("end rules: a collapse is found at the end of whole windows of 50 steps") {
  CHECK(collapse_step({180, 100}, joined(kLevel, constant(500, 1.1))) == 300);  // whole windows of 50
}

TEST_CASE("end rules: a window that is not above the level resets the count") {
  const std::vector<double> losses =
      joined(kLevel, joined(constant(150, 2.0), joined(constant(50, 0.9), constant(200, 2.0))));
  CHECK(collapse_step({200, 100}, losses) == 500);
}

TEST_CASE("end rules: a single low loss does not lower its window") {
  std::vector<double> losses = joined(kLevel, constant(200, 2.0));
  losses[150] = 0.0;
  CHECK(collapse_step({200, 100}, losses) == 300);
}

TEST_CASE("end rules: without a warm-up the level is that of the first window") {
  CHECK(collapse_step({200, 0}, joined(constant(50, 1.0), constant(200, 2.0))) == 250);
}

TEST_CASE("end rules: a K below 50 is a window of K steps") {
  CHECK(collapse_step({7, 0}, joined(constant(7, 1.0), constant(20, 2.0))) == 14);
}

TEST_CASE("end rules: a watch resumes from its text to the bit") {
  std::vector<double> losses;
  for (int i = 0; i < 700; ++i) losses.push_back(2.0 + std::sin(i * 0.7) / 3 + (i > 300 ? 0.05 : 0.0));
  const CollapseWatch watch(250, 120);
  const std::int64_t step = collapse_step(watch, losses);
  CHECK(step > 0);
  CHECK(collapse_step(watch, losses, true) == step);
}

TEST_CASE("end rules: a damaged text of a watch is refused") {
  CollapseWatch damaged(250, 120);
  CHECK_THROWS_WITH_AS(damaged.set_state("1 2 x"), "the state of the collapse rule \"1 2 x\" cannot be read",
                       InputError);
  CHECK_THROWS_WITH_AS(damaged.set_state(damaged.state() + " 3"), doctest::Contains(" 3\" cannot be read"), InputError);
}

TEST_CASE("end rules: there is no early stop without a metric") {
  CHECK(!EarlyStop(EarlyStopConfig{}).active());
  CHECK(EarlyStop(EarlyStopConfig{}).words() == "");
}

TEST_CASE("end rules: an early stop follows so many evaluations without a better value") {
  const EarlyStopConfig rule = patient_rule("minival/accuracy");
  CHECK(triggered_at(rule, {0.1, 0.2, 0.15, 0.2}) == 4);  // equal is not better
  CHECK(triggered_at(rule, {0.1, 0.05, 0.2, 0.1, 0.3}) == 0);
}

TEST_CASE("end rules: values that are not finite are never better") {
  const EarlyStopConfig rule = patient_rule("minival/accuracy");
  CHECK(triggered_at(rule, {NAN, NAN}) == 2);
  CHECK(triggered_at(rule, {0.1, NAN, 0.2, NAN, INFINITY}) == 5);
}

TEST_CASE("end rules: a value is better only by more than min_delta") {
  EarlyStopConfig rule = patient_rule("minival/accuracy");
  rule.min_delta = 0.1;
  CHECK(triggered_at(rule, {0.1, 0.15, 0.19}) == 3);
  CHECK(EarlyStop(rule).words() == "minival/accuracy has not risen by more than 0.1 for 2 evaluations");
}

TEST_CASE("end rules: a loss is better if it falls") {
  const EarlyStopConfig rule = patient_rule("minival/loss");
  CHECK(triggered_at(rule, {1.0, 0.9, 0.95, 0.9}) == 4);
  CHECK(EarlyStop(rule).words() == "minival/loss has not fallen for 2 evaluations");
}

TEST_CASE("end rules: a recall is better if it rises") {
  for (const char* metric : {"minival/text_recall1", "minival/image_recall1", "minival/miou"}) {
    CAPTURE(metric);
    CHECK(triggered_at(patient_rule(metric), {0.1, 0.2, 0.15, 0.2}) == 4);
    CHECK(EarlyStop(patient_rule(metric)).words() == concat(metric, " has not risen for 2 evaluations"));
  }
}

TEST_CASE("end rules: the mode decides which values are better") {
  EarlyStopConfig rule = patient_rule("minival/loss");
  rule.mode = Better::max;
  CHECK(triggered_at(rule, {1.0, 0.9, 0.95}) == 3);
}
