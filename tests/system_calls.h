// Calls of the system as a test wants them answered: the test program's own definitions stand before those of the C
// library, for the standard library too.
#pragma once

namespace normlab {

enum class Call { write, pwrite, open_new, fsync, mkdir, rename, exchange, link, unlink, ftruncate, close, send };

/// An answer: a write goes through in half.
inline constexpr int kShort = 10'000;

/// Where it is set, what this call answers: 0 the truth; an errno, and the call is not made; or minus an errno: it is
/// made and its answer gets lost. Asked in this process and those it forks, from any thread.
inline int (*answer)(Call) = nullptr;

}  // namespace normlab
