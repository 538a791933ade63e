#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/data/readers.h"
#include "experiments/lab/data/text_lines.h"

namespace normlab {

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
