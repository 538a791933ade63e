// What this binary was compiled for against what the CPU has. Checked before anything else runs, since the first vector
// instruction of another CPU would end the process without a word.
#pragma once

namespace normlab {

/// The first instruction set that the binary needs and `has` denies, or nullptr. `has` takes a name as GCC knows it:
/// "avx512f".
const char* missing_instruction_set(bool (*has)(const char*));

/// True where the running CPU has it; names that are not known count as missing.
bool cpu_has(const char* name);

}  // namespace normlab
