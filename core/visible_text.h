// Text from files and command lines, made fit to be shown: it must not command a terminal, nor look like lines of ours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace normlab {

/// The character at the front of a text that is not empty. `bytes` is 0 where none of UTF-8 stands there.
struct Character {
  std::size_t bytes = 0;
  std::uint32_t code = 0;
};
Character first_character(std::string_view text);

/// `text` with what a terminal would act on spelt out. Control characters but line feeds become "\x1b". Characters of
/// Unicode that are controls, end lines or turn the direction of writing become "\u202e". Bytes that are not UTF-8
/// become "\x9b".
std::string visible(std::string_view text);
/// The same in one line: line feeds become "\n".
std::string visible_line(std::string_view text);

/// The most characters of input that a message shows.
inline constexpr std::size_t kMostShown = 200;

/// A piece of input within a line of a message, as visible_line() gives it. What is longer than kMostShown loses its
/// middle and gets its length: "abc…xyz (1000000 characters)".
std::string shown(std::string_view text);

/// The same in double quotes, with a backslash before each " and \ of the text: "\"abc…xyz\" (1000000 characters)".
std::string in_quotes(std::string_view text);

}  // namespace normlab
