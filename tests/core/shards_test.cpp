#include "core/shards.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/memory.h"
#include "core/memory_error.h"
#include "tests/sanitizer.h"

using namespace normlab;

namespace {

void barrier(Collective& c) {
  c.meet({}, nullptr, [](auto, auto) {});
}

/// The sum of the values of all shards, added in the order in which a meeting shows them.
double sum(Collective& c, double value) {
  const double* const mine = &value;
  double total = 0;
  c.meet(std::as_bytes(std::span(mine, 1)), &total,
         [](std::span<const Collective::Bytes> all, std::span<void* const> here) {
           double of_all = 0;
           for (const Collective::Bytes& bytes : all) of_all += *reinterpret_cast<const double*>(bytes.data());
           for (void* own : here) *static_cast<double*>(own) = of_all;
         });
  return total;
}

}  // namespace

TEST_CASE("shards: each lane takes its shards in order for any number of threads") {
  for (const int threads : {1, 2, 3, 7})
    for (const bool lockstep : {false, true}) {
      CAPTURE(threads);
      CAPTURE(lockstep);
      ShardPool pool(threads);
      constexpr int kShards = 23, kLanes = 4;
      std::vector<std::vector<int>> order(kLanes);  // no lock: a lane runs one shard at a time
      pool.run(kShards, kLanes, lockstep, [&](Collective& c) {
        order[static_cast<std::size_t>(c.rank() % kLanes)].push_back(c.rank());
        if (lockstep) {
          barrier(c);
          order[static_cast<std::size_t>(c.rank() % kLanes)].push_back(100 + c.rank());
        }
      });
      for (int lane = 0; lane < kLanes; ++lane) {
        std::vector<int> expected;
        for (const int add : {0, 100})
          for (int s = lane; s < kShards; s += kLanes)
            if (add == 0 || lockstep) expected.push_back(add + s);
        CHECK(order[static_cast<std::size_t>(lane)] == expected);
      }
    }
}

TEST_CASE("shards: lane by lane, lanes begin in their order and no more are open than threads") {
  for (const int threads : {1, 2, 3, 7}) {
    CAPTURE(threads);
    ShardPool pool(threads);
    constexpr int kShards = 23, kLanes = 8;
    std::mutex mutex;
    std::vector<int> begun;
    std::vector<int> shards;  // of the last lane
    int open = 0, most = 0;
    pool.run(
        kShards, kLanes, false,
        [&](Collective& c) {
          const std::lock_guard lock(mutex);
          if (c.rank() < kLanes) begun.push_back(c.rank()), most = std::max(most, ++open);
          if (c.rank() + kLanes >= kShards) --open;
          if (c.rank() % kLanes == kLanes - 1) shards.push_back(c.rank());
        },
        nullptr, true);
    CHECK(begun.size() == kLanes);
    if (threads == 1) CHECK(std::is_sorted(begun.begin(), begun.end()));
    CHECK(most <= threads);
    CHECK(shards == std::vector<int>{7, 15});
  }
}

TEST_CASE("shards: in lockstep, no more shards run at a time than threads") {
  for (const int threads : {1, 2, 3}) {
    ShardPool pool(threads);
    std::atomic<int> running{0}, most{0};
    const auto enter = [&] {
      const int now = ++running;
      int seen = most;
      while (now > seen && !most.compare_exchange_weak(seen, now)) {
      }
    };
    pool.run(12, 8, true, [&](Collective& c) {
      for (int i = 0; i < 3; ++i) {
        enter();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        --running;
        barrier(c);
      }
    });
    CHECK(most <= threads);
  }
}

TEST_CASE("collective: a meeting shows what all contribute in shard order") {
  ShardPool pool(3);
  std::vector<double> sums(9);
  pool.run(9, 4, true, [&](Collective& c) {
    // 1e16 + 1 - 1e16 depends on the order: in shard order the ones after the cancellation survive.
    sums[static_cast<std::size_t>(c.rank())] = sum(c, c.rank() == 0 ? 1e16 : c.rank() == 4 ? -1e16 : 1.0);
  });
  double expected = 1e16;
  for (int s = 1; s < 9; ++s) expected += s == 4 ? -1e16 : 1.0;
  CHECK(sums == std::vector<double>(9, expected));
}

TEST_CASE("shards: an error of one shard ends those that wait for it") {
  for (const int threads : {1, 2, 5}) {
    CAPTURE(threads);
    ShardPool pool(threads);
    std::atomic<int> went_on{0};
    CHECK_THROWS_WITH_AS(pool.run(10, 4, true,
                                  [&](Collective& c) {
                                    barrier(c);
                                    // Both are in lane 3, so shard 7 would come after shard 3.
                                    if (c.rank() == 3 || c.rank() == 7) throw InputError(concat("shard ", c.rank()));
                                    barrier(c);
                                    ++went_on;
                                    barrier(c);
                                  }),
                         "shard 3", InputError);
    CHECK(went_on == 0);
  }
}

TEST_CASE("shards: after an error the pool runs again") {
  for (const int threads : {1, 2, 5}) {
    CAPTURE(threads);
    ShardPool pool(threads);
    CHECK_THROWS_WITH_AS(pool.run(10, 4, true,
                                  [&](Collective& c) {
                                    barrier(c);
                                    if (c.rank() == 3) throw InputError("shard 3");
                                    barrier(c);
                                  }),
                         "shard 3", InputError);
    std::atomic<int> ran{0};
    pool.run(10, 4, true, [&](Collective& c) {
      barrier(c);
      ++ran;
    });
    CHECK(ran == 10);
  }
}

TEST_CASE("shards: a meeting outside lockstep is refused") {
  for (const int threads : {1, 2, 5}) {
    ShardPool pool(threads);
    CHECK_THROWS_WITH_AS(pool.run(4, 4, false, [&](Collective& c) { barrier(c); }),
                         "collective: shards can only exchange values in a run that keeps them in lockstep",
                         InputError);
  }
}

TEST_CASE("shards: a pool without threads is refused") {
  CHECK_THROWS_WITH_AS(ShardPool(0), "threads: 0 is below 1; use at least 1", InputError);
}

TEST_CASE("shards: the error of the lowest failed shard is thrown, though others fail first") {
  for (const bool lockstep : {true, false}) {
    CAPTURE(lockstep);
    ShardPool pool(3);
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> ready{0}, failed{0};
      CHECK_THROWS_WITH_AS(pool.run(3, 3, lockstep,
                                    [&](Collective& c) {
                                      ++ready;
                                      while (ready < 3) std::this_thread::yield();              // all have begun
                                      while (failed < 2 - c.rank()) std::this_thread::yield();  // the highest first
                                      ++failed;
                                      throw InputError(concat("shard ", c.rank()));
                                    }),
                           "shard 0", InputError);
    }
  }
}

TEST_CASE("shards: where most shards fail, the error of the lowest is thrown") {
  ShardPool pool(2);
  CHECK_THROWS_WITH_AS(pool.run(20, 4, false,
                                [](Collective& c) {
                                  if (c.rank() >= 5) throw InputError(concat("shard ", c.rank()));
                                }),
                       "shard 5", InputError);
}

TEST_CASE("shards: what a shard keeps outlives a meeting") {
  ShardPool pool(3);
  std::vector<double> seen(20);
  pool.run(20, 8, true, [&](Collective& c) {
    auto* kept = reinterpret_cast<double*>(c.memory(sizeof(double)));
    *kept = double(c.rank());
    barrier(c);
    seen[static_cast<std::size_t>(c.rank())] = *kept;
  });
  for (int s = 0; s < 20; ++s) CHECK(seen[static_cast<std::size_t>(s)] == double(s));
}

TEST_CASE("shards: an error while contributions are combined ends the run") {
  ShardPool pool(3);
  std::atomic<int> went_on{0};
  CHECK_THROWS_WITH_AS(pool.run(20, 8, true,
                                [&](Collective& c) {
                                  c.meet({}, nullptr, [](std::span<const Collective::Bytes>, std::span<void* const>) {
                                    throw InputError("combined");
                                  });
                                  ++went_on;
                                }),
                       "combined", InputError);
  CHECK(went_on == 0);
}

TEST_CASE("shards: forty shards on few threads meet 500 times with right sums") {
  for (const int threads : {1, 4}) {
    ShardPool pool(threads);
    std::vector<double> sums(40);
    pool.run(40, 8, true, [&](Collective& c) {
      double total = 0;
      for (int round = 0; round < 500; ++round) {
        total += sum(c, double(c.rank() + round));
      }
      sums[static_cast<std::size_t>(c.rank())] = total;
    });
    for (const double sum : sums) CHECK(sum == 500.0 * 780 + 40.0 * 124750);
  }
}

#if !defined(NORMLAB_ADDRESS_SANITIZER) && !defined(NORMLAB_THREAD_SANITIZER)  // sanitizers map memory of their own
/// Limits this process's address space until the end of the scope.
class AddressLimit {
 public:
  explicit AddressLimit(std::size_t more_bytes) {
    REQUIRE(getrlimit(RLIMIT_AS, &before_) == 0);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit{(pages << 12) + more_bytes, before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
  }
  ~AddressLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

/// A pool of whose shards none started, since their stacks had no memory.
struct StarvedPool {
  StarvedPool() {
    run(4);  // its threads have just seen the last change, so they look for shards right now
    calls = 0;
    const AddressLimit limit(8 << 20);
    try {
      run(64);
    } catch (...) {
      error = std::current_exception();
    }
  }
  void run(int shards) {
    pool.run(shards, std::min(shards, 8), true, [this](Collective& c) {
      ++calls;
      barrier(c);
    });
  }
  ShardPool pool{3};
  std::atomic<int> calls{0};
  std::exception_ptr error;  // looked at once there is memory again
};

TEST_CASE("shards: without memory for their stacks no shard starts") {
  for (int round = 0; round < 50; ++round) {
    const StarvedPool starved;
    REQUIRE(bool(starved.error));
    CHECK_THROWS_WITH_AS(std::rethrow_exception(starved.error), doctest::Contains("cannot map the stack of a fiber"),
                         EnvironmentError);
    CHECK(starved.calls == 0);
  }
}

TEST_CASE("memory: a limit on address space that leaves nothing is no trial's fault, but a large request is") {
  const auto message = [](std::size_t bytes) {
    const AddressLimit limit(0);
    try {
      host_memory().allocate(bytes);
    } catch (const MemoryError&) {
      return std::string("of the trial");
    } catch (const EnvironmentError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(message(2 << 20).find("ulimit -v") != std::string::npos);
  CHECK(message(std::size_t{1} << 46) == "of the trial");
}

TEST_CASE("shards: after a lack of memory the pool runs again") {
  for (int round = 0; round < 50; ++round) {
    StarvedPool starved;
    REQUIRE(bool(starved.error));
    starved.run(64);
    CHECK(starved.calls == 64);
  }
}
#endif
