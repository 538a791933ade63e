#include <set>
#include <sstream>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/base/regular_file.h"
#include "experiments/data/readers.h"

namespace normlab {

std::vector<std::string> read_class_names(const std::filesystem::path& file) {
  return read_names(file, "class name", "it lists the class names, one per line, label 0 first");
}

std::vector<std::string> read_names(const std::filesystem::path& file, std::string_view what,
                                    std::string_view purpose) {
  std::istringstream in(RegularFile(file, std::string(purpose)).read());
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    names.push_back(line);
  }
  while (!names.empty() && names.back().empty()) names.pop_back();
  if (names.empty()) throw InputError(concat(file.string(), ": lists no ", what, "s"));
  std::set<std::string> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) throw InputError(concat(file.string(), ":", i + 1, ": blank line between ", what, "s"));
    if (!seen.insert(names[i]).second) {
      throw InputError(concat(file.string(), ":", i + 1, ": ", what, " ", in_quotes(names[i]), " is listed twice"));
    }
  }
  return names;
}

}  // namespace normlab
