// A parallel loop over independent items, used for loading.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/start_thread.h"

namespace normlab {

/// Calls work(worker, item) for each item in [0, items). Up to `threads` threads, fewer if the system lacks some, take
/// blocks of `block` items in order. Rethrows the exception of the failing item with the lowest index, whatever the
/// number of threads: earlier blocks were started before it and are finished.
template <class Work>
void parallel_items(std::int64_t items, std::int64_t block, int threads, Work&& work) {
  const std::int64_t blocks = (items + block - 1) / block;
  const auto workers =
      static_cast<std::size_t>(std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(blocks, 1)));
  std::vector<std::pair<std::int64_t, std::exception_ptr>> failures(workers, {items, nullptr});
  std::atomic<std::int64_t> next{0};
  std::atomic<bool> failed{false};
  const auto loop = [&](std::size_t worker) {
    std::int64_t item = 0;
    try {
      while (!failed) {
        item = next++ * block;
        if (item >= items) return;
        for (const std::int64_t end = std::min(items, item + block); item < end; ++item) work(worker, item);
      }
    } catch (...) {
      failures[worker] = {item, std::current_exception()};
      failed = true;
    }
  };
  std::vector<std::thread> pool;
  try {
    for (std::size_t worker = 1; worker < workers; ++worker)
      pool.push_back(start_thread([&, worker] { loop(worker); }));
  } catch (const EnvironmentError&) {
  }
  loop(0);
  for (std::thread& thread : pool) thread.join();
  const auto first = std::min_element(failures.begin(), failures.end(),
                                      [](const auto& a, const auto& b) { return a.first < b.first; });
  if (first->second) std::rethrow_exception(first->second);
}

}  // namespace normlab
