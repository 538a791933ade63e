#include "core/shards.h"

#include <algorithm>
#include <atomic>
#include <cerrno>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/error.h"
#include "core/start_thread.h"

namespace normlab {
namespace {
/// Ends a shard that waits for one that failed; never leaves run().
struct Aborted {};

/// Takes the pages of the stack that shards will use, before any does.
void touch_stack() {
  constexpr std::size_t kBytes = 128 << 10, kPage = 4096;
  [[maybe_unused]] volatile char pages[kBytes];
  for (std::size_t i = 0; i < kBytes; i += kPage) pages[i] = 0;
}
}  // namespace

void flush_denormals() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040u);  // flush-to-zero, denormals-are-zero
#endif
}

class ShardPool::Member final : public Collective {
 public:
  Member(ShardPool& pool, int shard) : pool_(pool), shard_(shard) {}
  int rank() const override { return shard_; }
  int size() const override { return pool_.shards_; }
  void meet(void* mine, FunctionRef<void(std::span<void* const>)> combine) override {
    if (!pool_.lockstep_ && pool_.shards_ > 1)
      throw InputError("collective: shards can only meet in a run that keeps them in lockstep");
    pool_.meet(shard_, mine, combine);
  }

 private:
  ShardPool& pool_;
  const int shard_;
};

ShardPool::ShardPool(int threads) : slots_(threads) {
  if (threads < 1) throw InputError(concat("threads: ", threads, " is below 1"));
  flush_denormals();
}

ShardPool::~ShardPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ShardPool::start_threads(int count) {
  while (static_cast<int>(threads_.size()) < count) threads_.push_back(start_thread([this] { thread_loop(); }));
}

void ShardPool::thread_loop() {
  flush_denormals();
  touch_stack();
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stop_ || helpers_wanted_ > 0; });
    if (stop_) return;
    --helpers_wanted_;
    lock.unlock();
    take_shards();
    lock.lock();
    if (--active_ == 0) done_.notify_all();
  }
}

void ShardPool::run(int shards, int lanes, bool lockstep, FunctionRef<void(Collective&)> body) {
  std::unique_lock lock(mutex_);
  while (static_cast<int>(records_.size()) < shards) records_.push_back(std::make_unique<ShardRecord>());
  for (int i = 0; i < shards; ++i) {
    ShardRecord& r = *records_[static_cast<std::size_t>(i)];
    r.segments = 0;
    r.waiting_to_run = r.in_meeting = false;
    r.error = nullptr;
  }
  contributions_.resize(static_cast<std::size_t>(shards));
  body_ = &body;
  shards_ = shards, lanes_ = lanes, next_ = finished_ = arrived_ = 0;
  free_slots_ = slots_;
  lockstep_ = lockstep && shards > 1;
  aborted_ = false;
  // The calling thread is one of them.
  const int helpers = (lockstep_ ? shards : std::min(slots_, shards)) - 1;
  start_threads(helpers);
  helpers_wanted_ = active_ = helpers;
  lock.unlock();
  if (helpers > 0) work_.notify_all();
  take_shards();
  lock.lock();
  active_ -= helpers_wanted_;  // whoever has not woken yet need not
  helpers_wanted_ = 0;
  done_.wait(lock, [this] { return active_ == 0; });
  body_ = nullptr;
  for (int i = 0; i < shards; ++i)
    if (records_[static_cast<std::size_t>(i)]->error)
      std::rethrow_exception(records_[static_cast<std::size_t>(i)]->error);
}

bool ShardPool::lane_is_free(int shard) const {
  return shard < lanes_ || records_[static_cast<std::size_t>(shard - lanes_)]->segments >
                               records_[static_cast<std::size_t>(shard)]->segments;
}

void ShardPool::take_shards() {
  std::unique_lock lock(mutex_);
  while (next_ < shards_) {
    const int shard = next_++;
    acquire(lock, shard);
    run_shard(shard);
    lock.lock();
    ++records_[static_cast<std::size_t>(shard)]->segments;
    ++finished_;
    ++free_slots_;
    grant();
  }
}

void ShardPool::run_shard(int shard) {
  try {
    Member member(*this, shard);
    (*body_)(member);
  } catch (const Aborted&) {
  } catch (...) {
    abort(shard, std::current_exception());
  }
}

void ShardPool::abort(int shard, std::exception_ptr error) {
  std::lock_guard lock(mutex_);
  records_[static_cast<std::size_t>(shard)]->error = error;
  aborted_ = true;
  for (auto& record : records_) {
    if (!record->in_meeting) continue;
    record->waiting_to_run = record->in_meeting = false;
    // Taken again before its exception travels on: take_shards() gives one back for every shard that ends.
    --free_slots_;
    wake(*record, Signal::aborted);
  }
}

ShardPool::Signal ShardPool::wait(ShardRecord& record) {
  while (sem_wait(&record.wake) != 0 && errno == EINTR) {
  }
  return record.signal;
}

void ShardPool::wake(ShardRecord& record, Signal signal) {
  record.signal = signal;
  sem_post(&record.wake);
}

void ShardPool::acquire(std::unique_lock<std::mutex>& lock, int shard) {
  ShardRecord& r = *records_[static_cast<std::size_t>(shard)];
  r.waiting_to_run = true;
  grant();
  lock.unlock();
  wait(r);
}

void ShardPool::grant() {
  for (int i = 0; i < shards_ && free_slots_ > 0; ++i) {
    ShardRecord& r = *records_[static_cast<std::size_t>(i)];
    if (!r.waiting_to_run || !lane_is_free(i)) continue;
    r.waiting_to_run = r.in_meeting = false;
    --free_slots_;
    wake(r, Signal::granted);
  }
}

void ShardPool::meet(int shard, void* mine, FunctionRef<void(std::span<void* const>)> combine) {
  std::unique_lock lock(mutex_);
  ShardRecord& r = *records_[static_cast<std::size_t>(shard)];
  contributions_[static_cast<std::size_t>(shard)] = mine;
  if (aborted_) throw Aborted();
  ++r.segments;
  if (++arrived_ == shards_) {
    // All others wait, so nobody reads or writes what is combined here.
    lock.unlock();
    combine(contributions_);
    lock.lock();
    arrived_ = 0;
    for (int i = 0; i < shards_; ++i)
      if (i != shard) records_[static_cast<std::size_t>(i)]->waiting_to_run = true;
    // The last to arrive keeps its slot only if its lane is free already; it joins the queue like everybody else.
    ++free_slots_;
    acquire(lock, shard);
  } else {
    r.in_meeting = true;
    ++free_slots_;
    grant();
    lock.unlock();
    if (wait(r) == Signal::aborted) throw Aborted();
  }
  if (aborted_) throw Aborted();
}

void ShardPool::on_each_thread(FunctionRef<void()> body) {
  // None ends before all have begun, so no thread gets two.
  const int threads = std::max(static_cast<int>(threads_.size()) + 1, slots_);
  run(threads, threads, true, [&](Collective& shards) {
    body();
    shards.meet(nullptr, [](std::span<void* const>) {});
  });
}

void ShardPool::for_blocks(std::int64_t blocks, FunctionRef<void(std::int64_t)> body) {
  const std::int64_t workers = std::min<std::int64_t>(slots_, blocks);
  if (workers <= 1) {
    for (std::int64_t b = 0; b < blocks; ++b) body(b);
    return;
  }
  std::atomic<std::int64_t> next{0};  // which worker has a block changes nothing, since blocks are independent
  run(static_cast<int>(workers), static_cast<int>(workers), false, [&](Collective&) {
    for (std::int64_t b = next++; b < blocks; b = next++) body(b);
  });
}

}  // namespace normlab
