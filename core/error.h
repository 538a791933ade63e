// Errors tell users what happened, where, and what to do about it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace normlab {

/// The process's exit codes. A signal that stopped a run cleanly adds 128 (130 for Ctrl-C, 143 for SIGTERM).
enum class ExitCode : int { done = 0, trials_failed = 1, bad_input = 2, environment = 3 };

/// Base of every error that a user may see; `code` is the process's exit code.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

/// Wrong input: a descriptor, a shape, a data file, a checkpoint.
struct InputError : Error {
  explicit InputError(const std::string& what) : Error(ExitCode::bad_input, what) {}
};

/// A problem of the machine: no disk space, an unwritable folder, a missing library, a different CPU.
struct EnvironmentError : Error {
  explicit EnvironmentError(const std::string& what) : Error(ExitCode::environment, what) {}
};

/// Appends a part as `operator<<` prints it.
void append(std::string& text, std::string_view part);
void append(std::string& text, char part);
void append(std::string& text, int part);
void append(std::string& text, long part);
void append(std::string& text, long long part);
void append(std::string& text, unsigned part);
void append(std::string& text, unsigned long part);
void append(std::string& text, unsigned long long part);
void append(std::string& text, double part);

/// Concatenates its arguments as `operator<<` prints them.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::string text;
  (append(text, parts), ...);
  return text;
}

}  // namespace normlab
