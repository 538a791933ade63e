#include "experiments/lab/cli/help_text.h"

#include <algorithm>

#include "experiments/lab/base/text_layout.h"

namespace normlab {
namespace {

constexpr std::size_t kIndent = 2, kWidestName = 24;
constexpr std::size_t kColumnsForTwo = 60;  // narrower terminals show descriptions below the names

void add_wrapped(std::string& out, const std::string& text, std::size_t indent, std::size_t columns) {
  for (const std::string& line : wrapped(text, columns - indent)) out += std::string(indent, ' ') + line + "\n";
}

/// Words as a shell splits them; quoted text is one word.
std::vector<std::string> words_of_shell(const std::string& line) {
  std::vector<std::string> words;
  char quote = 0;
  bool inside = false;
  for (const char c : line) {
    if (quote == 0 && c == ' ') {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    words.back() += c;
    if (quote == 0 ? c == '\'' || c == '"' : c == quote) quote = quote == 0 ? c : 0;
  }
  return words;
}

void add_command_line(std::string& out, const std::string& line, std::size_t columns) {
  const std::size_t room = columns - kIndent - 2;  // for " \\" at the end
  std::vector<std::string> parts;                  // an option stays with its value if both fit on a line
  for (const std::string& word : words_of_shell(line)) {
    const bool value = !parts.empty() && parts.back().starts_with("-") && !word.starts_with("-");
    if (value && display_width(parts.back()) + 1 + display_width(word) <= room)
      parts.back() += " " + word;
    else
      parts.push_back(word);
  }
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty() && display_width(text) + 1 + display_width(part) > room) {
      out += std::string(kIndent, ' ') + text + " \\\n";
      text.clear();
    }
    text += (text.empty() ? "" : " ") + part;
  }
  out += std::string(kIndent, ' ') + text + "\n";
}

void add_section(std::string& out, const HelpSection& section, std::size_t columns) {
  std::size_t widest = 0;
  for (const HelpEntry& entry : section.entries) widest = std::max(widest, display_width(entry.name));
  const bool two = columns >= kColumnsForTwo;
  const std::size_t indent = two ? kIndent + std::min(widest, kWidestName) + 2 : 3 * kIndent;
  out += "\n";
  add_wrapped(out, section.title + ":", 0, columns);
  for (const HelpEntry& entry : section.entries) {
    const std::string name = std::string(kIndent, ' ') + entry.name;
    std::string what;
    add_wrapped(what, entry.what, indent, columns);
    const bool beside = two && display_width(name) + 2 <= indent;
    out += beside ? name + what.substr(display_width(name)) : name + "\n" + what;
  }
}

}  // namespace

std::string help_text(const HelpPage& page, std::size_t columns) {
  std::string out;
  add_wrapped(out, page.what, 0, columns);
  out += "\n";
  add_wrapped(out, "Usage: " + page.usage, 0, columns);
  for (const HelpSection& section : page.sections)
    if (!section.entries.empty()) add_section(out, section, columns);
  if (!page.footer.empty()) out += "\n";
  for (const std::string& paragraph : page.footer) {
    if (paragraph.starts_with("  "))
      add_command_line(out, paragraph, columns);
    else
      add_wrapped(out, paragraph, 0, columns);
  }
  return out;
}

}  // namespace normlab
