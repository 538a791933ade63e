// The line that shows how far a run is: rewritten in place on a terminal, a plain line every few seconds elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>

namespace normlab {

struct Progress {
  std::size_t finished = 0, total = 0;  // trials
  std::string label;                    // the trial that reports
  std::int64_t step = 0, steps = 0;     // of it; no steps: none runs
  double images_per_second = 0;         // of all workers; 0: not known yet
  std::optional<double> loss;
  double images_done = 0;      // images trained on since this run began, over all its trials
  double images_left = 0;      // that the whole sweep still needs
  double elapsed_seconds = 0;  // since this run began
};

/// "3/25 done | dpn seed 2 | step 120/3900 | 1834 img/s | loss 1.234 | 12m05s left". Where that is wider than `columns`
/// the label is shortened, then the loss and the speed go.
std::string progress_line(const Progress& progress, std::size_t columns);

/// "45s", "4m05s", "2h05m", "3d04h".
std::string duration_text(double seconds);

/// Safe from several threads.
class ProgressPrinter {
 public:
  explicit ProgressPrinter(std::FILE* stream = stderr);
  ProgressPrinter(const ProgressPrinter&) = delete;
  ProgressPrinter& operator=(const ProgressPrinter&) = delete;
  ~ProgressPrinter();

  /// Shows it, unless the last one is too fresh: a tenth of a second on a terminal, five seconds elsewhere.
  void update(const Progress& progress);
  /// A line that stays, above the one that is rewritten.
  void message(const std::string& text);
  /// Removes the rewritten line, so that a table can follow.
  void clear();

 private:
  void clear_line();
  std::FILE* stream_;
  bool terminal_;
  bool shown_ = false;
  std::optional<std::chrono::steady_clock::time_point> last_;
  std::mutex mutex_;
};

}  // namespace normlab
