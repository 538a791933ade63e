#include "experiments/lab/ledger/ledger.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "core/error.h"
#include "experiments/lab/tables/table_filter.h"

namespace normlab {
std::string_view words_of(Verdict verdict) {
  constexpr std::array<std::string_view, 5> kText{"holds here", "fails here", "undecided", "not run", "needs ImageNet"};
  return kText[std::size_t(verdict)];
}

Verdict judge(const ClaimRange& range, double low, double high) {
  const double least = range.low.value_or(-INFINITY), most = range.high.value_or(INFINITY);
  if (least <= low && high <= most) return range.outside ? Verdict::fails : Verdict::holds;
  if (high < least || most < low) return range.outside ? Verdict::holds : Verdict::fails;
  return Verdict::undecided;
}

Verdict combined(std::span<const Verdict> verdicts, bool any) {
  constexpr std::array kAll{Verdict::fails, Verdict::not_run, Verdict::undecided, Verdict::holds};
  constexpr std::array kAny{Verdict::holds, Verdict::not_run, Verdict::undecided, Verdict::fails};
  for (const Verdict candidate : any ? kAny : kAll)
    if (std::find(verdicts.begin(), verdicts.end(), candidate) != verdicts.end()) return candidate;
  return Verdict::not_run;
}

Verdict verdict_of(const TestedClaim& claim, std::span<const Estimate> estimates) {
  std::map<std::size_t, std::vector<Verdict>> by_test;
  for (const Estimate& e : estimates) by_test[e.test].push_back(e.verdict);
  std::vector<Verdict> tests;
  for (const auto& [test, verdicts] : by_test) tests.push_back(combined(verdicts, claim.tests.at(test).any));
  return combined(tests);
}

void judge_multiples(Estimate& e, std::size_t seeds, const std::function<Verdict(double times)>& judged) {
  constexpr std::size_t kMost = 1000000;
  const auto decided = [&](std::size_t n) { return judged(double(n) / double(seeds)) != Verdict::undecided; };
  e.verdict = judged(1);
  if (e.verdict != Verdict::undecided) return;
  std::size_t few = seeds, enough = 2 * seeds;
  for (; !decided(enough); few = enough, enough *= 2)
    if (enough > kMost) return;
  while (enough - few > 1) {
    const std::size_t middle = (few + enough) / 2;
    (decided(middle) ? enough : few) = middle;
  }
  e.seeds_needed = enough;
}

void judge_interval(Estimate& e, const ClaimRange& range) {
  judge_multiples(e, e.n, [&](double times) {
    const double narrow = 1 / std::sqrt(times);
    return judge(range, e.value - narrow * (e.value - e.low), e.value + narrow * (e.high - e.value));
  });
}

void Estimate::leave_undecided(std::string reason) {
  if (why.empty()) why = std::move(reason);
  verdict = Verdict::undecided;
  seeds_needed.reset();
}

std::pair<std::int64_t, std::int64_t> diverged_runs(std::span<const TableLine* const> rows) {
  std::int64_t hits = 0, n = 0;
  for (const TableLine* row : rows)
    for (const TableSeed& seed : row->seeds) {
      hits += seed.state == SeedState::diverged;
      n += seed.state == SeedState::diverged || seed.state == SeedState::done;
    }
  return {hits, n};
}

void note_diverged_runs(Estimate& e, std::span<const TableLine* const> rows) {
  for (const TableLine* row : rows)
    if (const auto [hits, n] = diverged_runs(std::span(&row, 1)); hits > 0)
      e.leave_undecided(concat(hits, " of ", n, " runs of ", row->label, " diverged"));
}

std::vector<std::size_t> planned_rows(const TableInput& input, std::size_t row) {
  const std::vector<std::size_t>& members = input.rows[row].mean_of;
  return members.empty() ? std::vector{row} : members;
}

std::vector<Estimate> judge_contrasts(const std::vector<Contrast>& contrasts, const ClaimRange& range, double level,
                                      const std::set<std::uint64_t>& first_stage) {
  const double each = 1 - (1 - level) / double(std::max<std::size_t>(contrasts.size(), 1));
  std::vector<Estimate> out;
  for (const Contrast& contrast : contrasts) {
    Estimate& e = out.emplace_back(Estimate{.label = contrast.label, .unit = contrast.unit});
    e.rows = contrast.rows;
    e.values = contrast.values;
    e.n = contrast.values.size();
    if (e.n < 2) continue;
    const Interval interval = *staged_interval(contrast.values, first_stage, each);
    ClaimRange scale = range;  // that of the values
    if (contrast.logs)
      for (auto* bound : {&scale.low, &scale.high})
        if (*bound) *bound = std::log(**bound);
    e.value = interval.mean;
    if (!interval.half_width) {
      if (contrast.logs) e.value = std::exp(e.value);
      e.leave_undecided("the seeds of the first stage show no noise");
      continue;
    }
    e.low = interval.mean - *interval.half_width;
    e.high = interval.mean + *interval.half_width;
    judge_interval(e, scale);
    if (e.low == e.high) e.why = concat("all ", e.n, " values are equal");
    if (contrast.logs)
      for (double* v : {&e.value, &e.low, &e.high}) *v = std::exp(*v);
  }
  return out;
}

std::vector<const TableLine*> selected_rows(const TableModel& model, const TableInput& input, const std::string& filter,
                                            const std::string& place) {
  const FieldNames fields = FieldNames::of_plan(input.axes);  // a choice by results would make intervals too narrow
  LineTest test;
  try {
    test = table_filter(filter, fields);
  } catch (const InputError& error) {
    throw InputError(concat(place, ": this filter of rows cannot be read:\n", error.what()));
  }
  // The table's lines lack the axes that have one value in all rows.
  const auto with_all_axes = [&](TableLine line) {
    const std::vector<std::string> some = std::exchange(line.axes, input.rows.front().axes);
    for (std::size_t a = 0; a < model.axes.size(); ++a)
      line.axes[std::size_t(std::find(input.axes.begin(), input.axes.end(), model.axes[a]) - input.axes.begin())] =
          some[a];
    return line;
  };
  std::vector<const TableLine*> lines;
  for (const TableLine& line : model.lines)
    if (test(with_all_axes(line))) lines.push_back(&line);
  if (lines.empty()) throw InputError(concat(place, ": no row of the sweep matches ", filter));
  return lines;
}

}  // namespace normlab
