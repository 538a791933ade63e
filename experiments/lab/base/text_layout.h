// Fits text to a width, counted in code points.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

std::size_t display_width(std::string_view text);

/// `text`, with its middle replaced by one "…" if it is wider than `columns`.
std::string shorten_middle(const std::string& text, std::size_t columns);

/// At least one line, each at most `columns` > 0 wide. Words longer than a line are split.
std::vector<std::string> wrapped(const std::string& text, std::size_t columns);

/// Wider prose is hard to read.
inline constexpr std::size_t kWidestProse = 100;

/// Breaks lines longer than `columns` between words and indents their continuations by two more columns.
std::string broken_lines(std::string_view text, std::size_t columns);

/// "1 epoch", "7 epochs", for a number already written as text.
inline std::string plural(std::string_view count, std::string_view one) {
  return std::string(count) + " " + std::string(one) + (count == "1" ? "" : "s");
}
template <std::integral Count>
std::string plural(Count count, std::string_view one) {
  return plural(std::to_string(count), one);
}

/// "26%": a share of work, rounded down, so that only complete work is 100%.
std::string percent_done(double share);

/// Of digits alone; none if it does not fit.
std::optional<std::uint64_t> whole_number(std::string_view text);

std::string joined(const std::vector<std::string>& parts, std::string_view separator);

/// The text at `key`; `otherwise` if there is none.
inline std::string found_or(const std::map<std::string, std::string>& texts, const std::string& key,
                            const std::string& otherwise = "") {
  const auto found = texts.find(key);
  return found == texts.end() ? otherwise : found->second;
}

/// "a; b; c; d and 7 more": the first four, each as `words` says it.
template <class List, class Words>
std::string first_few(const List& list, Words&& words) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < list.size() && i < kShown; ++i) shown.push_back(words(list[i]));
  const std::string text = joined(shown, "; ");
  return list.size() > kShown ? text + " and " + std::to_string(list.size() - kShown) + " more" : text;
}

}  // namespace normlab
