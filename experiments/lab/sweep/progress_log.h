// Progress for programs: one JSON object per line. docs/sweeps.md lists the keys.
#pragma once

#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "experiments/lab/sweep/runner.h"
#include "experiments/lab/trials/progress.h"

namespace normlab {

class ProgressLog {
 public:
  /// Appends to the file, whose missing folders are created; "-" is standard error. EnvironmentError if it cannot be
  /// opened. Later lines that cannot be written are lost, so that a reader cannot stop a training.
  explicit ProgressLog(const std::string& path);

  void begin(const Experiment& experiment, const RunSummary& summary, int workers);
  void message(const std::string& text);
  /// At most one per trial and second.
  void progress(const Trial& trial, pid_t worker, const WorkerProgress& progress);
  void trial_end(const Trial& trial, pid_t worker, std::string_view state, const std::string& message);
  /// At most one per second.
  void sweep(const SweepProgress& progress);
  void end(const RunSummary& summary);

 private:
  using Clock = std::chrono::steady_clock;
  bool due(const std::string& what);
  void put(const std::string& line);
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, &std::fclose};
  std::map<std::string, Clock::time_point> last_;
};

}  // namespace normlab
