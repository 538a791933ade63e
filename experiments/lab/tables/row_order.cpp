// --order: whether rows are in the same order in two strips, such as placements on two data sets.
#include <fmt/core.h>

#include "core/error.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/statistics/student.h"
#include "experiments/lab/tables/table_filter.h"
#include "experiments/lab/tables/table_parts.h"

namespace normlab {
namespace {

/// The rows of a strip by their value of the axis.
using Ordered = std::map<std::string, std::size_t>;

Ordered ordered_rows(const TableInput& input, const TableStrip& strip, std::size_t axis) {
  std::vector<std::size_t> rows = strip.rows;
  rows.push_back(*strip.baseline);
  Ordered ordered;
  for (const std::size_t row : rows)
    if (const std::string& value = input.rows[row].axes[axis]; !ordered.emplace(value, row).second)
      throw InputError(
          fmt::format("--order {}: two rows beside one baseline have the value {}: {} and {}; name the axis in which "
                      "they differ",
                      input.axes[axis], value, input.rows[ordered.at(value)].label, input.rows[row].label));
  return ordered;
}

/// "between A and B: 0.76 ±0.19 (12 rows, 3 seeds)"; with b = a "within A ...".
std::string agreement_words(const std::string& where, const std::vector<SeedValues>& a,
                            const std::vector<SeedValues>& b) {
  const std::optional<Interval> agreement = order_agreement(a, b);
  if (!agreement) return where + ": unknown, as it takes three rows and two seeds that all of them have";
  return fmt::format("{}: {}{} ({}, {})", where, fixed(agreement->mean, 2),
                     agreement->half_width ? " ±" + fixed(*agreement->half_width, 2) : "", plural(a.size(), "row"),
                     plural(agreement->n, "seed"));
}

}  // namespace

std::vector<TableSentence> order_sentences(const TableInput& input, const TableOptions& options,
                                           const std::vector<TableStrip>& strips,
                                           const std::vector<SeedValues>& values) {
  if (options.order.empty()) return {};
  const auto axis = table_fields(input.axes).find_axis(options.order);
  if (!axis)
    throw InputError("--order: " + unknown_word("axis", options.order, {input.axes.begin(), input.axes.end()}));
  std::vector<Ordered> ordered;
  for (const TableStrip& strip : strips) ordered.push_back(ordered_rows(input, strip, *axis));
  std::vector<std::string> within, between;
  for (std::size_t s = 0; s < strips.size(); ++s) {
    std::vector<SeedValues> own;
    for (const auto& [value, row] : ordered[s]) own.push_back(values[row]);
    within.push_back(agreement_words("within " + strips[s].label, own, own));
    for (std::size_t t = s + 1; t < strips.size(); ++t) {
      std::vector<SeedValues> a, b;
      for (const auto& [value, row] : ordered[s])
        if (const auto other = ordered[t].find(value); other != ordered[t].end()) {
          a.push_back(values[row]);
          b.push_back(values[other->second]);
        }
      if (a.size() >= 3)
        between.push_back(agreement_words("between " + strips[s].label + " and " + strips[t].label, a, b));
    }
  }
  if (between.empty())
    throw InputError(
        fmt::format("--order {}: no two baselines have three of its values in common, so there are no two "
                    "orders to compare",
                    input.axes[*axis]));
  std::vector<TableSentence> sentences{
      {"order",
       "Order of rows: Spearman's correlation of two runs with different seeds, ± its 95% jackknife interval. Where two "
       "orders agree, it is as high between them as within them."}};
  for (const std::vector<std::string>* part : {&within, &between})
    for (const std::string& words : *part) sentences.push_back({"order", "Order " + words + "."});
  return sentences;
}

}  // namespace normlab
