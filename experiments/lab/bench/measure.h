// Timed rounds, and the two rates that no kernel exceeds.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/arena.h"
#include "core/collective.h"
#include "core/devices.h"
#include "core/shards.h"
#include "experiments/lab/base/clock.h"

namespace normlab {

using BenchClock = std::chrono::steady_clock;

/// The upper median for an even count; `values` is not empty.
double median(std::vector<double> values);

/// Seconds of each call: at least `least` calls, and until they total `seconds`.
template <class Work>
std::vector<double> call_times(double seconds, std::size_t least, Work&& work) {
  std::vector<double> times;
  for (double total = 0; total < seconds || times.size() < least; total += times.back()) {
    const BenchClock::time_point begin = BenchClock::now();
    work();
    times.push_back(seconds_since(begin));
  }
  return times;
}

/// Work that all shards do at once, repeated in a round until starting threads and waiting for the device cost almost
/// nothing. Wall time until the device finishes.
class Timed {
 public:
  /// Warms up and finds how many repeats take `least` seconds.
  Timed(Backend& backend, ShardPool& pool, std::int64_t shards, bool lockstep, std::function<void(Collective&)> body,
        double least = 0.01);
  /// Seconds per call in one round.
  double round() const;
  /// Median over rounds that total `seconds`, at least three.
  double seconds(double seconds) const;

 private:
  Backend& backend_;
  ShardPool& pool_;
  int shards_;
  bool lockstep_;
  std::function<void(Collective&)> body_;
  std::int64_t repeats_ = 1;
};

/// A new tensor of pseudo-random values in (-scale, scale): products of zeros draw less power and run faster.
Tensor noise(Backend& backend, Arena& memory, const Shape& shape, DType dtype, float scale, std::uint32_t seed);

/// Three arrays too large for any cache.
struct Streams {
  static constexpr std::int64_t kFloats = std::int64_t{24} << 20;  // 288 MB in total
  Arena memory;
  std::int64_t floats;
  std::array<Tensor, 3> arrays{};
  explicit Streams(Backend& backend, std::int64_t count = kFloats);
  double bytes() const { return double(floats) * sizeof(float); }  // per array
};

/// Copies the second array to the first, or sums the last two into it, with all threads. A GPU uses its gradient and
/// sum kernels, which move the same bytes.
Timed stream(Backend& backend, ShardPool& pool, const Streams& streams, bool triad);

/// The rates that the machine reaches with no other work.
struct Roofline {
  double bytes_per_second = 0;  // of a copy, counting reads and writes
  double flops_per_second = 0;  // of a large square product
  /// Lower bound in seconds: the larger of the compute and memory times.
  double bound(double flops, double bytes) const;
};

/// Measured with all threads of `pool` at once: a copy of so many floats, and a square product of this side per thread, or
/// one on a GPU. `backend` must support products of `dtype` (Backend::with_bf16). `seconds`: per measurement.
Roofline measure_roofline(Backend& backend, ShardPool& pool, DType dtype, std::int64_t floats, std::int64_t side,
                          double seconds = 0.2);

}  // namespace normlab
