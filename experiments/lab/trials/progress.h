// Progress of a run. On a terminal: one line for the sweep and one per worker, rewritten in place. Elsewhere: the same
// lines as plain text at intervals.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace normlab {

struct WorkerProgress {
  std::string label;                 // of its trial
  std::int64_t step = 0, steps = 0;  // steps 0: not known yet
  double images_per_second = 0;      // 0: not known yet
  std::optional<double> loss;
  std::optional<double> seconds_left;
};

struct SweepProgress {
  std::size_t finished = 0, total = 0;  // trials
  std::size_t elsewhere = 0;            // held by other processes, as far as known
  double images_per_second = 0;         // of all workers here; 0: not known yet
  std::optional<double> seconds_left;   // for all remaining work, less what is done of unfinished trials
  std::vector<WorkerProgress> workers;  // those with a trial
};

/// "3/25 done | 2 run elsewhere | 1834 img/s | 12m05s left", within `columns`.
std::string sweep_line(const SweepProgress& progress, std::size_t columns);

/// "dpn seed 2 | step 120/3900 | 917 img/s | loss 1.234 | 45s left". If that exceeds `columns`, the label is shortened;
/// then the loss and the speed are dropped.
std::string worker_line(const WorkerProgress& progress, std::size_t columns);

/// sweep_line and one line per worker, in at most `rows` > 0 lines; "... and 3 more" if they do not fit.
std::vector<std::string> progress_lines(const SweepProgress& progress, std::size_t columns, std::size_t rows);

/// "45s", "4m05s", "2h05m", "3d04h".
std::string duration_text(double seconds);

class ProgressPrinter {
 public:
  explicit ProgressPrinter(std::FILE* stream = stderr);
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;
  ~ProgressPrinter();

  /// Shows the progress unless the last output is too recent: a fifth of a second on a terminal; elsewhere five
  /// seconds, doubling each time up to a minute.
  void update(const SweepProgress& progress);
  /// Prints a permanent line above the rewritten ones.
  void message(const std::string& text);
  /// Removes the rewritten lines, so that a table can follow.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  std::FILE* stream_;
  bool terminal_;
  std::vector<std::string> shown_;  // the lines on the terminal
  Clock::duration interval_;
  std::optional<Clock::time_point> last_;
};

}  // namespace normlab
