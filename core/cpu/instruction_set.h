// Compares the instruction sets of this binary with those of the CPU. This runs first, because the first unsupported
// vector instruction would kill the process without a message.
#pragma once

namespace normlab {

/// The first instruction set that the binary needs and `has` denies, or nullptr. `has` takes GCC's names, "avx512f",
/// or on ARM those of /proc/cpuinfo, "asimddp".
const char* missing_instruction_set(bool (*has)(const char*));

/// Whether the running CPU has it; unknown names count as missing.
bool cpu_has(const char* name);

}  // namespace normlab
