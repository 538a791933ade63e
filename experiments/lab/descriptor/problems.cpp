#include "experiments/lab/descriptor/problems.h"

#include <algorithm>

#include "core/error.h"
#include "core/visible_text.h"

namespace normlab {

std::string to_string(const Position& at) {
  return at.source->has_lines ? concat(visible_line(at.source->name), ":", at.line, ":", at.column)
                              : shown(at.source->name);
}

void Problems::add(const Position& at, const std::string& pointer, const std::string& what) {
  const std::string line = pointer.empty() ? concat(to_string(at), ": ", what)  // the document itself
                                           : concat(to_string(at), ": ", pointer, ": ", what);
  problems_.emplace(Key{at.source->order, at.line, at.column, line}, line);
}

void Problems::add_unless(const std::string& pointer, const Position& at, const std::string& what) {
  doubtful_.push_back({pointer, at, what});
}

void Problems::unused(const Position& at, const std::string& what) {
  unused_.try_emplace({at.source, at.line, at.column}, Unused{false, at, what});
}

void Problems::used(const Position& at) { unused_[{at.source, at.line, at.column}].used = true; }

void Problems::throw_if_any() {
  for (const Doubtful& doubtful : doubtful_) {
    const std::string below = concat(": ", doubtful.pointer, "/");
    const bool explained = std::any_of(problems_.begin(), problems_.end(), [&](const auto& problem) {
      return problem.second.find(below) != std::string::npos;
    });
    if (!explained) add(doubtful.at, doubtful.what);
  }
  if (problems_.empty()) return;
  std::string text;
  for (const auto& [key, line] : problems_) text += (text.empty() ? "" : "\n") + line;
  throw InputError(text);
}

void Problems::throw_if_any_or_unused() {
  for (const auto& [key, found] : unused_)
    if (!found.used) add(found.at, found.what);
  throw_if_any();
}

}  // namespace normlab
