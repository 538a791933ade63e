// A training step after the first few takes nothing from the system: no heap block (every `new` of this test program is
// counted) and no fresh page (the kernel counts the faults).
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "nn/engine.h"
#include "nn/init.h"

namespace {
std::atomic<long> allocations{0};
}  // namespace

// Only the plain forms are replaced; the others of the standard library call them. A sanitizer brings its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define NORMLAB_COUNTS_ALLOCATIONS 1
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes ? bytes : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif

using namespace normlab;

namespace {

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

long taken() { return allocations + page_faults(); }

constexpr const char* kPlacements[] = {"pre_pre", "bn_ffnbn", "dpn", "normformer"};

/// A small network on two threads, its batch cut into six shards, trained until it is warm.
class WarmNetwork {
 public:
  explicit WarmNetwork(const char* placement) : pool_(2), engine_(cpu_backend(), pool_, config(placement), settings()) {
    initialise(engine_.parameters(), engine_.config(), 1);
    images_ = memory_.empty({12, 16, 16, 3}, DType::f32), labels_ = memory_.empty({12}, DType::i32);
    for (std::int64_t i = 0; i < images_.size(); ++i) images_.data<float>()[i] = static_cast<float>(i % 97) / 97.0f;
    std::fill_n(labels_.data<std::int32_t>(), 12, 3);
    engine_.state().lr = 1e-3;
    engine_.state().clip_norm = 1.0;
    // Which thread meets which work first is chance, and on a busy machine one may join late. Each grows its scratch
    // and its stack once, so first times end; what every step takes does not.
    for (int step = 0, quiet = 0; quiet < 100; ++step) {
      REQUIRE_MESSAGE(step < 5000, "no hundred steps in a row without an allocation and a page fault");
      const long before = taken();
      train(1);
      quiet = taken() == before ? quiet + 1 : 0;
    }
  }
  void train(int steps) {
    for (int step = 0; step < steps; ++step) engine_.train_step(images_, labels_);
  }

 private:
  static ViTConfig config(const char* placement) {
    ViTConfig c;
    c.image_size = {16, 16};
    c.embed_dim = 24;
    c.depth = 2;
    c.num_heads = 3;
    c.mlp_dim = 96;
    c.placement = find_placement(placement)->placement;
    return c;
  }
  static EngineSettings settings() {
    EngineSettings s;
    s.max_batch = 12;
    s.images_per_shard = 2;
    return s;
  }
  ShardPool pool_;
  Engine engine_;
  Arena memory_;
  Tensor images_, labels_;
};

}  // namespace

TEST_CASE("engine: steps after the first allocate nothing and touch no fresh page") {
#if !defined(NORMLAB_COUNTS_ALLOCATIONS)
  MESSAGE("skipped: a sanitizer allocates and takes pages for its own bookkeeping");
  return;
#endif
  for (const char* placement : kPlacements) {
    CAPTURE(std::string(placement));
    WarmNetwork network(placement);
    const long allocated = allocations, faulted = page_faults();
    network.train(50);
    CHECK(page_faults() - faulted == 0);
    CHECK(allocations - allocated == 0);
  }
}
