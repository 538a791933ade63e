// Where text leaves the program. What people read is made visible here, so that no file commands their terminal, and
// lines that are longer than their terminal are broken between words. Files and pipes get the lines as they are.
// Standard error is best effort: no command ends because nobody can hear it. A failure of standard output is an error.
#pragma once

#include <fmt/core.h>

#include <cstddef>
#include <string_view>
#include <utility>

namespace normlab {

/// Call before any file is opened. Opens what was closed of standard input, output and error for reading alone, so that
/// no file gets its number and a write to it still fails.
void open_standard_streams();

/// To standard error, for people.
void tell_text(std::string_view text) noexcept;
/// To standard output, for people. EnvironmentError where it cannot be written.
void print_visible(std::string_view text);
/// To standard output, for programs: as it is, but visible on a terminal. EnvironmentError where it cannot be written.
void print_bytes(std::string_view bytes);
/// Hands over what was printed so far. EnvironmentError where it cannot be written.
void flush_output();

/// Of a terminal as it is now, so that a window may be resized; 80 by 24 where the descriptor is none.
struct Screen {
  std::size_t columns = 80, rows = 24;
};
Screen screen_of(int descriptor);
/// For text on standard output: its terminal's columns, at least 40; where it is no terminal the environment's COLUMNS,
/// as `watch` sets it, or 80.
std::size_t text_columns();

/// The same with a format. Text that cannot be made for want of memory is lost.
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
