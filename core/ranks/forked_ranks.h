// Ranks that are forked processes of this machine and exchange bytes through shared memory.
#pragma once

#include <string>

#include "core/function_ref.h"
#include "core/ranks/ranks.h"

namespace normlab {

inline constexpr int kMostForkedRanks = 256;

/// Calls `body` in `count` processes at once: in this one as rank 0, and in count - 1 children that end with it.
/// Returns when all have ended. Throws what `body` throws here. If another rank fails, throws its error with its number
/// before it; EnvironmentError if it is killed. The other ranks are ended then. With a count of 1 it only calls `body`.
/// EnvironmentError if the system starts no more processes.
void fork_ranks(int count, FunctionRef<void(Ranks&)> body);

/// "rank 1 of 3 (process 4711) was ended by signal 9 (Killed; memory may have run out); the same command resumes from
/// the last checkpoint". `status` is from waitpid().
std::string rank_death(int rank, int count, int process, int status);

}  // namespace normlab
