// A command line run in a child of this process: as a user would run it, without the start of a program.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/lab/base/files.h"
#include "experiments/lab/cli/commands.h"

namespace normlab {

struct Outcome {
  int code = 0;  // exit code, or minus the signal
  bool hung = false;
  std::string out, err;
};

/// Words as a shell hands them over, without the program's name. Output goes through files in `scratch`.
inline Outcome run_forked(const std::vector<std::string>& words, const std::filesystem::path& scratch,
                          int seconds = 60) {
  const std::string out = (scratch / "stdout").string(), err = (scratch / "stderr").string();
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);
    for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);  // the test program catches some
    const auto redirect = [](const std::string& path, int flags, int to) {
      const int file = ::open(path.c_str(), flags, 0666);
      ::dup2(file, to);
      ::close(file);
    };
    redirect("/dev/null", O_RDONLY, STDIN_FILENO);
    redirect(out, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    redirect(err, O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    std::vector<std::string> all{"normlab"};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int code = run_command_line(int(all.size()), arguments.data());
    std::fflush(nullptr);
    ::_exit(code);
  }
  Outcome outcome;
  pollfd end{int(::syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0};
  outcome.hung = ::poll(&end, 1, seconds * 1000) == 0;
  ::close(end.fd);
  if (outcome.hung) ::kill(-pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  ::kill(-pid, SIGKILL);  // whatever it has left running
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  outcome.out = read_file(out);
  outcome.err = read_file(err);
  return outcome;
}

}  // namespace normlab
