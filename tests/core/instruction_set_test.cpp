#include "core/cpu/instruction_set.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

using namespace normlab;

TEST_CASE("instruction set: this CPU has all that the binary needs") {
  CHECK(missing_instruction_set(cpu_has) == nullptr);
}

TEST_CASE("instruction set: an unknown feature is missing") { CHECK(!cpu_has("not a feature")); }

#if defined(__AVX2__)
TEST_CASE("instruction set: a CPU that runs this binary has what the compiler assumed") {
  for (const char* name : {"popcnt", "avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe"})
    CHECK_MESSAGE(cpu_has(name), name);
#if defined(__AVX512VL__)
  for (const char* name : {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})
    CHECK_MESSAGE(cpu_has(name), name);
#endif
}
#endif

#if defined(__AVX2__)
#define NEEDED "avx2"
#elif defined(__ARM_FEATURE_ATOMICS)
#define NEEDED "atomics"
#endif
#if defined(NEEDED)
TEST_CASE("instruction set: the feature that a CPU lacks is named") {
  const char* missing = missing_instruction_set([](const char* name) { return std::strcmp(name, NEEDED) != 0; });
  REQUIRE(missing != nullptr);
  CHECK(std::string(missing) == NEEDED);
}
#endif
