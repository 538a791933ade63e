// Fits text to a width, counted in code points.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

std::size_t display_width(std::string_view text);

/// `text`, with its middle replaced by one "…" if it is wider than `columns`.
std::string shorten_middle(const std::string& text, std::size_t columns);

/// At least one line, each at most `columns` > 0 wide. Breaks at white space, and inside words longer than a line.
std::vector<std::string> wrapped(const std::string& text, std::size_t columns);

/// Maximum width of prose, even on wider terminals, for readability.
inline constexpr std::size_t kWidestProse = 100;

/// `text` with lines longer than `columns` broken between words. Continuations are indented by two more columns.
/// Words are never split.
std::string broken_lines(std::string_view text, std::size_t columns);

/// "1 epoch", "7 epochs", for a number already written as text.
inline std::string plural(std::string_view count, std::string_view one) {
  return std::string(count) + " " + std::string(one) + (count == "1" ? "" : "s");
}
template <std::integral Count>
std::string plural(Count count, std::string_view one) {
  return plural(std::to_string(count), one);
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator);

}  // namespace normlab
