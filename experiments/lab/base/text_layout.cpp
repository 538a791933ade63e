#include "experiments/lab/base/text_layout.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace normlab {
namespace {

bool starts_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

/// Byte offset of code point number `count`.
std::size_t byte_of(const std::string& text, std::size_t count) {
  std::size_t byte = 0;
  for (; byte < text.size(); ++byte)
    if (starts_code_point(text[byte]) && count-- == 0) break;
  return byte;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return std::size_t(std::count_if(text.begin(), text.end(), starts_code_point));
}

std::string shorten_middle(const std::string& text, std::size_t columns) {
  const std::size_t all = display_width(text);
  if (all <= columns) return text;
  if (columns == 0) return "";
  const std::size_t head = columns / 2, tail = columns - 1 - head;
  return text.substr(0, byte_of(text, head)) + "…" + text.substr(byte_of(text, all - tail));
}

std::vector<std::string> wrapped(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines{""};
  const auto add = [&](std::string word) {
    if (!lines.back().empty() && display_width(lines.back()) + 1 + display_width(word) > columns) lines.emplace_back();
    while (display_width(word) > columns) {
      std::size_t cut = byte_of(word, columns);
      // After a sign within the word, unless that leaves most of the line empty.
      if (const std::size_t sign = word.find_last_of("._/-=", cut - 1); sign != word.npos && sign + 1 > cut / 3)
        cut = sign + 1;
      lines.back() = word.substr(0, cut);
      word.erase(0, cut);
      lines.emplace_back();
    }
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  };
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find_first_of(" \n\t\r", begin), text.size());
    if (end > begin) add(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string broken_lines(std::string_view text, std::size_t columns) {
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t newline = text.find('\n', begin);
    std::string_view line = text.substr(begin, newline - begin);
    begin = newline == text.npos ? text.size() : newline + 1;
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    std::string lead;
    while (display_width(line) + lead.size() > columns) {
      // The last gap that leaves a line which fits, otherwise the first gap.
      std::size_t gap = line.npos;
      for (std::size_t at = line.find(' ', lead.empty() ? indent : 0); at != line.npos; at = line.find(' ', at + 1)) {
        if (gap != line.npos && display_width(line.substr(0, at)) + lead.size() > columns) break;
        gap = at;
      }
      const std::size_t rest = gap == line.npos ? line.npos : line.find_first_not_of(' ', gap);
      if (rest == line.npos) break;
      const std::string_view head = line.substr(0, line.find_last_not_of(' ', gap) + 1);
      out += lead + std::string(head) + "\n";
      line.remove_prefix(rest);
      lead = std::string(indent + 2, ' ');
    }
    out += lead + std::string(line);
    if (newline != text.npos) out += '\n';
  }
  return out;
}

std::string percent_done(double share) {
  constexpr double kRounding = 1e-9;  // 29 of 100 steps are 29%, though 100 * 0.29 is less than 29 in floating point
  return std::to_string(static_cast<int>(std::floor(100 * share + kRounding))) + "%";
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

}  // namespace normlab
