// Lays out a command's help for the terminal's width.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace normlab {

struct HelpEntry {
  std::string name, what;
};

struct HelpSection {
  std::string title;
  std::vector<HelpEntry> entries;
};

struct HelpPage {
  std::string what, usage;
  std::vector<HelpSection> sections;
  /// One entry per paragraph. A paragraph that begins with two spaces is a command line, broken between words with "\".
  std::vector<std::string> footer;
};

std::string help_text(const HelpPage& page, std::size_t columns);

}  // namespace normlab
