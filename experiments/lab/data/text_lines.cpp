#include "experiments/lab/data/text_lines.h"

#include <set>
#include <sstream>

#include "core/error.h"
#include "core/visible_text.h"
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

std::vector<std::string> read_class_names(const std::filesystem::path& file, EqualNames equal) {
  return read_names(file, "class name", "it lists the class names, one per line, label 0 first", equal);
}

std::vector<std::string> read_names(const std::filesystem::path& file, std::string_view what, std::string_view purpose,
                                    EqualNames equal) {
  std::vector<std::string> names = text_lines(file, purpose);
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (names.empty()) throw InputError(concat(file.string(), ": lists no ", what, "s"));
  std::set<std::string> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) throw InputError(concat(file.string(), ":", i + 1, ": blank line between ", what, "s"));
    names[i] = unquoted(names[i]);
    if (!seen.insert(names[i]).second && equal == EqualNames::refused) {
      throw InputError(concat(file.string(), ":", i + 1, ": ", what, " ", in_quotes(names[i]), " is listed twice"));
    }
  }
  return names;
}

}  // namespace normlab
