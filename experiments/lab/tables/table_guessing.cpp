// What the footer says of evaluated slices.
#include <fmt/core.h>

#include <algorithm>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/metric_names.h"
#include "experiments/lab/tables/table_parts.h"

namespace normlab {
namespace {

/// "; always the most frequent class: 81.6%"
std::string guess_words(double guess, std::string_view measured, const std::string& unit) {
  if (is_loss(measured)) return fmt::format("; the lowest loss of one answer for all of them: {:.4g}", guess);
  const int decimals = guess < 0.001 ? 3 : guess < 0.01 ? 2 : 1;
  return fmt::format("; always the {}: {}",
                     measured == "top5_accuracy" ? "five most frequent classes" : "most frequent class",
                     unit == "%" ? fmt::format("{:.{}f}%", 100 * guess, decimals) : fmt::format("{:.4g}", guess));
}

/// The values of a row's axes that choose its data: "cats".
std::string data_of(const TableLine& line, const std::vector<std::string>& axes) {
  std::vector<std::string> parts;
  for (std::size_t a = 0; a < axes.size() && a < line.axes.size(); ++a)
    if ((axes[a] == kBenchmarkAxis || axes[a].starts_with("dataset")) && !line.axes[a].empty())
      parts.push_back(line.axes[a]);
  return joined(parts, ", ");
}

/// An evaluated slice, and the data of the rows that were evaluated on it.
struct Evaluated {
  std::int64_t images;
  std::optional<double> guess;
  std::vector<std::string> data;
};

std::vector<Evaluated> evaluated_in(const TableInput& input, const std::vector<TableLine>& lines) {
  std::vector<Evaluated> all;
  for (const TableLine& line : lines)
    for (const TableSeed& seed : line.seeds) {
      if (!line.has_runs() || seed.images == 0) continue;
      auto known = std::find_if(all.begin(), all.end(), [&](const Evaluated& one) {
        return one.images == seed.images && one.guess == seed.guess;
      });
      if (known == all.end()) known = all.insert(all.end(), {seed.images, seed.guess, {}});
      std::string data = data_of(line, input.axes);
      if (std::find(known->data.begin(), known->data.end(), data) == known->data.end())
        known->data.push_back(std::move(data));
    }
  return all;
}

}  // namespace

std::vector<TableSentence> guessing_sentences(const TableInput& input, const TableOptions& options,
                                              const std::vector<TableLine>& lines) {
  std::vector<TableSentence> sentences;
  const MetricName of = parts_of_metric(options.metric);
  const std::string_view word = of.slice == "eval"      ? "evaluation slice"
                                : of.slice == "minival" ? "minival"
                                                        : "measured part of the training slice";
  const std::vector<Evaluated> slices = evaluated_in(input, lines);
  for (const Evaluated& slice : slices) {
    const std::string whose = slices.size() > 1 ? joined(slice.data, "; ") : "";
    sentences.push_back(
        {"guessing",
         fmt::format("{} {} has {}{}.", whose.empty() ? "The" : whose + ": the", word, plural(slice.images, "image"),
                     slice.guess ? guess_words(*slice.guess, of.measured, input.unit) : "")});
  }
  const bool above = std::any_of(lines.begin(), lines.end(), [](const TableLine& line) {
    return std::any_of(line.seeds.begin(), line.seeds.end(), [](const TableSeed& seed) { return seed.above_guessing; });
  });
  if (above)
    sentences.push_back({"above_guessing",
                         "Loss above guessing: the last eval/loss is above the lowest loss that one answer for all "
                         "images can have."});
  return sentences;
}

}  // namespace normlab
