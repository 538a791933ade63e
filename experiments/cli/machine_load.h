// What else the machine did while something was measured: a figure taken beside other work says little.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace normlab {

/// Seconds of all cores together, since the machine started.
struct CpuTimes {
  double busy = 0.0;    // user, nice, system, interrupts, of all processes
  double stolen = 0.0;  // a virtual machine: what its host gave to others
};

/// The first line of /proc/stat, which counts in `ticks_per_second` (proc_stat(5)); nothing where it is not of that
/// form.
std::optional<CpuTimes> parse_cpu_times(std::string_view proc_stat, double ticks_per_second);

/// In cores' worth of time over the measurement: 0.5 is half a core.
struct MachineLoad {
  double others = 0.0, stolen = 0.0;
};

/// Measures from its construction on.
class LoadMeter {
 public:
  LoadMeter();
  /// Of the machine so far, less what this process and children that ended used; nothing where /proc/stat cannot be
  /// read.
  std::optional<MachineLoad> load() const;

 private:
  struct Reading {
    std::optional<CpuTimes> machine;
    double own = 0.0, wall = 0.0;
  };
  static Reading read();
  Reading begin_;
};

/// What the measured code ran with.
struct Conditions {
  int threads = 1, cores = 1;
  bool openblas_variables = false;  // OPENBLAS_* were kept
};

/// Why a figure is not worth publishing, or "" where nothing speaks against it: other load or stolen time above a tenth
/// of a core, an unknown load, more threads than cores, OpenBLAS variables.
std::string publishing_note(const std::optional<MachineLoad>& load, const Conditions& conditions);

/// Of this process, as they stand now: true where any OPENBLAS_* variable is left in the environment.
bool openblas_variables_kept();

}  // namespace normlab
