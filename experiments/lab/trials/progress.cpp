#include "experiments/lab/trials/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/visible_text.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"

namespace normlab {
namespace {

constexpr std::chrono::milliseconds kTerminalInterval{200}, kPlainInterval{5000}, kLongestPlainInterval{60000};
constexpr std::size_t kShortestLabel = 12;

bool is_terminal(std::FILE* stream) {
  const char* kind = std::getenv("TERM");
  return ::isatty(::fileno(stream)) == 1 && kind != nullptr && std::strcmp(kind, "dumb") != 0;
}

/// A failed write (closed pipe) does not stop a training.
void put(std::FILE* stream, const std::string& text) { std::fputs(text.c_str(), stream); }

}  // namespace

std::string duration_text(double seconds) {
  const auto s = std::int64_t(std::min(std::max(seconds, 0.0), 1e12));
  if (s < 60) return fmt::format("{}s", s);
  if (s < 3600) return fmt::format("{}m{:02}s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{}h{:02}m", s / 3600, s / 60 % 60);
  return fmt::format("{}d{:02}h", s / 86400, s / 3600 % 24);
}

std::string sweep_line(const SweepProgress& progress, std::size_t columns) {
  std::vector<std::string> parts{fmt::format("{}/{} done", progress.finished, progress.total)};
  if (progress.elsewhere > 0) parts.push_back(fmt::format("{} run elsewhere", progress.elsewhere));
  if (progress.images_per_second > 0) parts.push_back(fmt::format("{:.0f} img/s", progress.images_per_second));
  if (progress.seconds_left) parts.push_back(duration_text(*progress.seconds_left) + " left");
  return shorten_middle(joined(parts, " | "), columns);
}

std::string worker_line(const WorkerProgress& progress, std::size_t columns) {
  const std::string whole = visible_line(progress.label);
  std::string label = whole, step, speed, loss, left;
  if (progress.steps > 0) step = fmt::format("step {}/{}", progress.step, progress.steps);
  if (progress.images_per_second > 0) speed = fmt::format("{:.0f} img/s", progress.images_per_second);
  if (progress.loss) loss = fmt::format("loss {:.3f}", *progress.loss);
  if (progress.seconds_left) left = duration_text(*progress.seconds_left) + " left";
  const auto line = [&] {
    std::vector<std::string> parts;
    for (std::string* part : {&label, &step, &speed, &loss, &left})
      if (!part->empty()) parts.push_back(*part);
    return joined(parts, " | ");
  };
  const auto shorten_label = [&] {
    const std::size_t all = display_width(line()), own = display_width(label);
    if (all <= columns) return;
    const std::size_t room = own > all - columns ? own - (all - columns) : 0;
    label = shorten_middle(whole, std::max(room, std::min(own, kShortestLabel)));
  };
  shorten_label();
  for (std::string* dispensable : {&loss, &speed}) {
    if (display_width(line()) <= columns) break;
    dispensable->clear();
    label = whole;
    shorten_label();
  }
  return shorten_middle(line(), columns);
}

std::vector<std::string> progress_lines(const SweepProgress& progress, std::size_t columns, std::size_t rows) {
  constexpr std::size_t kIndent = 2;
  std::vector<std::string> lines{sweep_line(progress, columns)};
  if (columns <= kIndent) return lines;
  for (const WorkerProgress& worker : progress.workers) {
    const std::size_t left = progress.workers.size() + 1 - lines.size();
    if (lines.size() + 1 >= rows && left > 1) {
      if (lines.size() < rows) lines.push_back(shorten_middle(fmt::format("  ... and {} more", left), columns));
      break;
    }
    if (lines.size() < rows) lines.push_back("  " + worker_line(worker, columns - kIndent));
  }
  return lines;
}

ProgressPrinter::ProgressPrinter(std::FILE* stream)
    : stream_(stream), terminal_(is_terminal(stream)), interval_(terminal_ ? kTerminalInterval : kPlainInterval) {
  if (!terminal_) last_ = Clock::now();  // nothing to report at the beginning
}

ProgressPrinter::~ProgressPrinter() { clear(); }

void ProgressPrinter::update(const SweepProgress& progress) {
  const auto now = Clock::now();
  if (last_ && now - *last_ < interval_) return;
  if (last_ && !terminal_) interval_ = std::min<Clock::duration>(2 * interval_, kLongestPlainInterval);
  last_ = now;
  const Screen screen =
      terminal_ ? screen_of(::fileno(stream_)) : Screen{Screen().columns + 1, progress.workers.size() + 2};
  // One column stays free, since some terminals wrap when the last one is filled. One row stays free, since the last
  // line also ends with a newline.
  const auto lines = progress_lines(progress, screen.columns - 1, std::max<std::size_t>(screen.rows, 2) - 1);
  clear();
  for (const std::string& line : lines) put(stream_, line + "\n");
  if (terminal_) shown_ = lines;
  std::fflush(stream_);
}

void ProgressPrinter::message(const std::string& text) {
  clear();
  if (terminal_) last_.reset();  // the next update restores the lines
  put(stream_, visible(text) + "\n");
  std::fflush(stream_);
}

void ProgressPrinter::clear() {
  if (shown_.empty()) return;
  // The lines wrap if the window has become narrower.
  const std::size_t columns = screen_of(::fileno(stream_)).columns;
  std::size_t rows = 0;
  for (const std::string& line : shown_)
    rows += std::max<std::size_t>(1, (display_width(line) + columns - 1) / columns);
  put(stream_, fmt::format("\x1b[{}A\r\x1b[J", rows));
  shown_.clear();
  std::fflush(stream_);
}

}  // namespace normlab
