#include "core/error.h"

#include <cstdio>

namespace normlab {

void append(std::string& text, std::string_view part) { text += part; }
void append(std::string& text, char part) { text += part; }
void append(std::string& text, int part) { text += std::to_string(part); }
void append(std::string& text, long part) { text += std::to_string(part); }
void append(std::string& text, long long part) { text += std::to_string(part); }
void append(std::string& text, unsigned part) { text += std::to_string(part); }
void append(std::string& text, unsigned long part) { text += std::to_string(part); }
void append(std::string& text, unsigned long long part) { text += std::to_string(part); }
void append(std::string& text, double part) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%g", part);
  text += digits;
}

}  // namespace normlab
