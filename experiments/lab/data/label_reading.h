// What the labels of a list mean: names of classes, or numbers that count them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace normlab {

/// A line of a list.
struct ListedLabel {
  std::string image;  // empty: a label alone
  std::string label;
  std::size_t line = 0;
};

/// Whether `text` has digits alone.
bool is_number(const std::string& text);
/// Up to nine digits; nullopt for any other text.
std::optional<std::int64_t> small_number(const std::string& text);

/// A list of all classes that numbers may count.
struct CountedClasses {
  std::string order;  // "in the order of their names' bytes"
  std::vector<std::string> names;
};

struct LabelClasses {
  std::vector<std::string> names;       // label 0 first
  std::vector<CountedClasses> counted;  // more than one: nothing says which
  bool order_stated = false;            // by the descriptor or by a file that is not merely sorted
  std::optional<std::int64_t> from;     // DatasetConfig::labels_from
};

struct LabelReading {
  std::string words;  // "labels count from 1"
  std::map<std::string, std::int32_t> classes;

  bool operator==(const LabelReading& other) const { return classes == other.classes; }
};

/// If `from` is not given and each label is the name of a class, that class. Else all must be numbers. A number counts
/// the classes from 0 or from 1, in one of the orders, or is the name of a class but for zeros before it. InputError
/// names line and label: some labels are names and others are not, a label is none of these, labels fit two of these
/// and they differ, numbers count WNIDs although nothing says how.
LabelReading read_labels(const std::filesystem::path& file, const std::vector<ListedLabel>& labels,
                         const LabelClasses& classes);

}  // namespace normlab
