// Searches in text.
#pragma once

#include <string>
#include <string_view>

#include "core/error.h"

namespace normlab {

inline constexpr int kBadInput = static_cast<int>(ExitCode::bad_input);

inline bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

inline std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++found;
  return found;
}

}  // namespace normlab
