#include "experiments/results/table_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/results/text_layout.h"
#include "experiments/statistics/planning.h"

namespace normlab {
namespace {

constexpr double kLevel = 0.95;
constexpr double kPower = 0.8;
constexpr int kMaxDecimals = 6;

struct RowStatistics {
  std::map<std::uint64_t, double> values;  // in the unit of the table, by seed
  std::optional<Interval> mean, gain;
};

std::string fixed(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.front() == '-' && text.find_first_of("123456789") == text.npos) text.erase(0, 1);  // no "-0.0"
  return text;
}

std::string signed_fixed(double value, int decimals) {
  const std::string text = fixed(value, decimals);
  return text.front() == '-' ? text : "+" + text;
}

std::vector<RowStatistics> row_statistics(const TableSpec& spec) {
  std::vector<RowStatistics> rows(spec.rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const TableCellInput& cell : spec.rows[i].cells)
      if (cell.state == TrialState::done && cell.value) rows[i].values[cell.seed] = spec.scale * *cell.value;
    std::vector<double> values;
    for (const auto& [seed, value] : rows[i].values) values.push_back(value);
    rows[i].mean = mean_interval(values, kLevel);
  }
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (const auto baseline = spec.rows[i].baseline_row; baseline && *baseline < rows.size() && *baseline != i)
      rows[i].gain = paired_difference(rows[*baseline].values, rows[i].values, kLevel);
  return rows;
}

/// Digits for a column: those that its narrowest interval needs, so that the column lines up.
int column_decimals(const std::vector<RowStatistics>& rows, std::optional<Interval> RowStatistics::*interval,
                    int otherwise) {
  double narrowest = 0;
  for (const RowStatistics& row : rows) {
    const auto& entry = row.*interval;
    if (!entry || !entry->half_width || !std::isfinite(*entry->half_width)) continue;
    const double half_width = *entry->half_width;
    if (half_width > 0 && (narrowest == 0 || half_width < narrowest)) narrowest = half_width;
  }
  return narrowest > 0 ? decimals_for(narrowest) : otherwise;
}

/// "2/3 diverged @1200": the share is left out where it is all of them.
std::string share(std::size_t count, std::size_t planned) {
  return count == planned ? "" : fmt::format("{}/{} ", count, planned);
}

std::vector<std::string> state_notes(const std::vector<TableCellInput>& cells, const std::string& metric) {
  std::size_t missing = 0, running = 0, stopped = 0, unmeasured = 0;
  double running_progress = 0, stopped_progress = 0;
  std::vector<std::int64_t> diverged;
  std::map<std::string, std::size_t> failed;
  for (const TableCellInput& cell : cells) {
    if (cell.state == TrialState::done && !cell.value) ++unmeasured;
    if (cell.state == TrialState::diverged) diverged.push_back(cell.diverged_step);
    if (cell.state == TrialState::failed) ++failed[cell.message];
    if (cell.state == TrialState::running) ++running, running_progress += cell.progress;
    if (cell.state == TrialState::missing && cell.progress > 0) ++stopped, stopped_progress += cell.progress;
    if (cell.state == TrialState::missing && !(cell.progress > 0)) ++missing;
  }
  const auto percent = [](double sum, std::size_t count) { return std::floor(100 * sum / double(count)); };
  std::vector<std::string> notes;
  if (!diverged.empty()) {
    const auto [first, last] = std::minmax_element(diverged.begin(), diverged.end());
    notes.push_back(*first == *last
                        ? fmt::format("{}/{} diverged @{}", diverged.size(), cells.size(), *first)
                        : fmt::format("{}/{} diverged @{}..{}", diverged.size(), cells.size(), *first, *last));
  }
  for (const auto& [message, count] : failed)
    notes.push_back(share(count, cells.size()) + "failed" + (message.empty() ? "" : ": " + message));
  if (running > 0)
    notes.push_back(fmt::format("{}running {}%", share(running, cells.size()), percent(running_progress, running)));
  if (stopped > 0)
    notes.push_back(fmt::format("{}stopped at {}%", share(stopped, cells.size()), percent(stopped_progress, stopped)));
  if (missing > 0) notes.push_back(share(missing, cells.size()) + "missing");
  if (unmeasured > 0) notes.push_back(share(unmeasured, cells.size()) + "without " + metric);
  return notes;
}

/// The environments of all cells that count, numbered from 1 in the order of the rows.
std::vector<std::string> environments_of(const TableSpec& spec) {
  std::vector<std::string> names;
  for (const TableRow& row : spec.rows)
    for (const TableCellInput& cell : row.cells)
      if (cell.state == TrialState::done && std::find(names.begin(), names.end(), cell.environment) == names.end())
        names.push_back(cell.environment);
  return names;
}

std::string environment_note(const TableRow& row, const std::vector<std::string>& names) {
  std::set<std::size_t> numbers;
  for (const TableCellInput& cell : row.cells)
    if (cell.state == TrialState::done)
      numbers.insert(std::size_t(std::find(names.begin(), names.end(), cell.environment) - names.begin()) + 1);
  std::vector<std::string> words;
  for (const std::size_t number : numbers) words.push_back(fmt::format("{}", number));
  return words.empty() ? "" : "env " + joined(words, "+");
}

/// Pooled sd of the differences over all rows, each weighed by its degrees of freedom, and the most pairs that a row
/// has.
std::string detectable(const std::vector<RowStatistics>& rows, const TableSpec& spec, int decimals) {
  double squares = 0, freedom = 0;
  std::size_t pairs = 0;
  for (const RowStatistics& row : rows) {
    if (!row.gain || row.gain->n < 2) continue;
    squares += double(row.gain->n - 1) * row.gain->sd * row.gain->sd;
    freedom += double(row.gain->n - 1);
    pairs = std::max(pairs, row.gain->n);
  }
  if (pairs < 2 || !(squares > 0) || !std::isfinite(squares)) return "";
  const double sd = std::sqrt(squares / freedom);
  const std::string unit = spec.unit.empty() ? "" : spec.unit == "%" ? " percentage points" : " " + spec.unit;
  return fmt::format(
      "The smallest true gain that {} seeds show four times in five is {}{} (paired t-test at 5%, power 80%, "
      "differences "
      "with the sd {} pooled over the rows).",
      pairs, fixed(smallest_gain(sd, pairs, kPower), decimals), unit, fixed(sd, decimals + 1));
}

std::vector<std::string> footer_of(const TableSpec& spec, const std::vector<RowStatistics>& rows, int gain_decimals) {
  std::vector<std::string> footer;
  const auto any = [&](auto&& test) { return std::any_of(rows.begin(), rows.end(), test); };
  if (any([](const RowStatistics& row) { return row.mean && row.mean->half_width; }))
    footer.push_back(
        "± is the 95% Student-t interval of the mean over n seeds: over the randomness of training, with this test "
        "set.");
  else if (any([](const RowStatistics& row) { return row.mean.has_value(); }))
    footer.push_back("One seed has no interval: no ± is shown.");
  footer.push_back(fmt::format("{} is that of the last evaluation of each run; nothing was selected.", spec.metric));
  if (any([](const RowStatistics& row) { return row.gain.has_value(); })) {
    const bool intervals = any([](const RowStatistics& row) { return row.gain && row.gain->half_width; });
    footer.push_back(intervals ? "Gains are differences to the baseline, paired by seed; their ± holds for each row by "
                                 "itself, not for all rows at once."
                               : "Gains are differences to the baseline, paired by seed.");
    if (std::string sentence = detectable(rows, spec, gain_decimals); !sentence.empty())
      footer.push_back(std::move(sentence));
  }
  bool diverged = false;
  for (const TableRow& row : spec.rows)
    for (const TableCellInput& cell : row.cells) diverged = diverged || cell.state == TrialState::diverged;
  if (diverged) footer.push_back("Diverged runs count in neither mean nor gain: those speak of the runs that did not.");
  if (const auto names = environments_of(spec); names.size() > 1) {
    std::string sentence = "Mixed environments (env):";
    for (std::size_t i = 0; i < names.size(); ++i)
      sentence += fmt::format("{} {} = {}", i == 0 ? "" : ";", i + 1, names[i].empty() ? "not recorded" : names[i]);
    footer.push_back(sentence + ".");
  }
  return footer;
}

}  // namespace

int decimals_for(double half_width) {
  const int exponent = int(std::floor(std::log10(half_width)));
  const double leading = half_width / std::pow(10.0, exponent);
  return std::clamp(leading < 1.95 ? 1 - exponent : -exponent, 0, kMaxDecimals);
}

TableNumbers table_numbers(const TableSpec& spec) {
  const std::vector<RowStatistics> rows = row_statistics(spec);
  const int otherwise = spec.scale == 100 ? 2 : 4;
  const int decimals = column_decimals(rows, &RowStatistics::mean, otherwise);
  const int gain_decimals = column_decimals(rows, &RowStatistics::gain, decimals);
  const std::vector<std::string> environments = environments_of(spec);

  TableNumbers table;
  table.about = spec.about;
  table.heading = spec.unit.empty() ? spec.metric : fmt::format("{} [{}]", spec.metric, spec.unit);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const TableRow& row = spec.rows[i];
    const auto& [values, mean, gain] = rows[i];
    TableLine line;
    line.label = row.label;
    line.is_baseline = row.is_baseline;
    if (mean) line.mean = fixed(mean->mean, decimals);
    if (mean && mean->half_width) line.half_width = fixed(*mean->half_width, decimals);
    line.n = values.size() == row.cells.size() ? fmt::format("{}", values.size())
                                               : fmt::format("{}/{}", values.size(), row.cells.size());
    if (gain) {
      line.gain = signed_fixed(gain->mean, gain_decimals);
      if (gain->half_width) line.gain_half_width = fixed(*gain->half_width, gain_decimals);
      line.pairs = gain->n;
    }
    line.notes = state_notes(row.cells, spec.metric);
    if (gain && gain->n < values.size())
      line.notes.push_back(fmt::format("gain over {} seed{}", gain->n, gain->n == 1 ? "" : "s"));
    if (environments.size() > 1)
      if (std::string note = environment_note(row, environments); !note.empty()) line.notes.push_back(std::move(note));
    table.lines.push_back(std::move(line));
  }
  table.footer = footer_of(spec, rows, gain_decimals);
  return table;
}

}  // namespace normlab
