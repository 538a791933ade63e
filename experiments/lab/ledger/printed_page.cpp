#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/ledger/page.h"
#include "experiments/lab/ledger/printed.h"
#include "experiments/lab/statistics/student.h"
#include "experiments/lab/tables/markup.h"
#include "experiments/lab/tables/table_parts.h"

namespace normlab {
namespace {

std::string percent_text(const PrintedPercent& percent) { return fixed(percent.value, percent.decimals); }

std::string evaluation_words(PrintedEvaluation evaluation) {
  switch (evaluation) {
    case PrintedEvaluation::last:
      return "after the last epoch";
    case PrintedEvaluation::best:
      return "at the best epoch on the test set";
    case PrintedEvaluation::best_minival:
      return "at the best epoch on a validation slice";
    default:
      return "of an epoch that is not stated";
  }
}

std::vector<double> values_of(const Rerun& rerun) {
  std::vector<double> values;
  for (const PrintedPercent& value : rerun.values) values.push_back(value.value);
  return values;
}

std::vector<std::vector<std::string>> number_table(const PrintedSource& source) {
  std::vector<std::vector<std::string>> rows{
      {"row", "printed", "rerun", "last epoch", "best epoch", "seeds", "verdict"}};
  for (const PrintedLine& line : source.lines) {
    const PrintedNumber& number = line.number;
    const std::size_t planned = line.origins.runs, n = line.last.size();
    rows.push_back({line.row, concat(percent_text(number.value), " ", word_of(number.evaluation)),
                    number.rerun ? fmt::format("{} ({})", fixed(mean(values_of(*number.rerun)), number.value.decimals),
                                               number.rerun->values.size())
                                 : "-",
                    expected_text(line.last, number.value), expected_text(line.best, number.value),
                    n == planned ? std::to_string(n) : fmt::format("{} of {}", n, planned),
                    std::string(word_of(line.verdict))});
  }
  return rows;
}

std::string rerun_text(const PrintedLine& line) {
  const Rerun& rerun = *line.number.rerun;
  std::vector<std::string> values;
  for (const PrintedPercent& value : rerun.values) values.push_back(percent_text(value));
  std::string text = fmt::format("The source's own code reached {} {}. {}", joined(values, ", "),
                                 evaluation_words(rerun.evaluation), rerun.how);
  const std::vector<double>& ours =
      rerun.evaluation == PrintedEvaluation::best || rerun.evaluation == PrintedEvaluation::best_minival ? line.best
                                                                                                         : line.last;
  const auto expected = prediction_interval(ours, rerun.values.size());
  if (expected && expected->half_width && rerun.values.size() > 1)
    text += fmt::format(" The mean of {} is expected at {:.2f} ±{:.2f}.", plural(rerun.values.size(), "run"),
                        expected->mean, *expected->half_width);
  return text;
}

/// A heading and what it says, for each thing that is known about a descriptor's numbers.
std::vector<std::pair<std::string, std::string>> facts(const PrintedSource& source) {
  std::vector<std::pair<std::string, std::string>> out;
  const PrintedNumbers& printed = source.printed;
  out.emplace_back("Printed in", fmt::format("{} of {} at commit {}", printed.file, printed.repository,
                                             static_cast<const std::string&>(printed.commit)));
  std::set<std::string> images;
  for (const PrintedLine& line : source.lines)
    if (std::string other = source.other_images(line); !other.empty()) images.insert(std::move(other));
  for (const std::string& other : images) out.emplace_back("Other images", other);
  for (const std::string& sentence : printed.differs) out.emplace_back("Differs", sentence);
  for (const PrintedLine& line : source.lines) {
    const std::string of = source.lines.size() > 1 ? " of " + line.row : "";
    if (line.number.rerun) out.emplace_back("Rerun" + of, rerun_text(line));
    if (!line.why.empty()) out.emplace_back("Verdict" + of, concat(word_of(line.verdict), ": ", line.why));
    if (line.origins.done > 0) out.emplace_back("Runs" + of, runs_text(line.origins, "run"));
  }
  out.emplace_back("Command", source.command);
  return out;
}

std::vector<std::string> printed_summary(const std::vector<PrintedSource>& sources) {
  std::map<PrintedVerdict, std::size_t> count;
  std::set<std::string> repositories;
  std::size_t numbers = 0;
  for (const PrintedSource& source : sources) {
    repositories.insert(source.printed.repository);
    for (const PrintedLine& line : source.lines) ++count[line.verdict], ++numbers;
  }
  std::vector<std::string> counts;
  for (const auto& [verdict, lines] : count) counts.push_back(fmt::format("{} {}", lines, word_of(verdict)));
  return {
      fmt::format("{} of {}: {}.", plural(numbers, "printed number"),
                  repositories.size() == 1 ? "1 repository" : fmt::format("{} repositories", repositories.size()),
                  joined(counts, ", ")),
      fmt::format("83.2 [80.9, 85.5] is the mean of our seeds, and where one more run lies with probability 0.95. A "
                  "verdict is ours against theirs. It needs {} seeds and an interval of at most ±{} points.",
                  kPrintedSeeds, kPrintedHalfWidth)};
}

nlohmann::ordered_json expected_json(const std::vector<double>& values) {
  nlohmann::ordered_json out{{"n", values.size()}};
  const auto interval = prediction_interval(values);
  if (interval) out["mean"] = interval->mean;
  if (interval && interval->half_width) {
    out["sd"] = sample_sd(values);
    out["low"] = interval->mean - *interval->half_width;
    out["high"] = interval->mean + *interval->half_width;
  }
  return out;
}

}  // namespace

std::string expected_text(const std::vector<double>& ours, const PrintedPercent& printed) {
  const auto interval = prediction_interval(ours);
  if (!interval) return "-";
  int decimals = std::max(printed.decimals, 1);
  if (!interval->half_width) return fixed(interval->mean, decimals);
  const double low = interval->mean - *interval->half_width, high = interval->mean + *interval->half_width;
  const auto looks_equal = [&](double end) {
    return end != printed.value && fixed(end, decimals) == fixed(printed.value, decimals);
  };
  while (decimals < 4 && (looks_equal(low) || looks_equal(high))) ++decimals;
  return fmt::format("{} [{}, {}]", fixed(interval->mean, decimals), fixed(low, decimals), fixed(high, decimals));
}

std::string printed_numbers_text(const std::vector<PrintedSource>& sources, std::size_t width) {
  std::string out;
  const auto add = [&](const std::string& text, std::size_t indent) {
    for (const std::string& each : wrapped(text, width - indent)) out += std::string(indent, ' ') + each + "\n";
  };
  for (const std::string& sentence : printed_summary(sources)) add(sentence, 0);
  for (const PrintedSource& source : sources) {
    out += "\n";
    add(source.name, 0);
    out += text_table(number_table(source), std::min(width, kWidestTable), 0);
    for (const auto& [heading, text] : facts(source)) add(heading + ": " + text, 2);
  }
  return out;
}

std::string printed_numbers_markdown(const std::vector<PrintedSource>& sources) {
  std::string out;
  for (const std::string& sentence : printed_summary(sources))
    out += broken_lines("- " + sentence, kWidestMarkdown) + "\n";
  for (const PrintedSource& source : sources) {
    out += fmt::format("\n### {}\n\n{}\n", source.name, markdown_table(number_table(source)));
    for (const auto& [heading, text] : facts(source))
      out += broken_lines(fmt::format("- {}: {}", heading, markdown_cell(text)), kWidestMarkdown) + "\n";
  }
  return out;
}

nlohmann::ordered_json printed_numbers_json(const std::vector<PrintedSource>& sources) {
  nlohmann::ordered_json out{{"schema", 1},
                             {"level", kClaimLevel},
                             {"least_seeds", kPrintedSeeds},
                             {"widest_half_width", kPrintedHalfWidth},
                             {"printed", nlohmann::ordered_json::array()}};
  for (const PrintedSource& source : sources)
    for (const PrintedLine& line : source.lines) {
      const PrintedNumbers& printed = source.printed;
      nlohmann::ordered_json one{{"name", source.name},
                                 {"row", line.row},
                                 {"repository", printed.repository},
                                 {"commit", printed.commit},
                                 {"file", printed.file},
                                 {"printed", line.number.value.value},
                                 {"evaluation", word_of(line.number.evaluation)},
                                 {"other_images", source.other_images(line)},
                                 {"differs", printed.differs},
                                 {"last", expected_json(line.last)},
                                 {"best", expected_json(line.best)},
                                 {"verdict", word_of(line.verdict)},
                                 {"why", line.why},
                                 {"machines", line.origins.machines},
                                 {"uncommitted", line.origins.uncommitted},
                                 {"runs", line.origins.runs},
                                 {"done", line.origins.done},
                                 {"command", source.command}};
      if (const auto& rerun = line.number.rerun)
        one["rerun"] = {{"values", values_of(*rerun)}, {"evaluation", word_of(rerun->evaluation)}, {"how", rerun->how}};
      out["printed"].push_back(std::move(one));
    }
  return out;
}

}  // namespace normlab
