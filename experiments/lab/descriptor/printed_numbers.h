// A descriptor's "printed": accuracies that a public repository prints for the descriptor's recipe. Not part of a trial or
// its id. `normlab claims --printed` compares them with results (experiments/lab/ledger/printed.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/field.h"
#include "experiments/lab/descriptor/json_tree.h"

namespace normlab {

/// A share such as 0.863 is a mistake.
inline constexpr Range kPrintedPercent{.low = 1, .high = 100};
struct PrintedPercent {
  double value = 0;
  int decimals = 0;  // as printed
};

/// The decimals of a number as it is written.
int decimals_of(const JsonNode& number);

/// Of which evaluation a number is: after the last epoch, the best on the test set, that at the best on `dataset.minival`,
/// or not stated.
enum class PrintedEvaluation : std::uint8_t { last, best, best_minival, unstated };
constexpr auto stated_words(PrintedEvaluation) {
  return words<PrintedEvaluation>("last", "best", "best_minival", "unstated");
}

/// What the source's own code reached on the images of our results.
struct Rerun {
  std::vector<PrintedPercent> values;
  PrintedEvaluation evaluation = PrintedEvaluation::last;
  std::string how;
};
template <std::same_as<Rerun> T>
constexpr auto rows_of(const T*) {
  constexpr Range kValues{.low = 1, .expected = "a list of one percentage or more, each from 1 to 100"};
  return Fields{field("values", &T::values, "", kValues).needed(), field("evaluation", &T::evaluation).needed(),
                field("how", &T::how, "", kNotEmpty).needed()};
}

struct PrintedNumber {
  std::string where;  // the filter of the one row that it is about; "": the only row
  PrintedPercent value;
  PrintedEvaluation evaluation = PrintedEvaluation::unstated;
  std::optional<Rerun> rerun;
  std::string place;  // "file:line:column: /printed/numbers/0"
};
template <std::same_as<PrintedNumber> T>
constexpr auto rows_of(const T*) {
  return Fields{field("where", &T::where, "", kNotEmpty), field("value", &T::value).needed(),
                field("evaluation", &T::evaluation).needed(), field("rerun", &T::rerun)};
}

/// same: the results are of the images that the source used.
enum class PrintedImages : std::uint8_t { same, other };
constexpr auto stated_words(PrintedImages) { return words<PrintedImages>("same", "other"); }

struct CommitName : std::string {};  // 7 to 40 hexadecimal digits

struct PrintedNumbers {
  std::string repository;  // "owner/name"
  CommitName commit;
  std::string file;  // that prints the numbers
  std::vector<PrintedNumber> numbers;
  std::vector<std::string> differs;  // sentences
  PrintedImages images = PrintedImages::same;
  std::string images_note;
  bool empty() const { return numbers.empty(); }
};
template <std::same_as<PrintedNumbers> T>
constexpr auto rows_of(const T*) {
  return Fields{field("repository", &T::repository, "", kNotEmpty).needed(),
                field("commit", &T::commit).needed(),
                field("file", &T::file, "", kNotEmpty).needed(),
                field("numbers", &T::numbers, "", kNotEmpty).needed(),
                field("differs", &T::differs, "", {.low = 1, .expected = "a list of one sentence or more"}),
                field("images", &T::images),
                field("images_note", &T::images_note, "", kNotEmpty)
                    .when({[](const T& printed) { return printed.images == PrintedImages::other; },
                           "only other images need a note; write \"images\": \"other\" beside it"})};
}

}  // namespace normlab
