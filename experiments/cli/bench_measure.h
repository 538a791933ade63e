// What the measurements under `bench` are made of: rounds of something, and the two rates that no kernel exceeds.
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

namespace normlab {

using BenchClock = std::chrono::steady_clock;
inline double seconds_since(BenchClock::time_point begin) {
  return std::chrono::duration<double>(BenchClock::now() - begin).count();
}

/// The upper one of an even number; `values` is not empty.
double median(std::vector<double> values);

/// Seconds of each call of `work`: of `least` calls or more, which take `seconds` together.
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

/// Something that all shards do at once, so often in a round that starting the threads, or waiting for the device, is
/// nothing beside it. Wall time from the first start to the device's end.
class Timed {
 public:
  /// Warms up, and finds how often it goes into a round of `least` seconds.
  Timed(Backend& backend, ShardPool& pool, std::int64_t shards, bool lockstep, std::function<void(Collective&)> body,
        double least = 0.01);
  /// Seconds of one call in a round.
  double round() const;
  /// The median of rounds that take `seconds` together, of three at least.
  double seconds(double seconds) const;

 private:
  Backend& backend_;
  ShardPool& pool_;
  int shards_;
  bool lockstep_;
  std::function<void(Collective&)> body_;
  std::int64_t repeats_ = 1;
};

/// Values in (-scale, scale), as spread as random ones: products of zeros take less power, and with it less time.
void fill_noise(Backend& backend, Tensor to, float scale, std::uint32_t seed);
/// A new tensor of such values.
Tensor noise(Backend& backend, Arena& memory, const Shape& shape, DType dtype, float scale, std::uint32_t seed);

/// Three arrays that no cache holds.
struct Streams {
  static constexpr std::int64_t kFloats = std::int64_t{24} << 20;  // together 288 MB
  Arena memory;
  std::int64_t floats;
  std::array<Tensor, 3> arrays{};
  explicit Streams(Backend& backend, std::int64_t count = kFloats);
  double bytes() const { return double(floats) * sizeof(float); }  // of one
};

/// A copy of the second array to the first, or a sum of the last two into it, by all threads at once; on a GPU by its
/// kernels for a gradient and a sum, which move the same.
Timed stream(Backend& backend, ShardPool& pool, const Streams& streams, bool triad);

/// What the machine reaches where nothing else is to be done.
struct Roofline {
  double bytes_per_second = 0;  // of a copy, read and written
  double flops_per_second = 0;  // of a large square product
  /// Seconds that no order of the work undercuts: the longer of both.
  double bound(double flops, double bytes) const;
};

struct RooflineSizes {
  std::int64_t floats = Streams::kFloats, side = 1024;
  double seconds = 0.2;  // of each of the two
};
/// Products of 8192 a side on a GPU, of 1024 a thread on the CPU.
RooflineSizes roofline_sizes(bool on_gpu);
/// By the threads of `pool`, all at once. `backend` is one that has the products of `dtype` (Backend::with_bf16).
Roofline measure_roofline(Backend& backend, ShardPool& pool, DType dtype, const RooflineSizes& sizes);

}  // namespace normlab
