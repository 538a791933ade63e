#include "experiments/results/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "experiments/results/text_layout.h"

namespace normlab {
namespace {

constexpr std::chrono::milliseconds kTerminalInterval{100}, kPlainInterval{5000};
constexpr std::size_t kColumns = 80;
constexpr std::size_t kShortestLabel = 12;

std::size_t terminal_columns(std::FILE* stream) {
  winsize size{};
  return ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kColumns;
}

bool is_terminal(std::FILE* stream) {
  const char* kind = std::getenv("TERM");
  return ::isatty(::fileno(stream)) == 1 && kind != nullptr && std::strcmp(kind, "dumb") != 0;
}

/// Progress that cannot be shown (a closed pipe) stops no training.
void put(std::FILE* stream, const std::string& text) { std::fputs(text.c_str(), stream); }

}  // namespace

std::string duration_text(double seconds) {
  const auto s = std::int64_t(std::min(std::max(seconds, 0.0), 1e12));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86400, s / 3600 % 24);
}

std::string progress_line(const Progress& progress, std::size_t columns) {
  std::string counts = fmt::format("{}/{} done", progress.finished, progress.total);
  std::string label = progress.label, step, speed, loss, left;
  if (progress.steps > 0) step = fmt::format("step {}/{}", progress.step, progress.steps);
  if (progress.images_per_second > 0) speed = fmt::format("{:.0f} img/s", progress.images_per_second);
  if (progress.loss) loss = fmt::format("loss {:.3f}", *progress.loss);
  // Images, not trials: they are of different lengths, and the first of them says something before it is done.
  if (progress.images_done > 0 && progress.elapsed_seconds > 0 && progress.images_left > 0)
    left = duration_text(progress.images_left * progress.elapsed_seconds / progress.images_done) + " left";
  const auto line = [&] {
    std::vector<std::string> parts;
    for (std::string* part : {&counts, &label, &step, &speed, &loss, &left})
      if (!part->empty()) parts.push_back(*part);
    return joined(parts, " | ");
  };
  const auto shorten_label = [&] {
    const std::size_t all = display_width(line()), own = display_width(label);
    if (all <= columns) return;
    const std::size_t room = own > all - columns ? own - (all - columns) : 0;
    label = shorten_middle(progress.label, std::max(room, std::min(own, kShortestLabel)));
  };
  shorten_label();
  for (std::string* dispensable : {&loss, &speed}) {
    if (display_width(line()) <= columns) break;
    dispensable->clear();
    label = progress.label;
    shorten_label();
  }
  return shorten_middle(line(), columns);
}

ProgressPrinter::ProgressPrinter(std::FILE* stream) : stream_(stream), terminal_(is_terminal(stream)) {}

ProgressPrinter::~ProgressPrinter() { clear(); }

void ProgressPrinter::update(const Progress& progress) {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (last_ && now - *last_ < (terminal_ ? kTerminalInterval : kPlainInterval)) return;
  last_ = now;
  // One column stays free: some terminals begin a new line once the last one is filled.
  const std::string line = progress_line(progress, terminal_ ? terminal_columns(stream_) - 1 : kColumns);
  if (terminal_)
    put(stream_, "\r" + line + "\x1b[K");
  else
    put(stream_, line + "\n");
  shown_ = terminal_;
  std::fflush(stream_);
}

void ProgressPrinter::message(const std::string& text) {
  const std::lock_guard lock(mutex_);
  clear_line();
  if (terminal_) last_.reset();  // the line is back with the next update
  put(stream_, text + "\n");
  std::fflush(stream_);
}

void ProgressPrinter::clear() {
  const std::lock_guard lock(mutex_);
  clear_line();
  std::fflush(stream_);
}

void ProgressPrinter::clear_line() {
  if (shown_) put(stream_, "\r\x1b[K");
  shown_ = false;
}

}  // namespace normlab
