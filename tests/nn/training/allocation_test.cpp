// A training step after the first two takes nothing from the system: no heap block (every `new` of this test program is
// counted) and no fresh page (the kernel counts the faults).
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/nn/model/small_network.h"
#include "tests/sanitizer.h"

namespace {
std::atomic<long> allocations{0};
}  // namespace

// Only the plain forms are replaced; the others of the standard library call them. A sanitizer brings its own.
#if !defined(NORMLAB_ADDRESS_SANITIZER) && !defined(NORMLAB_THREAD_SANITIZER)
#define NORMLAB_COUNTS_ALLOCATIONS 1
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // g++ inlines the one and not the other
#endif
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
  explicit WarmNetwork(const char* placement, const EngineSettings& changes = {})
      : WarmNetwork(small_vit(placement), settings(changes)) {}
  WarmNetwork(const ViTConfig& config, const EngineSettings& settings)
      : pool_(2), engine_(cpu_backend(), pool_, config, settings), data_(engine_.config(), settings.max_batch) {
    initialise(engine_.parameters(), engine_.config(), 1);
    engine_.state().lr = 1e-3;
    engine_.state().clip_norm = 1.0;
    train(2);
  }
  void train(int steps) {
    for (int step = 0; step < steps; ++step) engine_.train_step(data_.images, data_.labels);
  }

 private:
  static EngineSettings settings(EngineSettings s) {
    s.max_batch = 12;
    s.images_per_shard = 2;
    return s;
  }
  ShardPool pool_;
  Engine engine_;
  const Batch data_;
};

/// On a busy machine one thread may run all shards of the first steps. The other's first shard then takes its scratch,
/// so that a second or third round decides.
void check_takes_no_memory(WarmNetwork& network, int steps) {
  constexpr int kRounds = 3;
  for (int round = 1; round <= kRounds; ++round) {
    const long allocated = allocations, faulted = page_faults();
    network.train(steps);
    const long taken = allocations - allocated, pages = page_faults() - faulted;
    if (round < kRounds && (taken > 0 || pages > 0)) continue;
    CHECK(pages == 0);
    CHECK(taken == 0);
    return;
  }
}

}  // namespace

TEST_CASE("engine: a warm step takes no memory from the system") {
#if !defined(NORMLAB_COUNTS_ALLOCATIONS)
  MESSAGE("skipped: a sanitizer allocates and takes pages for its own bookkeeping");
  return;
#endif
  for (const char* placement : kPlacements) {
    CAPTURE(std::string(placement));
    WarmNetwork network(placement);
    check_takes_no_memory(network, 50);
  }
}

TEST_CASE("engine: a warm step of any optimiser takes no memory from the system") {
#if !defined(NORMLAB_COUNTS_ALLOCATIONS)
  MESSAGE("skipped: a sanitizer allocates and takes pages for its own bookkeeping");
  return;
#endif
  for (const OptimizerName name :
       {OptimizerName::big_vision_adam, OptimizerName::lamb, OptimizerName::lion, OptimizerName::muon}) {
    EngineSettings settings;
    settings.optimizer.name = name;
    settings.optimizer.bf16_moment = true;
    settings.optimizer.layer_decay = 0.8;
    settings.optimizer.multipliers = {{"head.*", 2.0, 0.0}};
    settings.ema = {0.9, 2};
    settings.accumulate = 3;
    WarmNetwork network("bn_ffnbn", settings);
    check_takes_no_memory(network, 20);
  }
}

TEST_CASE("engine: a warm step with drop-path takes no memory from the system") {
#if !defined(NORMLAB_COUNTS_ALLOCATIONS)
  MESSAGE("skipped: a sanitizer allocates and takes pages for its own bookkeeping");
  return;
#endif
  // Megabytes a block, and a shard is one image, for which most blocks are left out in the first steps.
  ViTConfig c = small_vit("pre_pre");
  c.image_size = {64, 64};
  c.embed_dim = 96;
  c.depth = 10;
  c.mlp_dim = 384;
  c.drop_path = 0.9;
  c.dropout = 0.1;
  EngineSettings settings;
  settings.max_batch = 2;
  settings.images_per_shard = 1;
  WarmNetwork network(c, settings);
  check_takes_no_memory(network, 40);
}
