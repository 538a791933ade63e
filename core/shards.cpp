#include "core/shards.h"

#include <algorithm>
#include <chrono>
#include <latch>
#include <limits>

#include "core/error.h"
#include "core/float_control.h"
#include "core/start_thread.h"

namespace normlab {
namespace {
/// Ends a shard whose meeting was called off because another shard failed; never leaves run().
struct Aborted {};

/// How long an idle thread looks for work before it sleeps: about the cost of a wake-up.
constexpr std::chrono::microseconds kPatience{50};

/// Touches the stack pages that shards will use, before any shard runs.
void touch_stack() {
  constexpr std::size_t kBytes = 128 << 10, kPage = 4096;
  [[maybe_unused]] volatile char pages[kBytes];
  for (std::size_t i = 0; i < kBytes; i += kPage) pages[i] = 0;
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
}  // namespace

void flush_denormals() { set_float_control(float_control() | kFlushDenormals); }

class ShardPool::Shard final : public Collective {
 public:
  enum class State { waiting, running, in_meeting, finished };

  Shard(ShardPool& pool, int place) : pool_(pool), place_(place) {}
  int rank() const override { return pool_.shared_ ? pool_.shared_->number(place_) : place_; }
  int size() const override { return pool_.shared_ ? pool_.shared_->all() : pool_.total_; }
  int place() const override { return place_; }

  void meet(Bytes bytes, void* result, Combine combine_all) override {
    if (pool_.total_ == 1) {
      pool_.contributions_[0] = bytes;
      pool_.own_[0] = result;
      return pool_.combine(combine_all);
    }
    if (!pool_.lockstep_)
      throw InputError("collective: shards can only exchange values in a run that keeps them in lockstep");
    contribution = bytes;
    object = result;
    combine = &combine_all;
    fiber->pause();
    if (called_off) throw Aborted();
  }

  std::byte* memory(std::size_t bytes) override {
    memory_.resize(std::max(memory_.size(), bytes));
    return memory_.data();
  }

  void begin() {
    state = State::waiting;
    segments = 0;
    error = nullptr;
    begun = called_off = false;
  }

  /// Runs until it meets or ends; true if it has ended.
  bool advance() {
    if (!pool_.lockstep_) {
      call_body();
      return true;
    }
    if (!begun) fiber->begin([](void* self) { static_cast<Shard*>(self)->call_body(); }, this);
    begun = true;
    return fiber->resume();
  }

  std::unique_ptr<Fiber> fiber;  // in lockstep
  State state = State::waiting;
  int segments = 0;  // meetings reached
  bool begun = false, called_off = false;
  Bytes contribution;
  void* object = nullptr;
  const Combine* combine = nullptr;
  std::exception_ptr error;

 private:
  void call_body() {
    try {
      (*pool_.body_)(*this);
    } catch (const Aborted&) {
    } catch (...) {
      error = std::current_exception();
    }
  }

  ShardPool& pool_;
  const int place_;
  std::vector<std::byte> memory_;
};

ShardPool::ShardPool(int threads, Group& group) : count_(threads), group_(group) {
  if (threads < 1) throw InputError(concat("threads: ", threads, " is below 1; use at least 1"));
  flush_denormals();
}

ShardPool::~ShardPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ShardPool::start_threads() {
  while (static_cast<int>(threads_.size()) < count_ - 1)
    threads_.push_back(start_thread([this] {
      flush_denormals();
      touch_stack();
      std::unique_lock lock(mutex_);
      work(lock, [this] { return stop_; });
    }));
}

void ShardPool::run(int shards, int lanes, bool lockstep, FunctionRef<void(Collective&)> body, SharedShards* shared,
                    bool by_lane) {
  if (shards > 1) start_threads();
  std::unique_lock lock(mutex_);
  // Everything that can fail comes first, since threads start on a shard as soon as one is waiting.
  while (static_cast<int>(shards_.size()) < shards)
    shards_.push_back(std::make_unique<Shard>(*this, static_cast<int>(shards_.size())));
  contributions_.resize(shards_.size());
  own_.resize(shards_.size());
  lockstep_ = lockstep && shards > 1;
  const std::span ours(shards_.data(), static_cast<std::size_t>(shards));
  for (const auto& shard : ours)
    if (lockstep_ && !shard->fiber) shard->fiber = std::make_unique<Fiber>();
  for (const auto& shard : ours) shard->begin();
  body_ = &body;
  shared_ = shared;
  by_lane_ = by_lane;
  total_ = shards, lanes_ = lanes, finished_ = arrived_ = 0;
  aborted_ = false;
  changed();
  work(lock, [this] { return finished_ == total_; });  // the calling thread takes part
  body_ = nullptr;
  shared_ = nullptr;
  for (const auto& shard : ours)
    if (shard->error) std::rethrow_exception(shard->error);
}

template <class Ended>
void ShardPool::work(std::unique_lock<std::mutex>& lock, const Ended& ended) {
  while (!ended())
    if (Shard* shard = next_runnable())
      run_shard(lock, *shard);
    else
      wait_for_change(lock);
}

ShardPool::Shard* ShardPool::next_runnable() const {
  const int step = by_lane_ ? lanes_ : 1;
  for (int first = 0; first < step; ++first)
    for (int i = first; i < total_; i += step) {
      Shard& shard = *shards_[static_cast<std::size_t>(i)];
      if (shard.state == Shard::State::waiting &&
          (i < lanes_ || shards_[static_cast<std::size_t>(i - lanes_)]->segments > shard.segments))
        return &shard;
    }
  return nullptr;
}

void ShardPool::run_shard(std::unique_lock<std::mutex>& lock, Shard& shard) {
  shard.state = Shard::State::running;
  lock.unlock();
  const bool ended = shard.advance();
  lock.lock();
  if (!ended) return arrive(lock, shard);
  shard.state = Shard::State::finished;
  shard.segments = std::numeric_limits<int>::max();
  ++finished_;
  if (shard.error) call_off();
  changed();
}

void ShardPool::arrive(std::unique_lock<std::mutex>& lock, Shard& shard) {
  shard.state = Shard::State::in_meeting;
  ++shard.segments;
  contributions_[static_cast<std::size_t>(shard.place())] = shard.contribution;
  own_[static_cast<std::size_t>(shard.place())] = shard.object;
  if (++arrived_ == total_) {
    // All others wait, so no thread reads or writes what is combined here.
    lock.unlock();
    try {
      combine(*shard.combine);
    } catch (...) {
      shard.error = std::current_exception();
    }
    lock.lock();
    arrived_ = 0;
    for (int i = 0; i < total_; ++i) shards_[static_cast<std::size_t>(i)]->state = Shard::State::waiting;
  }
  if (aborted_ || shard.error) call_off();
  changed();
}

void ShardPool::combine(Collective::Combine combine) {
  const std::span<const Collective::Bytes> here(contributions_.data(), static_cast<std::size_t>(total_));
  combine(shared_ ? shared_->exchange(here) : here, {own_.data(), here.size()});
}

void ShardPool::call_off() {
  aborted_ = true;
  for (int i = 0; i < total_; ++i) {
    Shard& other = *shards_[static_cast<std::size_t>(i)];
    if (other.state == Shard::State::in_meeting) other.state = Shard::State::waiting;
    if (other.state == Shard::State::waiting) other.called_off = true;
  }
}

void ShardPool::changed() {
  ++changes_;
  if (sleeping_ > 0) change_.notify_all();
}

void ShardPool::wait_for_change(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t seen = changes_;
  lock.unlock();
  for (const auto until = std::chrono::steady_clock::now() + kPatience;
       changes_ == seen && std::chrono::steady_clock::now() < until;)
    relax();
  lock.lock();
  ++sleeping_;
  change_.wait(lock, [&] { return changes_ != seen; });
  --sleeping_;
}

void ShardPool::on_each_thread(FunctionRef<void()> body) {
  std::latch all_have_begun(count_);  // so that no thread gets two
  run(count_, count_, false, [&](Collective&) {
    all_have_begun.arrive_and_wait();
    body();
  });
}

void ShardPool::for_blocks(std::int64_t blocks, FunctionRef<void(std::int64_t)> body) {
  const std::int64_t workers = std::min<std::int64_t>(count_, blocks);
  if (workers <= 1) {
    for (std::int64_t b = 0; b < blocks; ++b) body(b);
    return;
  }
  std::atomic<std::int64_t> next{0};  // blocks are independent, so it does not matter which worker gets which
  run(static_cast<int>(workers), static_cast<int>(workers), false, [&](Collective&) {
    for (std::int64_t b = next++; b < blocks; b = next++) body(b);
  });
}

}  // namespace normlab
