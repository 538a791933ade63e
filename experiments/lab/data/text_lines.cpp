#include "experiments/lab/data/text_lines.h"

#include <sstream>

#include "core/error.h"
#include "experiments/lab/base/regular_file.h"

namespace normlab {

namespace {

constexpr std::string_view kMark = "\xef\xbb\xbf";

}  // namespace

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

std::vector<std::string> text_lines(const std::filesystem::path& file, std::string_view advice) {
  const std::string text = RegularFile(file, advice).read();
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    throw InputError(concat(file.string(), ": is UTF-16; save it as UTF-8"));
  std::istringstream in{std::string(without_byte_order_mark(text))};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

bool is_quoted(std::string_view field) {
  if (field.size() < 3 || field.front() != '"' || field.back() != '"') return false;
  field = field.substr(1, field.size() - 2);
  for (std::size_t at = field.find('"'); at != field.npos; at = field.find('"', at + 2))
    if (at + 1 == field.size() || field[at + 1] != '"') return false;
  return true;
}

std::string unquoted(std::string_view field) {
  if (!is_quoted(field)) return std::string(field);
  std::string text;
  for (std::size_t i = 1; i + 1 < field.size(); ++i) {
    text += field[i];
    if (field[i] == '"') ++i;
  }
  return text;
}

std::string quoted_if_needed(const std::string& text) {
  if (!text.starts_with('"') && !text.starts_with(kMark)) return text;
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? "\"\"" : std::string(1, c);
  return field + '"';
}

}  // namespace normlab
