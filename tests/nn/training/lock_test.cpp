// No kernel takes a lock: shards wait for one another in the pool and nowhere else. Every pthread_mutex_lock of this
// test program is counted, those of the libraries it loads included, since a program's own symbol comes first. OpenBLAS
// guards its list of buffers with one for some instructions in every product; those are told apart by the caller.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <locale>
#include <memory>
#include <mutex>

#include "core/cpu/blas.h"
#include "nn/model/init.h"
#include "nn/model/vit.h"
#include "nn/training/optimizer.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/sanitizer.h"

// A sanitizer has this symbol itself.
#if !defined(NORMLAB_ADDRESS_SANITIZER) && !defined(NORMLAB_THREAD_SANITIZER)
#define NORMLAB_COUNTS_LOCKS 1
namespace {
struct Locks {
  long ours = 0, openblas = 0;
};
thread_local Locks locks;
thread_local bool counting = false;

/// Whether that place in the code is OpenBLAS's. The search goes through all its symbols, so places are remembered.
bool from_openblas(const void* place) {
  thread_local const void* seen[8] = {};
  thread_local std::size_t count = 0;
  if (std::find(seen, seen + count, place) != seen + count) return true;
  Dl_info info{};
  if (!dladdr(place, &info) || !info.dli_fname || !std::strstr(info.dli_fname, "openblas")) return false;
  if (count < std::size(seen)) seen[count++] = place;
  return true;
}
}  // namespace
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t*);
  static Lock real = nullptr;  // written with the same value by whoever comes first; no guard, which could lock
  if (!real) real = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  if (counting) ++(from_openblas(__builtin_return_address(0)) ? locks.openblas : locks.ours);
  return real(mutex);
}

using namespace normlab;

namespace {

ViTConfig config(const Placement& placement, bool token) {
  ViTConfig c;
  c.image_size = {8, 8};
  c.embed_dim = 24;
  c.depth = 2;
  c.num_heads = 3;
  c.mlp_dim = 48;
  c.rep_size = 16;
  c.dropout = c.attention_dropout = c.drop_path = 0.1;
  c.pool = token ? Pool::token : Pool::gap;
  c.gelu = token ? GeluForm::tanh : GeluForm::erf;
  c.pos_embed_class = token;
  c.placement = placement;
  simplify_blocks(c.placement, c.depth);
  return c;
}

/// Forward, backward and update of a whole network as one shard on this thread.
class Network {
 public:
  static constexpr std::int64_t kBatch = 4;
  Network(const ViTConfig& c, DType dtype, OptimizerName name)
      : tape_(in_precision(cpu_backend(), precision_of(dtype)), arena_), model_(parameters_, c) {
    parameters_.allocate(acc_of(dtype), 1);
    initialise(parameters_, c, 1);
    OptimizerSettings settings;
    settings.name = name;
    optimizer_ = std::make_unique<Optimizer>(cpu_backend(), parameters_, settings);
    images_ = memory_.empty({kBatch, c.image_size[0], c.image_size[1], c.channels}, dtype);
    labels_ = memory_.empty({kBatch}, DType::i32);
    std::memset(images_.raw(), 0, static_cast<std::size_t>(images_.size()) * size_of(dtype));
    std::fill_n(labels_.data<std::int32_t>(), kBatch, 3);
  }

  void step(bool training, bool sigmoid) {
    tape_.reset();
    const Step one{.parameters = parameters_, .training = training, .state = &state_, .drop_seed = 1};
    const BatchSlice all{kBatch, 0, kBatch, &alone_};
    const Shard shard{.step = one, .tape = tape_, .lane = training ? 0 : -1, .slice = all};
    const Var logits = model_(tape_.input(images_), shard);
    const Targets targets{labels_, Tensor(), 0.1, Smoothing::all};
    const Var losses = sigmoid ? sigmoid_cross_entropy(logits, targets) : softmax_cross_entropy(logits, targets);
    if (!training) return;
    Tensor seed = tape_.empty_like(losses.value());
    std::memset(seed.raw(), 0, static_cast<std::size_t>(seed.size()) * size_of(seed.dtype()));
    tape_.backward(losses, seed);
    optimizer_->begin_step(state_);
    optimizer_->step(pool_, &state_);
  }

 private:
  Arena arena_, memory_;
  Tape tape_;
  ParameterSet parameters_;
  ViT model_;
  std::unique_ptr<Optimizer> optimizer_;
  ShardPool pool_{1};  // hands no block to another thread
  SingleShard alone_;
  StepState state_;
  Tensor images_, labels_;
};

template <class F>
Locks locks_of(F&& f) {
  locks = {};
  counting = true;
  f();
  counting = false;
  return locks;
}

}  // namespace

TEST_CASE("locks: those of this program and of its libraries are counted") {
  blas_info();  // loaded, which takes locks
  std::mutex mutex;
  CHECK(locks_of([&] { std::lock_guard lock(mutex); }).ours == 1);
  CHECK(locks_of([] { std::locale::global(std::locale::classic()); }).ours > 0);  // guarded inside libstdc++
}

TEST_CASE("locks: a product by OpenBLAS takes none of ours") {
  const float a = 2, b = 3;
  float c = 0;
  const auto multiply = [&] { gemm(false, false, 1, 1, 1, 1.0f, &a, 1, &b, 1, 0.0f, &c, 1); };
  multiply();  // the first one loads OpenBLAS
  CHECK(locks_of(multiply).ours == 0);
  CHECK(c == 6);
}

TEST_CASE("locks: no kernel takes one") {
  for (const NamedPlacement& row : named_placements())
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool token : {false, true}) {
        CAPTURE(std::string(row.name));
        CAPTURE(to_string(dtype));
        CAPTURE(token);
        Network network(config(row.placement, token), dtype, token ? OptimizerName::sgd : OptimizerName::adamw);
        const auto steps = [&] {
          network.step(true, false);
          network.step(true, true);
          network.step(false, false);
        };
        for (int i = 0; i < 2; ++i) steps();  // grow their scratch, and make what an engine makes beforehand
        const Locks taken = locks_of(steps);
        CHECK(taken.ours == 0);
      }
}
#else
TEST_CASE("locks: no kernel takes one") { MESSAGE("skipped: under a sanitizer locks are not counted"); }
#endif
