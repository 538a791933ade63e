#include "experiments/lab/bench/measure.h"

#include "core/backend.h"

#include <algorithm>

namespace normlab {

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Timed::Timed(Backend& backend, ShardPool& pool, std::int64_t shards, bool lockstep,
             std::function<void(Collective&)> body, double least)
    : backend_(backend), pool_(pool), shards_(static_cast<int>(shards)), lockstep_(lockstep), body_(std::move(body)) {
  round();
  for (double t = round(); t < least; t = round() * double(repeats_))
    repeats_ = std::max(repeats_ + 1, std::int64_t(double(repeats_) * std::min(100.0, least / t)));
}

double Timed::round() const {
  const BenchClock::time_point begin = BenchClock::now();
  pool_.run(shards_, shards_, lockstep_, [&](Collective& c) {
    for (std::int64_t i = 0; i < repeats_; ++i) body_(c);
  });
  backend_.synchronize();
  return seconds_since(begin) / double(repeats_);
}

double Timed::seconds(double seconds) const {
  constexpr std::size_t kRounds = 3;
  std::vector<double> rounds;
  for (const BenchClock::time_point begin = BenchClock::now();
       rounds.size() < kRounds || seconds_since(begin) < seconds;)
    rounds.push_back(round());
  return median(std::move(rounds));
}

Tensor noise(Backend& backend, Arena& memory, const Shape& shape, DType dtype, float scale, std::uint32_t seed) {
  const Tensor made = memory.empty(shape, dtype);
  backend.synchronize();
  const auto fill = [&](auto* values) {
    std::uint32_t state = seed * 2654435761u + 1u;
    for (std::int64_t i = 0; i < made.size(); ++i) {
      state = state * 1664525u + 1013904223u;
      const float unit = float(state >> 8) * 0x1p-23f - 1.0f;
      values[i] = std::remove_pointer_t<decltype(values)>(scale * unit);
    }
  };
  if (dtype == DType::bf16)
    fill(made.data<bf16>());
  else
    fill(made.data<float>());
  return made;
}

Streams::Streams(Backend& backend, std::int64_t count) : memory(backend.memory()), floats(count) {
  for (Tensor& array : arrays) array = noise(backend, memory, {floats}, DType::f32, 1.0f, 1);
}

Timed stream(Backend& backend, ShardPool& pool, const Streams& streams, bool triad) {
  if (backend.whole_batch())
    return {backend, pool, 1, false, [&backend, &streams, triad](Collective&) {
              const auto& [a, x, y] = streams.arrays;
              if (triad)
                backend.add(x, y, a);
              else
                backend.copy_gradient(x, {a, Write::assign});
            }};
  const std::int64_t threads = pool.threads();
  return {backend, pool, threads, false, [&streams, triad, threads](Collective& c) {
            const std::int64_t n = streams.floats, begin = n * c.rank() / threads, end = n * (c.rank() + 1) / threads;
            float* a = streams.arrays[0].data<float>();
            const float *x = streams.arrays[1].data<float>(), *y = streams.arrays[2].data<float>();
            if (triad)
              for (std::int64_t i = begin; i < end; ++i) a[i] = x[i] + 0.5f * y[i];
            else
              for (std::int64_t i = begin; i < end; ++i) a[i] = 0.5f * x[i];
          }};
}

double Roofline::bound(double flops, double bytes) const {
  return std::max(flops / flops_per_second, bytes / bytes_per_second);
}

Roofline measure_roofline(Backend& backend, ShardPool& pool, DType dtype, std::int64_t floats, std::int64_t side,
                          double seconds) {
  Roofline result;
  {
    const Streams streams(backend, floats);
    result.bytes_per_second = 2 * streams.bytes() / stream(backend, pool, streams, false).seconds(seconds);
  }
  const std::int64_t threads = backend.whole_batch() ? 1 : pool.threads(), n = side;
  const LinearDims dims{n, n, n};
  Arena memory(backend.memory());
  struct Factors {
    Tensor x, w, y;
  };
  std::vector<Factors> factors;
  for (std::int64_t i = 0; i < threads; ++i)
    factors.push_back({noise(backend, memory, {n, n}, dtype, 1.0f, 2), noise(backend, memory, {n, n}, dtype, 1.0f, 3),
                       memory.empty({n, n}, dtype)});
  backend.prepare_linear(dims, dtype, false);
  const Timed products(backend, pool, threads, false, [&](Collective& c) {
    const Factors& f = factors[static_cast<std::size_t>(c.rank())];
    backend.linear(dims, f.x, f.w, {}, {}, f.y);
  });
  result.flops_per_second = 2 * double(n) * double(n) * double(n) * double(threads) / products.seconds(seconds);
  return result;
}

}  // namespace normlab
