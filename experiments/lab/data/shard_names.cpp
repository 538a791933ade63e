#include "experiments/lab/data/shard_names.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/text_layout.h"

namespace normlab {
namespace {

constexpr std::size_t kMostNames = 100000;

[[noreturn]] void refuse(std::string_view text, const std::string& what) {
  throw InputError(
      concat("shards ", in_quotes(text), ": ", what, "; expected names such as \"pets-train-{0000..0146}.tar\""));
}

/// Splits at separators outside braces.
std::vector<std::string_view> split_names(std::string_view text) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{') {
      if (inside) refuse(text, concat("byte ", i, ": a brace inside a brace"));
      inside = true;
    } else if (c == '}') {
      if (!inside) refuse(text, concat("byte ", i, ": a closing brace without an opening one"));
      inside = false;
    } else if (c == ',' && !inside) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (inside) refuse(text, "a brace is not closed");
  parts.push_back(text.substr(begin));
  return parts;
}

std::int64_t number(std::string_view text, std::string_view digits) {
  const std::optional<std::uint64_t> value = whole_number(digits);
  if (!value || digits.size() > 12) refuse(text, concat(in_quotes(digits), " is not a number of up to 12 digits"));
  return std::int64_t(*value);
}

std::vector<std::string> words_of_brace(std::string_view text, std::string_view inner) {
  std::vector<std::string> words;
  const std::size_t dots = inner.find("..");
  if (dots == inner.npos) {
    for (std::size_t begin = 0;;) {
      const std::size_t comma = std::min(inner.find(',', begin), inner.size());
      if (comma == begin) refuse(text, concat("an empty word in {", inner, "}"));
      words.emplace_back(inner.substr(begin, comma - begin));
      if (comma == inner.size()) return words;
      begin = comma + 1;
    }
  }
  const std::string_view first = inner.substr(0, dots), last = inner.substr(dots + 2);
  const std::int64_t low = number(text, first), high = number(text, last);
  const auto padded = [](std::string_view digits) { return digits.size() > 1 && digits[0] == '0'; };
  if (low > high) refuse(text, concat("{", inner, "} counts down"));
  if ((padded(first) || padded(last)) && first.size() != last.size())
    refuse(text, concat("{", inner, "}: numbers with leading zeros must have the same length"));
  if (high - low >= static_cast<std::int64_t>(kMostNames))
    refuse(text, concat("expands to more than ", kMostNames, " names"));
  for (std::int64_t i = low; i <= high; ++i)
    words.push_back(fmt::format("{:0{}}", i, padded(first) ? first.size() : 0));
  return words;
}

std::vector<std::string> expand(std::string_view text, std::string_view name) {
  std::vector<std::string> out{""};
  while (!name.empty()) {
    const std::size_t open = std::min(name.find('{'), name.size());
    for (std::string& each : out) each += name.substr(0, open);
    if (open == name.size()) break;
    const std::size_t close = name.find('}', open);
    const std::vector<std::string> words = words_of_brace(text, name.substr(open + 1, close - open - 1));
    if (out.size() * words.size() > kMostNames) refuse(text, concat("expands to more than ", kMostNames, " names"));
    std::vector<std::string> longer;
    for (const std::string& each : out) {
      for (const std::string& word : words) longer.push_back(each + word);
    }
    out = std::move(longer);
    name.remove_prefix(close + 1);
  }
  return out;
}

}  // namespace

std::vector<std::string> expand_shard_names(std::string_view text) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const std::string_view part : split_names(text)) {
    for (std::string& name : expand(text, part)) {
      if (name.empty()) refuse(text, "a name is empty");
      const std::filesystem::path path = name;
      if (path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
        refuse(text, concat(in_quotes(name), " is outside the folder of the data set"));
      if (!seen.insert(name).second) refuse(text, concat(in_quotes(name), " occurs twice"));
      if (seen.size() > kMostNames) refuse(text, concat("expands to more than ", kMostNames, " names"));
      names.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace normlab
