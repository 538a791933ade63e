#include "tests/cuda_emulation/scheduler.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "core/error.h"
#include "tests/cuda_emulation/fiber.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/cuda_emulation/schedule.h"
#include "tests/cuda_emulation/shared_memory.h"
#include "tests/cuda_emulation/streams.h"

namespace normlab::emulation {

constinit thread_local Position position{};
constinit thread_local Running* running = nullptr;

namespace {

constexpr int kLanes = 32, kMaxThreads = 1024;

std::string str(Where where) {
  const std::string_view file = where.file;
  return concat(file.substr(file.rfind('/') + 1), ":", where.line);
}
bool same(Where a, Where b) { return a.line == b.line && (a.file == b.file || std::string_view(a.file) == b.file); }
std::string_view name_of(WarpOp op) {
  constexpr std::string_view kNames[] = {"__syncwarp", "vote", "shuffle"};
  return kNames[static_cast<int>(op)];
}

enum class State : std::uint8_t { fresh, ready, at_barrier, in_warp_operation, done };
struct Thread {
  State state;
  Fiber* fiber;  // where it stopped
  Where where;
  // of its warp operation
  WarpOp op;
  std::uint32_t mask;
  std::uint64_t value, result;
  int source;
};

class Machine {
 public:
  void run(const char* op, dim3 grid, dim3 block, std::size_t shared_bytes, void* call, std::size_t call_bytes,
           void (*body)(void*));
  [[noreturn]] void fault(const std::string& what);
  void block_barrier(Where where);
  void* shared(const void* key, std::size_t bytes) { return shared_.take(key, bytes); }
  std::uint64_t warp_operation(WarpOp op, std::uint32_t mask, std::uint64_t value, int source, Where where);

 private:
  /// Lanes of a warp that wait for others in one operation.
  struct Group {
    std::uint32_t mask, arrived;
    WarpOp op;
    Where where;
  };
  void run_block();
  bool run_warp(int warp);
  void resume(int thread);
  void enter(int thread);  // threadIdx and all that follows from it
  void threads_of_fiber();
  void release_barrier();
  void complete(int warp, std::uint32_t mask);
  [[noreturn]] void throw_deadlock();
  [[noreturn]] void throw_fault(int thread, const std::string& what);
  std::string place(int thread) const;
  int lanes_of(int warp) const { return std::min(kLanes, threads_ - warp * kLanes); }
  Fiber* free_fiber();

  const char* op_ = nullptr;
  void (*body_)(void*) = nullptr;
  void* call_ = nullptr;
  int threads_ = 0, current_ = 0, waiting_ = 0, done_ = 0;
  std::size_t dynamic_ = 0;
  std::vector<Thread> all_;
  std::vector<int> warps_, lanes_;
  std::vector<std::vector<Group>> groups_;  // each warp
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> free_;
  Fiber* fiber_ = nullptr;  // that runs
  std::string fault_;
  SharedMemory shared_;
  Running running_{};
};

Machine& machine() {
  static thread_local Machine instance;
  return instance;
}

std::string Machine::place(int thread) const {
  const dim3 d = position.block_dim, g = position.grid_dim;
  const auto index = [](unsigned x, unsigned y, unsigned z, bool flat) {
    return flat ? std::to_string(x) : concat("(", x, ", ", y, ", ", z, ")");
  };
  const auto t = static_cast<unsigned>(thread);
  return concat(op_, ": block ", index(position.block.x, position.block.y, position.block.z, g.y * g.z == 1),
                ", thread ", index(t % d.x, t / d.x % d.y, t / d.x / d.y, d.y * d.z == 1));
}

void Machine::throw_fault(int thread, const std::string& what) { throw Fault(concat(place(thread), ": ", what)); }

void Machine::fault(const std::string& what) {
  fault_ = concat(place(current_), ": ", what);
  fiber_->suspend();
  std::abort();  // nobody resumes it
}

Fiber* Machine::free_fiber() {
  if (free_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>([] { machine().threads_of_fiber(); }));
    free_.push_back(fibers_.back().get());
  }
  Fiber* fiber = free_.back();
  free_.pop_back();
  return fiber;
}

void Machine::enter(int thread) {
  current_ = thread;
  const dim3 d = position.block_dim;
  const auto t = static_cast<unsigned>(thread);
  position.thread = {t % d.x, t / d.x % d.y, t / d.x / d.y};
  running_.thread = static_cast<std::uint16_t>(thread);
}

/// What a fiber does all its life: it runs the thread that it was resumed for.
void Machine::threads_of_fiber() {
  for (;;) {
    body_(call_);
    all_[static_cast<std::size_t>(current_)].state = State::done;
    ++done_;
    fiber_->suspend();
  }
}

void Machine::resume(int thread) {
  Thread& t = all_[static_cast<std::size_t>(thread)];
  enter(thread);
  fiber_ = t.state == State::fresh ? free_fiber() : t.fiber;
  t.state = State::ready;
  t.fiber = fiber_;
  running_.stack = static_cast<const char*>(fiber_->stack());
  running_.stack_end = running_.stack + fiber_->stack_bytes();
  running = &running_;
  fiber_->resume();
  running = nullptr;
  if (!fault_.empty()) throw Fault(fault_);
  if (t.state == State::done) free_.push_back(fiber_);
}

/// Every lane that can go on does, until none can; whether one did.
bool Machine::run_warp(int warp) {
  bool moved = false;
  for (bool again = true; again;) {
    again = false;
    for (const int lane : lanes_) {
      if (lane >= lanes_of(warp)) continue;
      const int thread = warp * kLanes + lane;
      const State state = all_[static_cast<std::size_t>(thread)].state;
      if (state != State::fresh && state != State::ready) continue;
      resume(thread);
      again = moved = true;
    }
  }
  return moved;
}

void Machine::run_block() {
  std::fill(all_.begin(), all_.end(), Thread{});
  for (std::vector<Group>& groups : groups_) groups.clear();
  waiting_ = done_ = 0;
  shared_.begin_block(dynamic_);
  while (done_ < threads_) {
    bool moved = false;
    for (const int warp : warps_) moved |= run_warp(warp);
    if (waiting_ == threads_)
      release_barrier();
    else if (!moved)
      throw_deadlock();
  }
}

void Machine::release_barrier() {
  const Where first = all_[0].where;
  for (int t = 0; t < threads_; ++t) {
    Thread& thread = all_[static_cast<std::size_t>(t)];
    if (!same(thread.where, first))
      throw_fault(t, concat("waits at the __syncthreads of ", str(thread.where), " while thread 0 waits at that of ",
                            str(first)));
    thread.state = State::ready;
  }
  waiting_ = 0;
  ++running_.barriers;
}

void Machine::throw_deadlock() {
  for (int t = 0; t < threads_; ++t) {
    const Thread& thread = all_[static_cast<std::size_t>(t)];
    const auto other = [&](int o) {
      const Thread& who = all_[static_cast<std::size_t>(o)];
      return who.state == State::done ? concat("thread ", o, " has left the kernel")
             : who.state == State::at_barrier
                 ? concat("thread ", o, " waits at the __syncthreads of ", str(who.where))
                 : concat("thread ", o, " waits in the ", name_of(who.op), " of ", str(who.where));
    };
    if (thread.state == State::at_barrier) {
      for (int o = 0; o < threads_; ++o)
        if (all_[static_cast<std::size_t>(o)].state != State::at_barrier)
          throw_fault(t,
                      concat("waits at the __syncthreads of ", str(thread.where), ", which not all reach: ", other(o)));
    } else if (thread.state == State::in_warp_operation) {
      const int warp = t / kLanes * kLanes;
      for (int lane = 0; lane < kLanes; ++lane) {
        const int o = warp + lane;
        if (!(thread.mask >> lane & 1u) || o == t) continue;
        const Thread& who = all_[static_cast<std::size_t>(o)];
        if (who.state == State::in_warp_operation && who.mask == thread.mask) continue;
        throw_fault(t, concat("waits in the ", name_of(thread.op), " of ", str(thread.where),
                              " for all lanes of its mask: ", other(o)));
      }
    }
  }
  throw Fault(concat(op_, ": no thread can go on"));
}

void Machine::block_barrier(Where where) {
  Thread& t = all_[static_cast<std::size_t>(current_)];
  t.where = where;
  t.state = State::at_barrier;
  ++waiting_;
  fiber_->suspend();
}

std::uint64_t Machine::warp_operation(WarpOp op, std::uint32_t mask, std::uint64_t value, int source, Where where) {
  const int warp = current_ / kLanes, lane = current_ % kLanes;
  if (!(mask >> lane & 1u))
    fault(concat("the mask of the ", name_of(op), " of ", str(where), " leaves out its own lane"));
  if (const int lanes = lanes_of(warp); lanes < kLanes && mask >> lanes)
    fault(concat("the mask of the ", name_of(op), " of ", str(where), " names lanes that this warp of ", lanes,
                 " does not have"));
  if (op == WarpOp::shuffle && !(mask >> source & 1u))
    fault(concat("the shuffle of ", str(where), " reads lane ", source, ", which its mask leaves out"));
  std::vector<Group>& groups = groups_[static_cast<std::size_t>(warp)];
  auto group = groups.end();
  for (auto g = groups.begin(); g != groups.end(); ++g) {
    if (g->mask == mask)
      group = g;
    else if ((g->mask >> lane & 1u) || (g->arrived & mask))
      fault(concat("the mask of the ", name_of(op), " of ", str(where), " is not that of lanes which wait in the ",
                   name_of(g->op), " of ", str(g->where)));
  }
  if (group == groups.end())
    group = groups.insert(groups.end(), {mask, 0, op, where});
  else if (group->op != op || !same(group->where, where))
    fault(concat("is in the ", name_of(op), " of ", str(where), " while other lanes of its mask are in the ",
                 name_of(group->op), " of ", str(group->where), ": the warp has diverged"));
  group->arrived |= 1u << lane;
  Thread& t = all_[static_cast<std::size_t>(current_)];
  t.where = where;
  t.op = op;
  t.mask = mask;
  t.value = value;
  t.source = source;
  if (group->arrived == mask) {
    groups.erase(group);
    complete(warp, mask);
    t.state = State::ready;
    return t.result;
  }
  t.state = State::in_warp_operation;
  fiber_->suspend();
  return t.result;
}

/// All lanes of the mask are there: each gets its result and may go on.
void Machine::complete(int warp, std::uint32_t mask) {
  Thread* lanes = &all_[static_cast<std::size_t>(warp * kLanes)];
  std::uint32_t votes = 0;
  for (std::uint32_t left = mask; left; left &= left - 1) {
    const int lane = std::countr_zero(left);
    if (lanes[lane].value) votes |= 1u << lane;
  }
  for (std::uint32_t left = mask; left; left &= left - 1) {
    Thread& t = lanes[std::countr_zero(left)];
    t.result = t.op == WarpOp::vote ? votes : t.op == WarpOp::shuffle ? lanes[t.source].value : 0;
    t.state = State::ready;
  }
  ++running_.warp_barriers[static_cast<std::size_t>(warp)];
}

void Machine::run(const char* op, dim3 grid, dim3 block, std::size_t shared_bytes, void* call, std::size_t call_bytes,
                  void (*body)(void*)) {
  if (running) throw Fault(concat(op, ": launched from inside of a kernel"));
  if (error_at(op) != cudaSuccess) return;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxThreads) throw Fault(concat(op, ": a block of ", threads, " threads"));
  if (shared_bytes > SharedMemory::kMost)
    throw Fault(concat(op, ": ", shared_bytes, " bytes of shared memory a block"));
  op_ = op;
  body_ = body;
  call_ = call;
  threads_ = static_cast<int>(threads);
  dynamic_ = shared_bytes;
  all_.resize(threads);
  warps_.resize((threads + kLanes - 1) / kLanes);
  groups_.resize(warps_.size());
  lanes_.resize(kLanes);
  position.block_dim = block;
  position.grid_dim = grid;
  const auto blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  running_ = {};
  const Work work = begin_work(op, blocks);
  running_.launch_serial = work.first;
  running_.unordered = work.unordered;
  running_.shared = shared_.begin();
  running_.shared_end = shared_.end();
  running_.parameters = static_cast<const char*>(call);
  running_.parameters_end = running_.parameters + call_bytes;
  const std::uint64_t seed = current_schedule();
  try {
    for (std::uint64_t i = 0; i < blocks; ++i) {
      // Every other schedule takes the blocks from the back.
      const std::uint64_t b = seed % 2 ? blocks - 1 - i : i;
      position.block = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                        static_cast<unsigned>(b / grid.x / grid.y)};
      running_.serial = running_.launch_serial + static_cast<std::uint32_t>(i);
      running_.barriers = 0;
      running_.warp_barriers = {};
      permute(warps_, seed, static_cast<std::uint32_t>(b), 0);
      permute(lanes_, seed, static_cast<std::uint32_t>(b), 1);
      run_block();
    }
  } catch (...) {
    // Nothing runs on: the fibers that wait in the middle of a thread begin anew.
    fault_.clear();
    free_.clear();
    for (const auto& fiber : fibers_) {
      fiber->abandon();
      free_.push_back(fiber.get());
    }
    throw;
  }
}

thread_local long launches = 0;

}  // namespace

void run(EmulatedStream* stream, const char* op, dim3 grid, dim3 block, std::size_t shared_bytes, void* call,
         std::size_t call_bytes, void (*body)(void*)) {
  ++launches;
  if (!capturing(stream))
    return in_order(stream, [=] { machine().run(op, grid, block, shared_bytes, call, call_bytes, body); });
  std::vector<std::max_align_t> kept((call_bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
  std::memcpy(kept.data(), call, call_bytes);
  in_order(stream, [=]() mutable { machine().run(op, grid, block, shared_bytes, kept.data(), call_bytes, body); });
}
long kernels_launched() { return launches; }
void fault(const std::string& what) {
  running = nullptr;
  machine().fault(what);
}
void block_barrier(Where where) {
  const Pause pause;
  machine().block_barrier(where);
}
void* shared_memory(const void* key, std::size_t bytes) {
  const Pause pause;
  return machine().shared(key, bytes);
}
std::uint64_t warp_operation(WarpOp op, std::uint32_t mask, std::uint64_t value, int source, Where where) {
  const Pause pause;
  return machine().warp_operation(op, mask, value, source, where);
}

}  // namespace normlab::emulation
