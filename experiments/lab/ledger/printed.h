// Accuracies that public repositories print, beside what the same recipes reach here.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "experiments/lab/ledger/ledger.h"

namespace normlab {

/// - within, below, above: our runs against theirs
/// - open: it depends on the epoch, which is not stated or not known
/// - too noisy: fewer than kPrintedSeeds runs, or an interval wider than kPrintedHalfWidth
/// - other images: our runs saw other images, and there is no rerun to compare with
enum class PrintedVerdict : std::uint8_t { within, below, above, open, too_noisy, other_images, not_run };
constexpr auto stated_words(PrintedVerdict) {
  return words<PrintedVerdict>("within", "below", "above", "open", "too noisy", "other images", "not run");
}

inline constexpr std::size_t kPrintedSeeds = 5;
inline constexpr double kPrintedHalfWidth = 1.5;  // points

struct PrintedLine {
  std::string row;  // its name; the descriptor's for the only one
  PrintedNumber number;
  RunOrigins origins;
  /// Percentages by seed: after the last epoch, and at the best on the test set or, for "best_minival", on that slice. Runs that diverged have neither, and those that were
  /// archived without their curves have no best.
  std::vector<double> last, best;
  PrintedVerdict verdict = PrintedVerdict::not_run;
  std::string why;  // "the last epoch is below, the best within"
};

/// The numbers of a descriptor.
struct PrintedSource {
  std::string name, command;  // the descriptor's stem; what runs it
  PrintedNumbers printed;
  std::vector<PrintedLine> lines;
  std::set<std::string> problems;  // results that cannot be read

  /// Why the images are others than the source's; "" if they are the same.
  std::string other_images(const PrintedLine& line) const;
};

/// Sets the verdict and its reason.
void judge_printed(PrintedLine& line, bool other_images);

/// `experiment` has a block "printed". InputError with a number's place if its filter is wrong, or does not select one
/// row.
PrintedSource judge_printed(const Experiment& experiment, const ResultStore& store);

/// "83.2 [80.9, 85.5]": the mean, and where a single run of theirs is expected. With more digits where an end would
/// otherwise look like `printed`. "-" without values.
std::string expected_text(const std::vector<double>& ours, const PrintedPercent& printed);

/// A summary, and for each descriptor a table and what is known about it.
std::string printed_numbers_text(const std::vector<PrintedSource>& sources, std::size_t width);
std::string printed_numbers_markdown(const std::vector<PrintedSource>& sources);
/// All values with all digits.
nlohmann::ordered_json printed_numbers_json(const std::vector<PrintedSource>& sources);

}  // namespace normlab
