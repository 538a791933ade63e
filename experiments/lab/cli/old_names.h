// Commands of the version before that are options of others now. The next release takes away this file, old_names.cpp,
// their test and what commands.cpp does with them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace normlab {

struct OldName {
  std::string_view name, now;                                // now: as the message says it
  std::vector<std::string> words;                            // of the new command
  std::vector<std::pair<std::string, std::string>> renamed;  // options
  std::string required;                                      // an argument that the new command may lack
};

/// Null for any other word.
const OldName* find_old_name(std::string_view word);
/// Tells the new name on standard error, and gives `words`, of which `first` is the old name, for the new command.
std::vector<std::string> replaced(const OldName& old, const std::vector<std::string>& words, std::size_t first);

}  // namespace normlab
