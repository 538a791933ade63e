#include "core/visible_text.h"

#include <algorithm>

namespace normlab {
namespace {

constexpr char kDigits[] = "0123456789abcdef";

/// Non-ASCII characters that a terminal interprets: C1 controls, line ends, writing directions.
bool is_command(std::uint32_t code) {
  return (code >= 0x80 && code < 0xA0) || code == 0x61C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

bool is_plain(char c) { return c >= 0x20 && c < 0x7F; }

/// Appends the first character of `text` in visible form and returns its length in bytes.
std::size_t show_character(std::string_view text, bool line_feeds, bool quotes, std::string& to) {
  const char c = text.front();
  if (quotes && (c == '"' || c == '\\')) {
    to += '\\';
    to += c;
    return 1;
  }
  if (is_plain(c)) return to += c, 1;
  if (c == '\n') return to += line_feeds ? "\n" : "\\n", 1;
  if (c == '\t') return to += "\\t", 1;
  if (c == '\r') return to += "\\r", 1;
  const Character character = first_character(text);
  if (character.code >= 0x80 && character.bytes > 0) {
    if (!is_command(character.code)) {
      to += text.substr(0, character.bytes);
    } else {
      to += "\\u";
      for (int shift = 12; shift >= 0; shift -= 4) to += kDigits[character.code >> shift & 15];
    }
    return character.bytes;
  }
  const auto byte = static_cast<unsigned char>(c);
  to += "\\x";
  to += kDigits[byte >> 4];
  to += kDigits[byte & 15];
  return 1;
}

std::string spelt_out(std::string_view text, bool line_feeds) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) text.remove_prefix(show_character(text, line_feeds, false, result));
  return result;
}

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  while (!text.empty()) {
    const std::size_t bytes = first_character(text).bytes;
    text.remove_prefix(bytes == 0 ? 1 : bytes);
    ++count;
  }
  return count;
}

std::string length_words(std::size_t characters) { return " (" + std::to_string(characters) + " characters)"; }

/// Calls `take` with the rest of the text at each character, which it shortens by that character. If there are more
/// than `most`, only with those at the ends, and "…" is added to `result` between them.
template <class Take>
std::size_t take_ends(std::string_view text, std::size_t most, std::string& result, Take&& take) {
  const std::size_t head = most * 2 / 3, tail = most - 1 - head, all = count_characters(text);
  for (std::size_t i = 0; i < all; ++i) {
    if (all > most && i >= head && i < all - tail) {
      if (i == head) result += "…";
      const std::size_t bytes = first_character(text).bytes;
      text.remove_prefix(bytes == 0 ? 1 : bytes);
      continue;
    }
    take(text);
  }
  return all;
}

/// In one line, with only the ends of a long text.
std::string in_one_line(std::string_view text, bool quotes) {
  std::string result(quotes ? "\"" : "");
  const std::size_t all = take_ends(text, kMostShown, result, [&](std::string_view& rest) {
    rest.remove_prefix(show_character(rest, false, quotes, result));
  });
  if (quotes) result += '"';
  if (all > kMostShown) result += length_words(all);
  return result;
}

}  // namespace

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return std::uint32_t(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  std::uint32_t code = lead & (0xFFu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  const std::uint32_t smallest = bytes == 2 ? 0x80 : bytes == 3 ? 0x800 : 0x10000;
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code >= smallest && code <= 0x10FFFF && !surrogate ? Character{bytes, code} : Character{};
}

std::string visible(std::string_view text) { return spelt_out(text, true); }

std::string visible_line(std::string_view text) { return spelt_out(text, false); }

std::string shown(std::string_view text) { return in_one_line(text, false); }

std::string with_short_lines(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.size() <= kMostInLine) {
      result += line;
    } else {
      const std::size_t all = take_ends(line, kMostInLine, result, [&](std::string_view& rest) {
        const std::size_t bytes = std::max<std::size_t>(first_character(rest).bytes, 1);
        result += rest.substr(0, bytes);
        rest.remove_prefix(bytes);
      });
      if (all > kMostInLine) result += length_words(all);
    }
    text.remove_prefix(line.size());
    if (!text.empty()) result += '\n', text.remove_prefix(1);
  }
  return result;
}

std::string in_quotes(std::string_view text) { return in_one_line(text, true); }

}  // namespace normlab
