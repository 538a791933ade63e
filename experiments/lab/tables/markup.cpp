#include "experiments/lab/tables/markup.h"

#include <cctype>
#include <cstdint>

#include "core/visible_text.h"

namespace normlab {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Bytes of the first character of `text`, or 0 if XML 1.0 cannot hold it.
std::size_t character_length(std::string_view text) {
  const auto [bytes, code] = first_character(text);
  if (code < 0x20) return code == '\t' || code == '\n' || code == '\r';
  const bool control = code >= 0x7F && code < 0xA0;
  return control || (code & 0xFFFE) == 0xFFFE ? 0 : bytes;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    switch (text.front()) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += length == 0 ? kReplacement : text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result;
}

std::string plain_name(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain = static_cast<unsigned char>(c) < 0x80 && std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (plain)
      name += c;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  return name.empty() ? "unnamed" : name;
}

std::string markdown_cell(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|' || c == '\\' || c == '*' || c == '<') result += '\\';
    result += c == '\n' || c == '\r' ? ' ' : c;
  }
  return result;
}

std::string markdown_table(const std::vector<std::vector<std::string>>& rows, std::size_t words) {
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    for (const std::string& cell : row) text += "| " + markdown_cell(cell) + " ";
    text += "|\n";
    if (&row != &rows.front()) continue;
    for (std::size_t i = 0; i < row.size(); ++i) text += i < words ? "|---" : "|---:";
    text += "|\n";
  }
  return text;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char byte : bytes) {
    bits = bits << 8 | static_cast<unsigned char>(byte);
    for (held += 8; held >= 6; held -= 6) text += kDigits[bits >> (held - 6) & 63];
  }
  if (held > 0) text += kDigits[bits << (6 - held) & 63];
  while (text.size() % 4 != 0) text += '=';
  return text;
}

}  // namespace normlab
