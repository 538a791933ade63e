// The tests of a claim that read a table of its rows.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "experiments/lab/ledger/ledger.h"
#include "experiments/lab/statistics/proportions.h"
#include "experiments/lab/tables/table_filter.h"

namespace normlab {
namespace {

using Lines = std::vector<const TableLine*>;

class RowJudge {
 public:
  RowJudge(const ClaimTest& test, const TableInput& input, double level)
      : test_(test), input_(input), level_(level), model_(table_model(input, options())) {}

  RowsJudged judged() {
    where_ = select(test_.where);
    if (!test_.against.empty()) against_ = select(test_.against);
    switch (test_.kind) {
      case ClaimTestKind::interaction:
        return {rows(true), {interaction()}};
      case ClaimTestKind::slope:
        return {rows(true), {slope()}};
      case ClaimTestKind::contrast:
        return {rows(false), contrasts()};
      case ClaimTestKind::diverged:
        return {rows(false), {diverged()}};
      case ClaimTestKind::best:
        return {rows(false), {best()}};
      default:
        return {rows(true), gains()};
    }
  }

 private:
  TableOptions options() const {
    TableOptions options;
    options.metric = test_.metric;
    options.family = TableFamily::table;
    options.level = level_;
    if (test_.chance) options.diverged = TableDiverged::chance;
    return options;
  }

  bool of_gains() const {
    return test_.kind == ClaimTestKind::gain || test_.kind == ClaimTestKind::interaction ||
           test_.kind == ClaimTestKind::slope;
  }

  [[noreturn]] void refuse(const std::string& what) const { throw InputError(test_.place + ": " + what); }

  Lines select(const std::string& filter) const {
    Lines lines = selected_rows(model_, input_, filter, test_.place);
    if (!of_gains()) return lines;
    std::erase_if(lines, [](const TableLine* line) { return line->is_baseline; });
    for (const TableLine* line : lines)
      if (!line->baseline) refuse(concat("the row ", line->label, " has no baseline, so it has no gain"));
    if (lines.empty()) refuse(concat("only baselines match ", filter, ", and they have no gain"));
    return lines;
  }

  std::set<std::size_t> rows(bool baselines) const {
    std::set<std::size_t> rows;
    for (const Lines* lines : {&where_, &against_})
      for (const TableLine* line : *lines)
        for (const std::size_t row : {line->plan_index, baselines ? *line->baseline : line->plan_index})
          for (const std::size_t planned : planned_rows(input_, row)) rows.insert(planned);
    return rows;
  }

  std::string unit() const { return input_.unit.empty() ? "" : "points"; }

  const TableLine& baseline_of(const TableLine& line) const {
    return *std::find_if(model_.lines.begin(), model_.lines.end(),
                         [&](const TableLine& other) { return other.plan_index == *line.baseline; });
  }

  /// A gain without its diverged runs decides nothing.
  void note_lost_runs(Estimate& e, const TableLine& line) const {
    if (!test_.chance) note_diverged_runs(e, std::array{&line, &baseline_of(line)});
  }

  std::vector<Estimate> gains() const {
    std::vector<Estimate> out;
    for (const TableLine* line : where_) {
      Estimate& e = out.emplace_back(Estimate{.label = line->label, .unit = unit(), .n = line->pairs});
      e.rows = {line->plan_index};
      e.values = gains_by_seed(*line);
      e.value = line->gain.value.value_or(0);
      if (const auto half = line->gain_half_width.value) {  // uncut: with Holm's cuts intervals miss twice as often
        e.low = e.value - *half;
        e.high = e.value + *half;
        judge_interval(e, test_.range);
      }
      note_lost_runs(e, *line);
    }
    return out;
  }

  static SeedValues gains_by_seed(const TableLine& line) {
    SeedValues gains;
    for (const TableSeed& seed : line.seeds)
      if (seed.gain) gains[seed.seed] = *seed.gain;
    return gains;
  }

  Estimate judged_contrast(Contrast contrast) const {
    Estimate e = judge_contrasts({std::move(contrast)}, test_.range, level_, input_.first_stage).front();
    for (const Lines* lines : {&where_, &against_})
      for (const TableLine* line : *lines) note_lost_runs(e, *line);
    return e;
  }

  Estimate interaction() const {
    if (where_.size() != 1 || against_.size() != 1)
      refuse(concat("\"where\" and \"against\" select ", where_.size(), " and ", against_.size(),
                    " rows; expected one each"));
    const TableLine &a = *where_[0], &b = *against_[0];
    Contrast difference{.label = concat("gain of ", a.label, " minus that of ", b.label),
                        .unit = unit(),
                        .rows = {a.plan_index, b.plan_index}};
    const SeedValues of_b = gains_by_seed(b);
    for (const auto& [seed, gain] : gains_by_seed(a))
      if (const auto found = of_b.find(seed); found != of_b.end()) difference.values[seed] = gain - found->second;
    return judged_contrast(std::move(difference));
  }

  /// Of the k-th row of `where` and the k-th of `against`.
  std::vector<Estimate> contrasts() const {
    if (where_.size() != against_.size())
      refuse(concat("\"where\" and \"against\" select ", where_.size(), " and ", against_.size(),
                    " rows; expected equally many"));
    std::vector<Contrast> contrasts;
    std::set<std::size_t> differ;  // axes in which the rows of the first pair differ
    for (std::size_t k = 0; k < where_.size(); ++k) {
      const TableLine &a = *where_[k], &b = *against_[k];
      std::set<std::size_t> axes;
      for (std::size_t x = 0; x < input_.axes.size(); ++x)
        if (input_.rows[a.plan_index].axes[x] != input_.rows[b.plan_index].axes[x]) axes.insert(x);
      if (k == 0) differ = axes;
      if (axes.empty() || axes != differ)
        refuse(concat("compares ", a.label, " with ", b.label,
                      axes.empty() ? ", the same row" : ", which differ in other axes than the rows before"));
      Contrast& contrast = contrasts.emplace_back(
          Contrast{.label = concat(a.label, " minus ", b.label), .unit = unit(), .rows = {a.plan_index, b.plan_index}});
      for (const TableSeed& one : a.seeds)
        for (const TableSeed& other : b.seeds)
          if (one.seed == other.seed && one.value && other.value)
            contrast.values[one.seed] = input_.scale * (*one.value - *other.value);
    }
    std::vector<Estimate> out = judge_contrasts(contrasts, test_.range, level_, input_.first_stage);
    for (std::size_t k = 0; k < out.size(); ++k) note_diverged_runs(out[k], std::array{where_[k], against_[k]});
    return out;
  }

  double axis_value(const TableLine& line) const {
    const FieldNames fields = table_fields(input_.axes);
    const auto axis = fields.find_axis(test_.over);
    if (!axis) refuse(concat("\"over\":", fields.unknown(test_.over)));
    const auto number = parse_number(input_.rows[line.plan_index].axes[*axis]);  // the line's lack unswept axes
    if (!number) refuse(concat("\"over\": the row ", line.label, " has no number on the axis ", test_.over));
    return *number;
  }

  /// The least squares slope of each seed's gains.
  Estimate slope() const {
    const double k = double(where_.size());
    double mean = 0, squares = 0;
    for (const TableLine* line : where_) mean += axis_value(*line) / k;
    for (const TableLine* line : where_) squares += std::pow(axis_value(*line) - mean, 2);
    if (!(squares > 0)) refuse(concat("all rows have the same ", test_.over, ", which gives no slope"));
    std::map<std::uint64_t, std::size_t> rows;
    Contrast slopes{.label = concat("slope over ", test_.over), .unit = unit()};
    for (const TableLine* line : where_)
      for (const auto& [seed, gain] : gains_by_seed(*line)) {
        slopes.values[seed] += gain * (axis_value(*line) - mean) / squares;
        ++rows[seed];
      }
    std::erase_if(slopes.values, [&](const auto& value) { return rows[value.first] != where_.size(); });
    return judged_contrast(std::move(slopes));
  }

  Estimate diverged() const {
    Estimate e = shares(1);
    const std::size_t seeds = std::size_t(diverged_runs(where_).second) / where_.size();
    if (e.verdict == Verdict::undecided)
      judge_multiples(e, std::max<std::size_t>(1, seeds), [&](double times) { return shares(times).verdict; });
    return e;
  }

  /// The estimate that `times` as many runs with the same shares would give.
  Estimate shares(double times) const {
    const bool alone = against_.empty();
    const auto [hits, n] = diverged_runs(where_);
    const auto [other_hits, other_n] = diverged_runs(against_);
    Estimate e{.label = alone ? "share of diverged runs" : "difference of the shares of diverged runs",
               .unit = alone ? "%" : "points",
               .n = std::size_t(n + other_n)};
    if (n == 0 || (!alone && other_n == 0)) return e;
    const double each = alone ? level_ : 1 - (1 - level_) / 2;
    const auto bounds = [&](std::int64_t some, std::int64_t all) {
      return clopper_pearson(std::llround(times * double(some)), std::llround(times * double(all)), each);
    };
    const Bounds one = bounds(hits, n), other = alone ? Bounds{0, 0} : bounds(other_hits, other_n);
    e.value = 100 * (double(hits) / double(n) - (alone ? 0 : double(other_hits) / double(other_n)));
    e.low = 100 * (one.low - other.high);
    e.high = 100 * (one.high - other.low);
    e.verdict = judge(test_.range, e.low, e.high);
    return e;
  }

  struct Best {
    double value = 0;                           // with the best mean
    double least = INFINITY, most = -INFINITY;  // of those not shown to be worse than another
    std::size_t n = 0;
  };
  /// By paired intervals of all pairs of values, at Bonferroni's level, as narrow as `times` the seeds would make
  /// them. None if a pair has no interval.
  std::optional<Best> best_of(const Lines& lines, double level, double times) const {
    const double direction = lower_is_better(test_.metric) ? -1 : 1;
    const double pairs = double(lines.size() * (lines.size() - 1)) / 2;
    const auto values = [&](const TableLine& line) {
      SeedValues by_seed;
      for (const TableSeed& seed : line.seeds)
        if (seed.value) by_seed[seed.seed] = direction * *seed.value;
      return by_seed;
    };
    Best best{.n = lines.front()->n};
    double top = -INFINITY;
    for (const TableLine* line : lines) {
      const SeedValues values_of_row = values(*line);
      bool beaten = false;
      for (const TableLine* other : lines) {
        if (other == line) continue;
        SeedValues differences;
        for (const auto& [seed, value] : values(*other))
          if (values_of_row.contains(seed)) differences[seed] = value - values_of_row.at(seed);
        const auto interval = staged_interval(differences, input_.first_stage, 1 - (1 - level) / pairs);
        if (!interval || !interval->half_width) return std::nullopt;
        beaten = beaten || interval->mean > *interval->half_width / std::sqrt(times);
        best.n = std::min(best.n, interval->n);
      }
      double mean = 0;
      for (const auto& [seed, value] : values_of_row) mean += value / double(values_of_row.size());
      if (mean > top) top = mean, best.value = axis_value(*line);
      if (beaten) continue;
      best.least = std::min(best.least, axis_value(*line));
      best.most = std::max(best.most, axis_value(*line));
    }
    return best;
  }

  Estimate best() const {
    if (where_.size() < 2 || against_.size() < 2)
      refuse(concat("\"where\" and \"against\" select ", where_.size(), " and ", against_.size(),
                    " rows; expected two or more each"));
    Estimate e = best_values(1);
    if (e.verdict == Verdict::undecided)
      judge_multiples(e, e.n, [&](double times) { return best_values(times).verdict; });
    for (const Lines* lines : {&where_, &against_}) note_diverged_runs(e, *lines);
    return e;
  }

  Estimate best_values(double times) const {
    Estimate e{.label = concat("best ", test_.over, " of ", test_.where, " minus that of ", test_.against), .unit = ""};
    const double each = 1 - (1 - level_) / 2;
    const auto one = best_of(where_, each, times), other = best_of(against_, each, times);
    if (!one || !other) return e;
    e.n = std::min(one->n, other->n);
    e.value = one->value - other->value;
    e.low = one->least - other->most;
    e.high = one->most - other->least;
    e.verdict = judge(test_.range, e.low, e.high);
    return e;
  }

  const ClaimTest& test_;
  const TableInput& input_;
  const double level_;
  const TableModel model_;
  Lines where_, against_;
};

}  // namespace

RowsJudged judge_rows(const ClaimTest& test, const TableInput& input, double level) {
  return RowJudge(test, input, level).judged();
}

}  // namespace normlab
