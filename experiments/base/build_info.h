// What a result says about the program and the machine that made it.
#pragma once

#include <string>

namespace normlab {

/// Source version ("-dirty" where it was changed) and compiler with its flags, as the Makefile hands them over.
std::string build_version();
std::string build_flags();

/// "model name" of /proc/cpuinfo; "unknown" where it has none. EnvironmentError where it cannot be read.
std::string cpu_model();

std::string host_name();

/// Now, UTC: "2024-05-31T12:00:00Z".
std::string utc_time();

}  // namespace normlab
