// Lines of text that fit. Widths are counted in code points.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

std::size_t display_width(std::string_view text);

/// `text` where it is at most `columns` wide, or with its middle replaced by one "…".
std::string shorten_middle(const std::string& text, std::size_t columns);

/// Lines of at most `columns` > 0, one at least; breaks at white space, and inside a word that is longer than a line.
std::vector<std::string> wrapped(const std::string& text, std::size_t columns);

/// Lines of prose are no longer: wider ones are hard to read, however wide a terminal is.
inline constexpr std::size_t kWidestProse = 100;

/// `text` with each line that is longer than `columns` broken between its words, the rest two columns further in than
/// the line begins. Words stay whole.
std::string broken_lines(std::string_view text, std::size_t columns);

/// "1 epoch", "7 epochs", of a number as it is written.
inline std::string plural(std::string_view count, std::string_view one) {
  return std::string(count) + " " + std::string(one) + (count == "1" ? "" : "s");
}
template <std::integral Count>
std::string plural(Count count, std::string_view one) {
  return plural(std::to_string(count), one);
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator);

}  // namespace normlab
