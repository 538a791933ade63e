#include "experiments/lab/base/machine_load.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <thread>

namespace normlab {
namespace {

constexpr double kNoticeable = 0.1;  // of a core; any idle machine causes less

double seconds_of(const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); }

double own_seconds() {
  double seconds = 0;
  for (const auto of : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(of, &usage);
    seconds += seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  }
  return seconds;
}

}  // namespace

std::optional<CpuTimes> parse_cpu_times(std::string_view text, double ticks_per_second) {
  // user nice system idle iowait irq softirq steal; the guest times after them are included in user and nice.
  enum { user, nice, system, idle, iowait, irq, softirq, steal, kFields };
  text = text.substr(0, text.find('\n'));
  if (!text.starts_with("cpu ")) return std::nullopt;
  text.remove_prefix(4);
  double ticks[kFields];
  for (double& field : ticks) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    field = double(value);
  }
  const double busy = ticks[user] + ticks[nice] + ticks[system] + ticks[irq] + ticks[softirq];
  return CpuTimes{busy / ticks_per_second, ticks[steal] / ticks_per_second};
}

LoadMeter::LoadMeter() : begin_(read()) {}

LoadMeter::Reading LoadMeter::read() {
  Reading now;
  std::string line;
  std::ifstream file("/proc/stat");
  if (std::getline(file, line)) now.machine = parse_cpu_times(line, double(sysconf(_SC_CLK_TCK)));
  now.own = own_seconds();
  now.wall = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  return now;
}

std::optional<MachineLoad> LoadMeter::load() const {
  const Reading now = read();
  const double wall = now.wall - begin_.wall;
  if (!begin_.machine || !now.machine || wall <= 0) return std::nullopt;
  // The kernel counts ticks, so the difference can be slightly negative.
  const double others = now.machine->busy - begin_.machine->busy - (now.own - begin_.own);
  return MachineLoad{std::max(0.0, others) / wall, std::max(0.0, now.machine->stolen - begin_.machine->stolen) / wall};
}

std::optional<MachineLoad> LoadMeter::settled_load() const {
  constexpr double kSettled = 0.5;  // seconds
  const double since = read().wall - begin_.wall;
  if (since < kSettled) std::this_thread::sleep_for(std::chrono::duration<double>(kSettled - since));
  return load();
}

std::string other_load(const std::optional<MachineLoad>& load, int decimals) {
  if (!load) return "the machine's load is unknown: /proc/stat cannot be read";
  std::string words;
  if (load->others > kNoticeable) words = fmt::format("other processes used {:.{}f} cores", load->others, decimals);
  if (load->stolen > kNoticeable)
    words += fmt::format("{}the host took {:.{}f} cores (steal)", words.empty() ? "" : "; ", load->stolen, decimals);
  return words;
}

std::string publishing_note(const std::optional<MachineLoad>& load, const Conditions& c) {
  std::string note = other_load(load, 2);
  const auto add = [&](const std::string& reason) { note += (note.empty() ? "" : "; ") + reason; };
  if (c.threads > c.cores) add(fmt::format("{} threads on {} cores", c.threads, c.cores));
  if (c.openblas_variables) add("OPENBLAS_* variables were kept");
  return note;
}

bool openblas_variables_kept() {
  for (char** entry = environ; *entry; ++entry)
    if (std::string_view(*entry).starts_with("OPENBLAS_")) return true;
  return false;
}

}  // namespace normlab
