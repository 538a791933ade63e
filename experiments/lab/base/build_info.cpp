#include "experiments/lab/base/build_info.h"

#include <unistd.h>

#include <ctime>
#include <sstream>

#include "experiments/lab/base/files.h"

#ifndef NORMLAB_VERSION
#define NORMLAB_VERSION "unknown"
#endif
#ifndef NORMLAB_LEVEL
#define NORMLAB_LEVEL "unknown"
#endif
#ifndef NORMLAB_FLAGS
#define NORMLAB_FLAGS "unknown"
#endif

namespace normlab {

std::string build_version() { return NORMLAB_VERSION; }

std::string build_flags() { return NORMLAB_FLAGS; }

std::string build_level() { return NORMLAB_LEVEL; }

std::string cpu_model() {
  std::istringstream file(read_file("/proc/cpuinfo"));
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const auto start = line.find_first_not_of(" \t", line.find(':') + 1);
    if (start != line.npos) return line.substr(start);
  }
  return "unknown";
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string utc_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace normlab
