#include "experiments/lab/tables/external_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "core/visible_text.h"
#include "experiments/lab/base/text_layout.h"

namespace normlab {
namespace {

TableRow external_row(const TableInput& input, const ExternalNumbers& numbers, const std::string& name) {
  TableRow row;
  row.external = visible_line(numbers.label);
  row.label = concat(row.external, ": ", visible_line(name));
  row.axes.resize(input.axes.size());
  const auto same = std::find_if(input.rows.begin(), input.rows.end(),
                                 [&](const TableRow& ours) { return ours.external.empty() && ours.label == name; });
  if (same != input.rows.end()) {
    row.same_named = std::size_t(same - input.rows.begin());
    row.axes = same->axes;
  }
  if (!row.axes.empty())
    row.axes[0] = concat(row.external, ": ", row.same_named && !row.axes[0].empty() ? row.axes[0] : visible_line(name));
  row.remarks.push_back("external");
  return row;
}

std::vector<double> numbers_in(const SeedValues& values) {
  std::vector<double> numbers;
  for (const auto& [seed, value] : values) numbers.push_back(value);
  return numbers;
}

}  // namespace

void add_external_rows(TableInput& input, const Experiment& e, const std::string& metric) {
  std::vector<std::string> files, without, strangers;
  for (const ExternalNumbers& numbers : e.external) {
    const std::size_t first = input.rows.size();
    std::vector<std::string> names;
    std::set<std::string> metrics;
    for (const ExternalValue& given : numbers.values) {
      metrics.insert(visible_line(given.metric));
      if (given.metric != metric) continue;
      const auto known = std::find(names.begin(), names.end(), given.row);
      const std::size_t r = first + std::size_t(known - names.begin());
      if (known == names.end()) {
        names.push_back(given.row);
        input.rows.push_back(external_row(input, numbers, given.row));
        if (!input.rows.back().same_named) strangers.push_back(input.rows.back().label);
      }
      TableSeed& seed = input.rows[r].seeds.emplace_back();
      seed.seed = given.seed;
      seed.state = SeedState::done;
      seed.value = given.value;
    }
    std::string source = concat(visible_line(numbers.label), " (",
                                visible_line(std::filesystem::path(numbers.file).filename().string()));
    if (names.empty())
      source +=
          " has " + first_few(std::vector(metrics.begin(), metrics.end()), [](const std::string& m) { return m; });
    (names.empty() ? without : files).push_back(source + ")");
  }
  const bool compared =
      std::any_of(input.rows.begin(), input.rows.end(), [](const TableRow& row) { return row.same_named.has_value(); });
  if (!files.empty())
    input.remarks.push_back(
        fmt::format("External, not trained here, and in no other number: {}.{}", joined(files, ", "),
                    !compared ? ""
                              : fmt::format(" Their gain is over our row of the same name, unpaired: Welch's 95% t "
                                            "interval, each on its own{}.",
                                            lower_is_better(metric) ? "; positive where it is lower" : "")));
  if (!strangers.empty())
    input.remarks.push_back(fmt::format("External rows without a row of that name here have no gain: {}.",
                                        first_few(strangers, [](const std::string& label) { return label; })));
  if (!without.empty())
    input.remarks.push_back(fmt::format("External numbers without {}: {}.", metric, joined(without, ", ")));
}

void compare_external(TableLine& line, const std::vector<SeedValues>& values, double direction, double level) {
  if (!line.same_named) return;
  const std::vector<double> own = numbers_in(values[line.plan_index]), ours = numbers_in(values[*line.same_named]);
  if (own.empty() || ours.empty()) return;
  line.gain.value = direction * (mean(own) - mean(ours));
  if (own.size() < 2 || ours.size() < 2) return;
  const WelchInterval welch = welch_interval(own, ours, level);
  if (!welch.p) return;
  line.procedure = kUnpaired;
  line.gain_half_width.value = welch.half_width;
  line.gain_low.value = *line.gain.value - welch.half_width;
  line.gain_high.value = *line.gain.value + welch.half_width;
  line.differs = *line.gain_low.value > 0 || *line.gain_high.value < 0;
  line.p.value = *welch.p;
}

}  // namespace normlab
