#include "core/cpu/instruction_set.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif
#include <unistd.h>

#include <cstring>

// No vector instructions here: these functions run on CPUs that lack them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define NORMLAB_BASELINE \
  __attribute__((target("no-avx,no-avx2,no-avx512f,no-fma,no-bmi,no-bmi2"), optimize("no-tree-vectorize")))
#elif defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__)
#define NORMLAB_BASELINE __attribute__((target("arch=armv8-a")))
#else
#define NORMLAB_BASELINE
#endif

namespace normlab {
namespace {

#if defined(__aarch64__)
constexpr const char* kPortable = "armv8-a";
#else
constexpr const char* kPortable = "x86-64-v3";
#endif

constexpr const char* kNeeded[] = {
#if defined(__SSE4_2__)
    "sse4.2",
#endif
#if defined(__AVX__)
    "avx",
#endif
#if defined(__AVX2__)
    "avx2",
#endif
#if defined(__FMA__)
    "fma",
#endif
#if defined(__BMI2__)
    "bmi2",
#endif
#if defined(__AVX512F__)
    "avx512f",
#endif
#if defined(__AVX512BW__)
    "avx512bw",
#endif
#if defined(__AVX512VL__)
    "avx512vl",
#endif
#if defined(__AVX512DQ__)
    "avx512dq",
#endif
#if defined(__AVX512VBMI2__)
    "avx512vbmi2",
#endif
#if defined(__AVX512BF16__)
    "avx512bf16",
#endif
#if defined(__ARM_FEATURE_ATOMICS)
    "atomics",
#endif
#if defined(__ARM_FEATURE_QRDMX)
    "asimdrdm",
#endif
#if defined(__ARM_FEATURE_DOTPROD)
    "asimddp",
#endif
#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
    "asimdhp",
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
    "i8mm",
#endif
#if defined(__ARM_FEATURE_SVE)
    "sve",
#endif
#if defined(__ARM_FEATURE_SVE2)
    "sve2",
#endif
    nullptr};

NORMLAB_BASELINE void say(const char* text) {
  std::size_t n = 0;
  while (text[n]) ++n;
  if (write(STDERR_FILENO, text, n) < 0) return;  // without a reader, the exit code still reports it
}

/// Runs before every other constructor (priority 101 is the first that programs may use).
NORMLAB_BASELINE __attribute__((constructor(101))) void check_cpu() {
  const char* missing = missing_instruction_set(cpu_has);
  if (!missing) return;
  say("normlab: this binary was built for a CPU with ");
  say(missing);
  say(", which this CPU lacks; build it on this machine: make clean && make (or make ARCH=");
  say(kPortable);
  say(" for a binary that runs on both; in a tarball, bin/normlab chooses)\n");
  _exit(3);
}

}  // namespace

NORMLAB_BASELINE const char* missing_instruction_set(bool (*has)(const char*)) {
  for (int i = 0; kNeeded[i]; ++i)
    if (!has(kNeeded[i])) return kNeeded[i];
  return nullptr;
}

NORMLAB_BASELINE bool cpu_has(const char* name) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // The builtin needs a literal.
#define NORMLAB_TRY(feature) \
  if (std::strcmp(name, feature) == 0) return __builtin_cpu_supports(feature)
  NORMLAB_TRY("sse4.2");
  NORMLAB_TRY("avx");
  NORMLAB_TRY("avx2");
  NORMLAB_TRY("fma");
  NORMLAB_TRY("popcnt");
  NORMLAB_TRY("bmi");
  NORMLAB_TRY("bmi2");
  NORMLAB_TRY("avx512f");
  NORMLAB_TRY("avx512bw");
  NORMLAB_TRY("avx512vl");
  NORMLAB_TRY("avx512cd");
  NORMLAB_TRY("avx512dq");
  NORMLAB_TRY("avx512vbmi2");
  NORMLAB_TRY("avx512bf16");
  // Not every compiler's builtin knows these names: they are bits of leaves 1, 7 and 0x80000001.
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
  if (std::strcmp(name, "movbe") == 0) return c & (1u << 22);
  if (std::strcmp(name, "f16c") == 0) return c & (1u << 29);
  if (std::strcmp(name, "lzcnt") == 0) return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c & (1u << 5));
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  if (std::strcmp(name, "amx-bf16") == 0) return d & (1u << 22);
  if (std::strcmp(name, "sha") == 0) return b & (1u << 29);
#undef NORMLAB_TRY
#elif defined(__aarch64__)
  // Names as in /proc/cpuinfo.
  const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  if (std::strcmp(name, "atomics") == 0) return first & HWCAP_ATOMICS;
  if (std::strcmp(name, "asimdrdm") == 0) return first & HWCAP_ASIMDRDM;
  if (std::strcmp(name, "asimddp") == 0) return first & HWCAP_ASIMDDP;
  if (std::strcmp(name, "asimdhp") == 0) return first & HWCAP_ASIMDHP;
  if (std::strcmp(name, "sve") == 0) return first & HWCAP_SVE;
  if (std::strcmp(name, "sve2") == 0) return second & HWCAP2_SVE2;
  if (std::strcmp(name, "i8mm") == 0) return second & HWCAP2_I8MM;
#endif
  return false;
}

}  // namespace normlab
