// A training step after the first takes nothing from the heap: every `new` of this test program is counted.
#include <doctest/doctest.h>

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

TEST_CASE("engine: steps after the first allocate nothing") {
#if !defined(NORMLAB_COUNTS_ALLOCATIONS)
  MESSAGE("skipped: under a sanitizer allocations are not counted");
#endif
  for (const char* placement : {"pre_pre", "bn_ffnbn", "dpn"}) {
    CAPTURE(placement);
    ViTConfig c;
    c.image_size = {16, 16};
    c.embed_dim = 24;
    c.depth = 2;
    c.num_heads = 3;
    c.mlp_dim = 96;
    c.placement = find_placement(placement)->placement;
    ShardPool pool(2);
    EngineSettings settings;
    settings.max_batch = 12;
    settings.images_per_shard = 2;
    Engine engine(cpu_backend(), pool, c, settings);
    initialise(engine.parameters(), c, 1);
    Arena memory;
    const Tensor images = memory.empty({12, 16, 16, 3}, DType::f32), labels = memory.empty({12}, DType::i32);
    std::fill_n(images.data<float>(), images.size(), 0.5f);
    for (std::int64_t i = 0; i < images.size(); ++i) images.data<float>()[i] = static_cast<float>(i % 97) / 97.0f;
    std::fill_n(labels.data<std::int32_t>(), 12, 3);
    engine.state().lr = 1e-3;
    engine.state().clip_norm = 1.0;
    // Which thread meets which work first is chance, and each grows its scratch once: a few steps warm all of them.
    for (int step = 0; step < 20; ++step) engine.train_step(images, labels);
    const long before = allocations;
    for (int step = 0; step < 5; ++step) engine.train_step(images, labels);
    CHECK(allocations - before == 0);
  }
}
