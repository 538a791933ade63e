// Which of the device's work is ordered after which: a clock for each stream, as in "Time, Clocks, and the Ordering of
// Events in a Distributed System" (Lamport 1978; vectors of them by Fidge and Mattern). The emulation does everything at
// once, in the order of the calls; a device may do work of two streams in any order that events, and the host's waiting,
// leave it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "tests/cuda_emulation/runtime.h"

namespace normlab::emulation {

/// Work has serial numbers, one for each block of threads, counted over everything that ran. By the number of a stream:
/// what has a smaller serial number than this is done.
using Clock = std::map<int, std::uint32_t>;

struct Work {
  std::uint32_t first;      // of its serial numbers
  std::uint32_t unordered;  // the least of earlier work that need not be done before it; `first` if there is none
};
/// Of the stream whose turn it is. `op` is kept.
Work begin_work(const char* op, std::uint64_t blocks = 1);
/// Whether earlier work need not be done before that of the stream whose turn it is.
bool out_of_order(std::uint32_t serial);
/// "upload of stream 2": work that the host has not waited for.
std::string words_of(std::uint32_t serial);
/// "..., which no event orders before it": the end of a fault.
inline constexpr const char* kOutOfOrder = ", and neither an event nor the host's waiting orders that before it";

/// Checks and notes that work other than a kernel's touches memory of the device.
void touch(const char* op, const Work&, const void* address, std::size_t bytes, bool writes);
/// That it reads or writes pinned memory of the host, which must wait for that: a source keeps its values until then, and
/// a target gets them then.
void touch_host(const char* op, const Work&, void* address, std::size_t bytes, bool writes);
/// Bytes for touch_host() to know.
void pin(void* block, std::size_t bytes);
void unpin(void* block);
bool is_pinned(const void* address);

/// Whether the calls that follow on this stream are kept for a graph.
bool capturing(cudaStream_t);
/// The host waits for all streams.
void wait_for_all();

}  // namespace normlab::emulation
