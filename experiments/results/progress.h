// How far a run is. On a terminal: a line for the sweep and one for each worker, rewritten in place; elsewhere the same
// lines now and then, plain.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace normlab {

/// What one worker does.
struct WorkerProgress {
  std::string label;                 // of its trial
  std::int64_t step = 0, steps = 0;  // no steps: not known yet
  double images_per_second = 0;      // 0: not known yet
  std::optional<double> loss;
  std::optional<double> seconds_left;
};

struct SweepProgress {
  std::size_t finished = 0, total = 0;  // trials
  std::size_t elsewhere = 0;            // that other processes are known to hold
  double images_per_second = 0;         // of all workers here; 0: not known yet
  std::optional<double> seconds_left;   // for all that is left, what is done of a trial counted
  std::vector<WorkerProgress> workers;  // those that have a trial
};

/// "3/25 done | 2 run elsewhere | 1834 img/s | 12m05s left", in `columns`.
std::string sweep_line(const SweepProgress& progress, std::size_t columns);

/// "dpn seed 2 | step 120/3900 | 917 img/s | loss 1.234 | 45s left". Where that is wider than `columns` the label is
/// shortened, then the loss and the speed go.
std::string worker_line(const WorkerProgress& progress, std::size_t columns);

/// sweep_line and under it a line for each worker, in at most `rows` > 0 lines: "... and 3 more" where they do not fit.
std::vector<std::string> progress_lines(const SweepProgress& progress, std::size_t columns, std::size_t rows);

/// "45s", "4m05s", "2h05m", "3d04h".
std::string duration_text(double seconds);

class ProgressPrinter {
 public:
  explicit ProgressPrinter(std::FILE* stream = stderr);
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;
  ~ProgressPrinter();

  /// Shows it, unless the last one is too fresh: a fifth of a second on a terminal; elsewhere five seconds, then twice
  /// as long each time, to a minute.
  void update(const SweepProgress& progress);
  /// A line that stays, above those that are rewritten.
  void message(const std::string& text);
  /// Removes the rewritten lines, so that a table can follow.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::FILE* stream_;
  bool terminal_;
  std::vector<std::string> shown_;  // on the terminal now
  Clock::duration interval_;
  std::optional<Clock::time_point> last_;
};

}  // namespace normlab
