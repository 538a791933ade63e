// Runs the binary on a terminal of a given size.
#pragma once

#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>

#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "tests/lab/cli/program.h"

namespace normlab {

/// The program on a terminal of its own.
class OnTerminal {
 public:
  OnTerminal(const std::string& arguments, unsigned short columns, unsigned short rows) {
    winsize size{rows, columns, 0, 0};
    pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ == 0) {
      ::signal(SIGHUP, SIG_DFL);
      setenv("TERM", "xterm", 1);
      execl("/bin/sh", "sh", "-c", ("exec " + program_path() + " " + arguments).c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
  }
  void resize(unsigned short columns, unsigned short rows) const {
    winsize size{rows, columns, 0, 0};
    ioctl(terminal_, TIOCSWINSZ, &size);
  }
  /// What it has written since the last call, after so many milliseconds, or until it ends.
  std::string read_for(int ms) {
    std::string text;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    while (std::chrono::steady_clock::now() < end) {
      pollfd fd{terminal_, POLLIN, 0};
      if (poll(&fd, 1, 50) <= 0) continue;
      char buffer[4096];
      const ssize_t n = read(terminal_, buffer, sizeof buffer);
      if (n <= 0) break;
      text.append(buffer, std::size_t(n));
    }
    return text;
  }
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    close(terminal_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  void signal(int number) const { kill(pid_, number); }
  /// Closes the terminal, as a closed window or a lost connection does.
  void hang_up() { close(std::exchange(terminal_, -1)); }

 private:
  pid_t pid_ = -1;
  int terminal_ = -1;
};

/// Lines without what moves the cursor.
inline std::vector<std::string> plain_lines(const std::string& text) {
  std::vector<std::string> lines(1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && !std::isalpha(static_cast<unsigned char>(text[i]))) ++i;
    } else if (text[i] == '\n') {
      lines.emplace_back();
    } else if (text[i] != '\r') {
      lines.back() += text[i];
    }
  }
  return lines;
}

}  // namespace normlab
