#include "experiments/lab/base/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/text_layout.h"

namespace normlab {
namespace {

[[noreturn]] void throw_output_error(int error_number) {
  throw EnvironmentError(concat("standard output cannot be written: ",
                                error_number == EBADF   ? "it is closed"
                                : error_number == EPIPE ? "its reader has exited"
                                                        : std::generic_category().message(error_number)));
}

/// On failure writes what it can and sets errno.
bool write_all(int descriptor, std::string_view bytes, bool waits) noexcept {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), bytes.size());
    if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (n == 0 || errno != EAGAIN || !waits) return false;
    pollfd reader{descriptor, POLLOUT, 0};
    ::poll(&reader, 1, -1);
  }
  return true;
}

bool on_terminal() {
  static const bool answer = ::isatty(STDOUT_FILENO) == 1;
  return answer;
}

std::string for_people(std::string_view text, int descriptor) {
  std::string shown = visible(text);
  return ::isatty(descriptor) == 1 ? broken_lines(shown, screen_of(descriptor).columns) : shown;
}

/// Output not yet written: files and pipes get large pieces, a terminal gets each text at once.
std::string& pending() {
  static std::string text;
  return text;
}

void hand_over(std::string_view bytes) {
  constexpr std::size_t kPiece = 1 << 16;
  pending() += bytes;
  if (pending().size() >= kPiece || on_terminal()) flush_output();
}

}  // namespace

Screen screen_of(int descriptor) {
  Screen screen;
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0) return screen;
  if (size.ws_col > 0) screen.columns = size.ws_col;
  if (size.ws_row > 0) screen.rows = size.ws_row;
  return screen;
}

std::size_t text_columns() {
  std::size_t columns = screen_of(STDOUT_FILENO).columns;
  if (const char* told = on_terminal() ? nullptr : std::getenv("COLUMNS"))
    if (const std::string_view text = told; std::from_chars(told, told + text.size(), columns).ec != std::errc())
      columns = Screen().columns;
  return std::max<std::size_t>(columns, 40);
}

void open_standard_streams() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0) continue;
    // The lowest free number is this one. A folder works even without /dev.
    if (::open("/dev/null", O_RDONLY) < 0) static_cast<void>(::open("/", O_RDONLY));
  }
}

void tell_text(std::string_view text) noexcept {
  try {
    write_all(STDERR_FILENO, for_people(with_short_lines(visible(text)), STDERR_FILENO), false);
  } catch (...) {  // no memory to make it visible: print nothing
  }
}

void print_visible(std::string_view text) { hand_over(for_people(text, STDOUT_FILENO)); }

void print_bytes(std::string_view bytes) {
  if (on_terminal()) return hand_over(visible(bytes));
  hand_over(bytes);
}

void flush_output() {
  const std::string text = std::exchange(pending(), {});
  if (!write_all(STDOUT_FILENO, text, true)) throw_output_error(errno);
}

}  // namespace normlab
