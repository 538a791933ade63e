// A training step after the first few takes nothing from the system: no heap block (every `new` of this test program is
// counted) and no fresh page (the kernel counts the faults).
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <new>

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
    // Which thread meets which work first is chance, and each grows its scratch once: a few steps warm all of them.
    train(20);
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

TEST_CASE("engine: steps after the first allocate nothing") {
#if !defined(NORMLAB_COUNTS_ALLOCATIONS)
  MESSAGE("skipped: under a sanitizer allocations are not counted");
#endif
  for (const char* placement : kPlacements) {
    CAPTURE(placement);
    WarmNetwork network(placement);
    const long before = allocations;
    network.train(5);
    CHECK(allocations - before == 0);
  }
}

TEST_CASE("engine: steps after the first touch no fresh page") {
#if !defined(NORMLAB_COUNTS_ALLOCATIONS)
  MESSAGE("skipped: a sanitizer's own bookkeeping takes pages");
  return;
#endif
  for (const char* placement : kPlacements) {
    CAPTURE(placement);
    WarmNetwork network(placement);
    const long before = page_faults();
    network.train(50);
    CHECK(page_faults() - before == 0);
  }
}
