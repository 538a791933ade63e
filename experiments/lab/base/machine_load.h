// Other load on the machine, which makes a measurement unreliable.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace normlab {

/// Seconds summed over all cores since boot.
struct CpuTimes {
  double busy = 0.0;    // user, nice, system and interrupts, for all processes
  double stolen = 0.0;  // on a virtual machine: time that the host gave to others
};

/// Parses the first line of /proc/stat, which counts in `ticks_per_second` (proc_stat(5)). nullopt if it is malformed.
std::optional<CpuTimes> parse_cpu_times(std::string_view proc_stat, double ticks_per_second);

/// In cores, averaged over the measurement: 0.5 is half a core.
struct MachineLoad {
  double others = 0.0, stolen = 0.0;
};

class LoadMeter {
 public:
  LoadMeter();
  /// The load so far, without this process and its ended children. nullopt if /proc/stat cannot be read.
  std::optional<MachineLoad> load() const;
  /// The same, but of at least half a second, for which it waits if need be: the kernel counts in hundredths.
  std::optional<MachineLoad> settled_load() const;

 private:
  struct Reading {
    std::optional<CpuTimes> machine;
    double own = 0.0, wall = 0.0;
  };
  static Reading read();
  Reading begin_;
};

/// Other load or stolen time above a tenth of a core, in words: "other processes used 1.3 cores"; unknown load too. ""
/// if there is none.
std::string other_load(const std::optional<MachineLoad>& load, int decimals);

struct Conditions {
  int threads = 1, cores = 1;
  bool openblas_variables = false;  // OPENBLAS_* variables were kept
};

/// Why a figure is not worth publishing, or "": other load or stolen time above a tenth of a core, unknown load, more
/// threads than cores, OpenBLAS variables.
std::string publishing_note(const std::optional<MachineLoad>& load, const Conditions& conditions);

bool openblas_variables_kept();

}  // namespace normlab
