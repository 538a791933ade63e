// Text output. For people, control characters are made visible, so that no file can control the terminal, and lines are
// broken to the terminal's width. Files and pipes get unbroken lines. Errors on standard error are ignored; errors on
// standard output are reported.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <string_view>
#include <utility>

namespace normlab {

/// Call before opening any file. Opens closed standard streams read-only, so that no file gets their numbers and writes
/// to them still fail.
void open_standard_streams();

/// To standard error, for people; a line of more than kMostInLine characters loses its middle.
void tell_text(std::string_view text) noexcept;
/// To standard output, for people. EnvironmentError on failure.
void print_visible(std::string_view text);
/// To standard output, for programs; made visible on a terminal. EnvironmentError on failure.
void print_bytes(std::string_view bytes);
/// EnvironmentError if the output cannot be written.
void flush_output();

/// The terminal's current size; 80 by 24 without a terminal.
struct Screen {
  std::size_t columns = 80, rows = 24;
};
Screen screen_of(int descriptor);
/// For standard output: the terminal's columns, at least 40; without a terminal COLUMNS (set by `watch`), or 80.
std::size_t text_columns();

/// tell_text() with a format. Does nothing if memory runs out.
template <class... Args>
void tell(fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    tell_text(fmt::format(format, std::forward<Args>(args)...));
  } catch (...) {
  }
}
template <class... Args>
void print_text(fmt::format_string<Args...> format, Args&&... args) {
  print_visible(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace normlab
