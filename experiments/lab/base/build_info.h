// The program and machine that a result reports.
#pragma once

#include <string>
#include <string_view>

namespace normlab {

/// Source version ("-dirty" with local changes) and compiler with flags, from the Makefile.
std::string build_version();
/// Whether a version is of sources that no commit holds.
inline bool is_uncommitted(std::string_view version) { return version.ends_with("-dirty"); }
std::string build_flags();

/// The CPUs it was compiled for, as the compiler's -march names them: "native", or a level such as "x86-64-v3".
std::string build_level();

/// "model name" from /proc/cpuinfo, or "unknown". EnvironmentError if the file cannot be read.
std::string cpu_model();

std::string host_name();

/// UTC: "2024-05-31T12:00:00Z".
std::string utc_time();

}  // namespace normlab
