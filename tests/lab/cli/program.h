// Runs the binary as a process, as a user would.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/lab/base/temporary_folder.h"

namespace normlab {

inline std::string program_path() {
  const char* path = std::getenv("NORMLAB_BINARY");
  return path ? path : std::filesystem::absolute("build/normlab").string();
}

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Finished {
  int code = 0;  // exit code, or minus the signal
  std::string out, err;
};

/// One run of the program with its output in files of `folder`. `prefix` comes before it in the shell's line,
/// `streams` after it: "2>&-" closes standard error.
class Program {
 public:
  Program(const TemporaryFolder& folder, const std::string& arguments, const std::string& prefix = "",
          const std::string& streams = "")
      : folder_(folder) {
    static int number = 0;
    name_ = "program-" + std::to_string(number++);
    const std::string command = prefix + "exec " + program_path() + " " + arguments + " >'" +
                                (folder / (name_ + ".out")).string() + "' 2>'" + (folder / (name_ + ".err")).string() +
                                "' </dev/null " + streams;
    pid_ = fork();
    if (pid_ == 0) {
      setenv("XDG_CACHE_HOME", (folder.path() / "cache").c_str(), 1);  // what it measures stays here
      signal(SIGHUP, SIG_DFL);                                         // also where the tests run under nohup
      setpgid(0, 0);  // a Ctrl-C of the test reaches this run and its workers, not the test
      unsetenv("COLUMNS");
      execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
  }
  void signal_all(int number) const { kill(-pid_, number); }
  void signal_one(int number) const { kill(pid_, number); }
  pid_t pid() const { return pid_; }
  /// Whether it has ended; wait() is still to be called, or its destructor.
  bool ended() const {
    siginfo_t info{};
    return reaped_ || (waitid(P_PID, id_t(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (!reaped_ && pid_ > 0 && ended()) waitpid(pid_, nullptr, 0);
  }
  Finished wait() const {
    int status = 0;
    waitpid(pid_, &status, 0);
    reaped_ = true;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), text_of(folder_ / (name_ + ".out")),
            text_of(folder_ / (name_ + ".err"))};
  }

 private:
  const TemporaryFolder& folder_;
  std::string name_;
  pid_t pid_ = -1;
  mutable bool reaped_ = false;
};

inline Finished run_program(const TemporaryFolder& folder, const std::string& arguments, const std::string& prefix = "",
                            const std::string& streams = "") {
  return Program(folder, arguments, prefix, streams).wait();
}

}  // namespace normlab
