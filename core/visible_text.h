// Makes text from files and command lines safe to show: it must not control a terminal or imitate lines of ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace normlab {

/// The first character of a non-empty text. `bytes` is 0 if the text does not start with valid UTF-8.
struct Character {
  std::size_t bytes = 0;
  std::uint32_t code = 0;
};
Character first_character(std::string_view text);

/// `text` with everything that a terminal would interpret spelt out. Control characters except line feeds become
/// "\x1b". Unicode characters that control, end lines or change the writing direction become "\u202e". Bytes that are
/// not UTF-8 become "\x9b".
std::string visible(std::string_view text);
/// The same in one line: line feeds become "\n".
std::string visible_line(std::string_view text);

/// The most input characters that a message shows.
inline constexpr std::size_t kMostShown = 200;

/// Input within a line of a message, as visible_line() shows it. Text longer than kMostShown loses its middle and gets
/// its length: "abc…xyz (1000000 characters)".
std::string shown(std::string_view text);

/// The same in double quotes, with a backslash before each " and \ of the text: "\"abc…xyz\" (1000000 characters)".
std::string in_quotes(std::string_view text);

/// The most characters that a line of a message shows: some list what they know, or two settings of a network.
inline constexpr std::size_t kMostInLine = 2000;

/// `text` with the middle of each longer line replaced by "…" and the line's length after it, as in shown().
std::string with_short_lines(std::string_view text);

}  // namespace normlab
