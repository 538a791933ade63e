// bin/normlab of a tarball: runs lib/normlab-LEVEL, the program for the highest level of x86-64 that this CPU has, or
// for the one that NORMLAB_LEVEL names. Compiled for any x86-64 CPU, and linked with libc alone, so that it can say
// what is missing.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/cpu/instruction_set.h"

namespace {

constexpr int kBadInput = 2, kEnvironment = 3;

/// `needs` beside what the levels before it need; GCC's names.
struct Level {
  const char* name;
  const char* needs[10];
};
constexpr Level kLevels[] = {
    {"x86-64-v3", {"sse4.2", "popcnt", "avx", "avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe"}},
    {"x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}}};

const char* missing(const Level& level) {
  for (const char* need : level.needs)
    if (need && !normlab::cpu_has(need)) return need;
  return nullptr;
}

}  // namespace

int main(int, char** argv) {
  const char* const wanted = std::getenv("NORMLAB_LEVEL");
  const bool forced = wanted && *wanted;
  const Level* chosen = nullptr;
  const char* lacks = nullptr;
  bool known = false;
  for (const Level& level : kLevels) {
    if (!lacks) lacks = missing(level);
    const bool named = forced && std::strcmp(level.name, wanted) == 0;
    known |= named;
    if (!lacks && (!forced || named)) chosen = &level;
    if (named) break;
  }
  if (forced && !known) {
    std::fprintf(stderr, "normlab: NORMLAB_LEVEL=%s: this tarball has x86-64-v3 and x86-64-v4\n", wanted);
    return kBadInput;
  }
  if (!chosen) {
    std::fprintf(stderr, "normlab: needs a CPU of level %s, and this one has no %s\n",
                 forced ? wanted : kLevels[0].name, lacks);
    return kEnvironment;
  }

  // Its own place, through symbolic links: /proc/self/exe is FOLDER/bin/normlab.
  char path[PATH_MAX + 32] = {};
  char* end = path + std::max<ssize_t>(readlink("/proc/self/exe", path, PATH_MAX), 0);
  for (int up = 0; up < 2 && end != path; ++up)
    while (end != path && *--end != '/') {
    }
  std::snprintf(end, sizeof path - static_cast<std::size_t>(end - path), "/lib/normlab-%s", chosen->name);
  execv(path, argv);
  std::fprintf(stderr,
               "normlab: %s cannot be run: %s; bin/normlab needs /proc and the folder that the tarball put it in "
               "(make a symbolic link to it, not a copy)\n",
               path, std::strerror(errno));
  return kEnvironment;
}
