#include "experiments/lab/data/class_order.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/data/image_files.h"
#include "experiments/lab/data/readers.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

bool digit(unsigned char c) { return std::isdigit(c) != 0; }

/// Texts in lower case and numbers without leading zeros in turn, beginning with a text. Before a number its length.
using NaturalKey = std::vector<std::pair<std::size_t, std::string>>;

NaturalKey natural_key(const std::string& name) {
  NaturalKey key;
  for (auto at = name.begin(); at != name.end();) {
    const auto number = std::find_if(at, name.end(), digit), end = std::find_if_not(number, name.end(), digit);
    key.emplace_back(0, lower_case({at, number}));
    if (number != end) {
      const std::string digits(std::find_if(number, end, [](char c) { return c != '0'; }), end);
      key.emplace_back(digits.size(), digits);
    }
    at = end;
  }
  return key;
}

}  // namespace

std::vector<std::string> in_bytes_order(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> in_natural_order(std::vector<std::string> names) {
  std::vector<std::pair<NaturalKey, std::string>> keyed;
  for (std::string& name : names) keyed.emplace_back(natural_key(name), std::move(name));
  std::sort(keyed.begin(), keyed.end());
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = std::move(keyed[i].second);
  return names;
}

std::optional<std::vector<std::string>> listed_order(const std::string& class_order, const fs::path& folder) {
  if (class_order.empty() || class_order == kBytesOrder || class_order == kNaturalOrder) return std::nullopt;
  const fs::path below = class_order;
  if (below.is_absolute() || std::find(below.begin(), below.end(), "..") != below.end())
    throw InputError(concat("class order ", in_quotes(class_order), " is no file below ", folder.string()));
  std::error_code error;
  if (!fs::exists(folder / below, error))
    throw InputError(concat((folder / below).string(), ": no such file; a class order is \"", kBytesOrder, "\", \"",
                            kNaturalOrder, "\", or a file below the data set's folder that lists the class names, ",
                            "label 0 first"));
  return read_class_names(folder / below);
}

std::vector<std::string> in_class_order(std::vector<std::string> names, const std::string& class_order,
                                        const fs::path& folder) {
  if (class_order == kBytesOrder) return in_bytes_order(std::move(names));
  if (class_order == kNaturalOrder) return in_natural_order(std::move(names));
  std::optional<std::vector<std::string>> listed = listed_order(class_order, folder);
  if (!listed) return names;
  const std::vector<std::string> sorted = in_bytes_order(*listed);
  for (const std::string& name : names)
    if (!std::binary_search(sorted.begin(), sorted.end(), name))
      throw InputError(concat((folder / class_order).string(), ": does not list the class ", in_quotes(name)));
  return std::move(*listed);
}

bool are_wnids(const std::vector<std::string>& names) {
  constexpr std::size_t kLength = 9;
  return std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return name.size() == kLength && name[0] == 'n' && std::all_of(name.begin() + 1, name.end(), digit);
  });
}

std::string beginning_of(const std::vector<std::string>& names, const std::vector<std::string>& other) {
  constexpr std::size_t kShown = 4;
  const std::size_t differ =
      std::size_t(std::mismatch(names.begin(), names.end(), other.begin(), other.end()).first - names.begin());
  const std::size_t first = differ < kShown ? 0 : differ, end = std::min(names.size(), first + kShown);
  std::string text = first > 0 ? "..., " : "";
  for (std::size_t i = first; i < end; ++i) text += concat(i == first ? "" : ", ", shown(names[i]));
  return text + (end < names.size() ? ", ..." : "");
}

}  // namespace normlab
