#include "core/cpu/instruction_set.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

using namespace normlab;

TEST_CASE("instruction set: this CPU has what the binary needs, another one is told what it lacks") {
  CHECK(missing_instruction_set(cpu_has) == nullptr);
  CHECK(!cpu_has("not a feature"));
#if defined(__AVX2__)
  const char* missing = missing_instruction_set([](const char* name) { return std::strncmp(name, "avx2", 4) != 0; });
  REQUIRE(missing != nullptr);
  CHECK(std::string(missing) == "avx2");
#endif
}
