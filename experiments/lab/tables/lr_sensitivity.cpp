#include "experiments/lab/tables/lr_sensitivity.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/sweep.h"
#include "experiments/lab/tables/row_columns.h"
#include "experiments/lab/tables/table_filter.h"
#include "experiments/lab/tables/table_parts.h"
#include "experiments/lab/trials/trial_result.h"

namespace normlab {
namespace {

constexpr double kUneven = 0.1;           // relative deviation of a factor's logarithm
constexpr std::size_t kResultsNamed = 3;  // in an error

/// What a run without a result says about its seed: the worse comes first.
bool is_worse(SeedState a, SeedState b) {
  constexpr SeedState kOrder[] = {SeedState::unreadable, SeedState::failed, SeedState::running, SeedState::stopped,
                                  SeedState::missing};
  const auto rank = [&](SeedState state) { return std::find(std::begin(kOrder), std::end(kOrder), state); };
  return rank(a) < rank(b);
}

class Collapse {
 public:
  Collapse(const TableInput& swept, const TableOptions& options)
      : swept_(swept),
        axis_(std::size_t(std::find(swept.axes.begin(), swept.axes.end(), kRateAxis) - swept.axes.begin())) {
    if (options.bootstrap)
      throw InputError(
          "--bootstrap: is about the evaluation's images, --lr-sensitivity about the training loss; leave "
          "one of them out");
    TableOptions plain = options;
    plain.where = plain.sort = "";
    plain.rows = plain.cols = {};
    plain.detect = plain.equivalent = std::nullopt;
    plain.lr_sensitivity = false;
    plain.order = "";
    plain.columns = {};
    plain.pairs = TablePairs::none;
    plain.letters = false;
    by_rate_ = table_model(swept, plain);
    learned_ = options.learned;
    lower_ = lower_is_better(options.metric);
  }

  TableInput input() {
    group_rows();
    require_losses();
    TableInput out;
    out.about = swept_.about;
    out.name = swept_.name;
    out.labels = swept_.labels;
    out.axes = without_rate(swept_.axes);
    out.unit = "";
    out.scale = 1;
    out.first_stage = swept_.first_stage;
    out.best_heading = "best " + by_rate_.metric_heading();
    for (const std::vector<std::size_t>& group : groups_) out.rows.push_back(row_of(group, out.axes));
    set_baselines(out.rows);
    out.definition = definition(out.rows);
    // Statements about the runs, which the rows of the new table do not have.
    constexpr std::string_view kKept[] = {"unfinished",   "unreadable", "early_stop", "arithmetic", "unsealed",
                                          "environments", "bad_images", "guessing",   "jpeg_copy"};
    for (const TableSentence& sentence : by_rate_.footer)
      if (std::find(std::begin(kKept), std::end(kKept), sentence.key) != std::end(kKept))
        out.remarks.push_back(sentence.text);
    note_train_losses(out);
    return out;
  }

 private:
  std::vector<std::string> without_rate(std::vector<std::string> values) const {
    if (axis_ < values.size()) values.erase(values.begin() + std::ptrdiff_t(axis_));
    return values;
  }

  double rate_of(std::size_t row) const { return *parse_number(swept_.rows[row].axes[axis_]); }

  /// Rows that differ in nothing but the rate, by rate. A row without a rate, such as an unreadable one, is its own
  /// group.
  void group_rows() {
    std::map<std::vector<std::string>, std::size_t> group_of;
    bool two = false;
    for (std::size_t r = 0; axis_ < swept_.axes.size() && r < swept_.rows.size(); ++r) {
      const auto rate = parse_number(swept_.rows[r].axes[axis_]);
      if (!rate) {
        groups_.push_back({r});
        continue;
      }
      if (!(*rate > 0))
        throw InputError(fmt::format("--lr-sensitivity: {}: a rate of {} has no logarithm; leave it out of the sweep",
                                     swept_.rows[r].label, *rate));
      const auto [known, added] = group_of.try_emplace(without_rate(swept_.rows[r].axes), groups_.size());
      if (added) groups_.emplace_back();
      groups_[known->second].push_back(r);
      two = two || !added;
    }
    if (!two)
      throw InputError(
          fmt::format("--lr-sensitivity: no row has two rates; sweep over {} in the descriptor, with rates "
                      "evenly spaced in the logarithm",
                      kRateAxis));
    for (std::vector<std::size_t>& group : groups_)
      std::stable_sort(group.begin(), group.end(),
                       [&](auto a, auto b) { return group.size() > 1 && rate_of(a) < rate_of(b); });
  }

  void require_losses() const {
    std::vector<std::string> lacking;
    std::size_t results = 0;
    for (const TableRow& row : swept_.rows)
      for (const TableSeed& run : row.seeds) {
        results += is_finished(run) ? 1 : 0;
        // A run that diverged in its first step has no loss at the start, and needs none of its own.
        const bool complete = run.first_loss && (run.final_loss || run.state == SeedState::diverged);
        if (is_finished(run) && !complete && !(run.state == SeedState::diverged && run.diverged_step == 0))
          lacking.push_back(fmt::format("{}, seed {} (trial {})", row.label, run.seed, run.trial));
      }
    if (lacking.empty()) return;
    std::vector<std::string> named(lacking.begin(),
                                   lacking.begin() + std::ptrdiff_t(std::min(lacking.size(), kResultsNamed)));
    if (lacking.size() > named.size()) named.push_back(fmt::format("{} more", lacking.size() - named.size()));
    throw InputError(fmt::format(
        "--lr-sensitivity: {} of {} results lack {} or {}, because an older version of normlab wrote them: {}; remove "
        "the folders of these trials, run the descriptor again and, for --from, export it again",
        lacking.size(), results, kFirstLoss, kTrainLoss, joined(named, "; ")));
  }

  void note_train_losses(TableInput& out) const {
    std::size_t counts[2] = {};
    for (const TableRow& row : swept_.rows)
      for (const TableSeed& run : row.seeds)
        if (run.state == SeedState::done) ++counts[run.last_steps];
    if (std::string text = mixed_train_losses(counts[1], counts[0]); !text.empty()) out.remarks.push_back(text);
  }

  TableRow row_of(const std::vector<std::size_t>& group, const std::vector<std::string>& axes) const {
    TableRow row;
    row.axes = without_rate(swept_.rows[group.front()].axes);
    AxisLabels labels;
    for (std::size_t a = 0; a < axes.size(); ++a)
      if (!row.axes[a].empty()) labels.emplace_back(axes[a], row.axes[a]);
    row.label = row_label(labels, axes, swept_.name.empty() ? "all" : swept_.name);
    if (!parse_number(swept_.rows[group.front()].axes[axis_])) row.label = swept_.rows[group.front()].label;
    std::vector<std::uint64_t> seeds;
    for (const std::size_t r : group) {
      row.apart = row.apart || swept_.rows[r].apart;
      TableRate& rate = row.rates.emplace_back();
      rate.label = swept_.rows[r].axes[axis_];
      rate.rate = parse_number(rate.label).value_or(0);
      for (const TableSeed& run : swept_.rows[r].seeds)
        if (std::find(seeds.begin(), seeds.end(), run.seed) == seeds.end()) seeds.push_back(run.seed);
    }
    for (const std::uint64_t seed : seeds) row.seeds.push_back(seed_of(group, seed, row.rates));
    take_common_cost(row, swept_.rows, group);
    set_best(group, row);
    add_remarks(group, row);
    return row;
  }

  /// Adds the seed's losses to `rates`, which are the group's.
  TableSeed seed_of(const std::vector<std::size_t>& group, std::uint64_t seed, std::vector<TableRate>& rates) const {
    TableSeed all;
    all.seed = seed;
    all.state = SeedState::done;
    std::optional<double> first;  // before the first update all rates have the same loss
    for (const std::size_t r : group)
      if (const TableSeed* run = swept_.rows[r].run_of(seed); run != nullptr && run->first_loss)
        first = run->first_loss;
    std::vector<double> losses;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const TableSeed* const run = swept_.rows[group[i]].run_of(seed);
      const SeedState state = run == nullptr ? SeedState::missing : run->state;
      if (run != nullptr && is_finished(*run)) {
        all.progress += 1.0 / double(group.size());
        if (!first) continue;  // all diverged in the first step
        const bool diverged = state == SeedState::diverged;
        losses.push_back(counted_loss(diverged ? std::nullopt : run->final_loss, run->first_loss.value_or(*first)));
        rates[i].runs.push_back({seed, losses.back(), diverged});
        continue;
      }
      if (run != nullptr) all.progress += run->progress / double(group.size());
      if (all.state != SeedState::done && !is_worse(state, all.state)) continue;
      all.state = state;
      if (run != nullptr) all.message = run->message, all.fault = run->fault;
    }
    if (all.state == SeedState::missing && all.progress > 0) all.state = SeedState::stopped;
    if (losses.size() == group.size() && group.size() > 1) all.value = lr_sensitivity(losses);
    return all;
  }

  /// The best mean among the rates at which most seeds count.
  void set_best(const std::vector<std::size_t>& group, TableRow& row) const {
    const TableLine* best = nullptr;
    for (const std::size_t r : group) {
      const TableLine& line = by_rate_.lines[r];
      if (!line.mean.value) continue;
      const bool better =
          best == nullptr || line.n > best->n ||
          (line.n == best->n && (lower_ ? *line.mean.value < *best->mean.value : *line.mean.value > *best->mean.value));
      if (better) best = &line;
    }
    if (best == nullptr) return;
    row.best = {best->mean, best->half_width, best->n, best->count, swept_.rows[best->plan_index].axes[axis_]};
  }

  void add_remarks(const std::vector<std::size_t>& group, TableRow& row) const {
    std::size_t complete = 0, diverged = 0, runs = 0;
    std::vector<std::string> unlearned;
    for (std::size_t i = 0; i < group.size(); ++i) {
      const std::vector<TableSeed>& seeds = swept_.rows[group[i]].seeds;
      complete += seeds.size() == row.seeds.size() && std::all_of(seeds.begin(), seeds.end(), is_finished) ? 1 : 0;
      runs += seeds.size();
      for (const TableSeed& run : seeds) diverged += run.state == SeedState::diverged ? 1 : 0;
      if (learned_ && has_not_learned(seeds, *learned_)) unlearned.push_back(row.rates[i].label);
    }
    if (group.size() == 1 && row.rates.front().rate > 0) row.remarks.push_back("one rate");
    if (complete < group.size()) row.remarks.push_back(fmt::format("{}/{} rates", complete, group.size()));
    if (diverged > 0) row.remarks.push_back(fmt::format("{}/{} runs diverged", diverged, runs));
    if (!unlearned.empty()) row.remarks.push_back("has not learned at " + joined(unlearned, ", "));
  }

  static std::vector<double> rates_of(const TableRow& row) {
    std::vector<double> rates;
    for (const TableRate& rate : row.rates) rates.push_back(rate.rate);
    return rates;
  }

  void set_baselines(std::vector<TableRow>& rows) const {
    std::vector<std::size_t> new_row(swept_.rows.size());
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (const std::size_t r : groups_[g]) new_row[r] = g;
    std::set<std::size_t> compared_with;
    for (std::size_t g = 0; g < rows.size(); ++g)
      for (const std::size_t r : groups_[g])
        if (const auto baseline = swept_.rows[r].baseline) {
          rows[g].baseline = new_row[*baseline];
          if (rates_of(rows[new_row[*baseline]]) != rates_of(rows[g])) rows[g].baseline.reset();
          if (rows[g].baseline && *rows[g].baseline != g) compared_with.insert(*rows[g].baseline);
          break;
        }
    // A row that was compared with itself at another rate only has no baseline here.
    for (std::size_t g = 0; g < rows.size(); ++g)
      if (rows[g].baseline == g && !compared_with.contains(g)) rows[g].baseline.reset();
  }

  /// "7 rates from 0.0003 to 0.3".
  static std::string range_of(const TableRow& row) {
    return fmt::format("{} from {} to {}", plural(row.rates.size(), "rate"), row.rates.front().label,
                       row.rates.back().label);
  }

  std::string definition(std::vector<TableRow>& rows) const {
    std::set<std::string> ranges;
    std::vector<std::string> uneven;
    for (const TableRow& row : rows) {
      if (row.rates.size() < 2) continue;
      ranges.insert(range_of(row));
      if (!evenly_spaced(rates_of(row))) uneven.push_back(row.label);
    }
    if (ranges.size() > 1)
      for (TableRow& row : rows)
        if (row.rates.size() > 1) row.remarks.push_back(range_of(row));
    std::string text = fmt::format(
        "{}: the mean over {} of the training loss at the end, minus the lowest of these losses (Wortsman et al., "
        "2023). A loss counts at most as that of the run's first step, and a diverged run as that. Smaller is better; "
        "other rates give other numbers.",
        kLrSensitivity, ranges.size() == 1 ? *ranges.begin() : "the rates of a row");
    if (!uneven.empty())
      text +=
          fmt::format(" Warning: the rates{} are not evenly spaced in the logarithm, so the denser ones weigh more.",
                      uneven.size() == rows.size() ? "" : " of " + joined(uneven, ", "));
    return text + fmt::format(" The best {} is that of the rate with the best mean, chosen by this mean itself.",
                              by_rate_.metric);
  }

  const TableInput& swept_;
  std::size_t axis_;
  TableModel by_rate_;  // a line per row of swept_, in its order
  std::optional<double> learned_;
  bool lower_ = false;
  std::vector<std::vector<std::size_t>> groups_;  // rows of swept_ by row of the new table
};

}  // namespace

double counted_loss(std::optional<double> final_loss, double first_loss) {
  return final_loss ? std::min(*final_loss, first_loss) : first_loss;
}

double lr_sensitivity(std::span<const double> losses) {
  const double lowest = *std::min_element(losses.begin(), losses.end());
  double sum = 0;  // of differences, so that equal losses give exactly 0
  for (const double loss : losses) sum += loss - lowest;
  return sum / double(losses.size());
}

bool evenly_spaced(std::span<const double> rates) {
  if (rates.size() < 3) return true;
  const double gap = std::log(rates.back() / rates.front()) / double(rates.size() - 1);
  for (std::size_t i = 1; i < rates.size(); ++i)
    if (std::abs(std::log(rates[i] / rates[i - 1]) - gap) > kUneven * gap) return false;
  return true;
}

TableInput lr_sensitivity_input(const TableInput& swept, const TableOptions& options) {
  return Collapse(swept, options).input();
}

TableOptions lr_sensitivity_options(TableOptions options) {
  options.metric = kLrSensitivity;
  options.diverged = TableDiverged::exclude;
  return options;
}

}  // namespace normlab
