// Ranks that are forked processes of this machine and exchange bytes through shared memory.
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>

#include "core/group.h"
#include "core/memory_error.h"

namespace normlab {
namespace {

/// Bytes that a rank shows to the others at a time.
constexpr std::size_t kBox = std::size_t{4} << 20;
/// How long a rank looks for the others before it sleeps: about the cost of a wake-up.
constexpr std::chrono::microseconds kPatience{50};
constexpr long kLookNanoseconds = 100'000'000;  // between two looks for ranks that are gone

enum class Failure : int { none, input, memory, environment, other };

struct Header {
  std::atomic<std::uint32_t> arrived, round;
  std::atomic<int> claimed, failure;  // the first rank to fail writes the text, then the kind of failure
  char text[2048];
  std::size_t longest[Team::kMostForked];
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// Thrown in a rank because another one has failed. Never leaves Team::run(). what() is that rank's message.
struct AnotherFailed : EnvironmentError {
  using EnvironmentError::EnvironmentError;
};

class ForkedRanks final : public Group {
 public:
  explicit ForkedRanks(int count)
      : size_(count), bytes_(sizeof(Header) + 2 * static_cast<std::size_t>(count) * kBox), boxes_at_(sizeof(Header)) {
    void* map = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
      throw EnvironmentError(concat("cannot share memory between ", count, " ranks: ", std::strerror(errno)));
    header_ = new (map) Header{};
  }
  ~ForkedRanks() override { munmap(header_, bytes_); }
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  int number() const override { return rank_; }
  int size() const override { return size_; }

  void all_to_all(std::span<const Sent> send, std::span<const Received> receive) override {
    std::size_t longest = 0;
    for (const Sent& part : send) longest = std::max(longest, part.size());
    header_->longest[rank_] = longest;
    barrier();
    for (int r = 0; r < size_; ++r) longest = std::max(longest, header_->longest[r]);
    const std::size_t cell = kBox / static_cast<std::size_t>(size_) / 64 * 64;
    // At least one round, or a fast rank would write its next length while another reads this one.
    in_rounds(
        std::max<std::size_t>(longest, 1), cell,
        [&](std::size_t at) {
          for (int r = 0; r < size_; ++r) put(part_at(send[index(r)], at, cell), box(rank_) + cell * index(r));
        },
        [&](std::size_t at) {
          for (int r = 0; r < size_; ++r) put(box(r) + cell * index(rank_), part_at(receive[index(r)], at, cell));
        });
  }

  void all_gather(std::span<const Received> parts) override {
    std::size_t longest = 0;
    for (const Received& part : parts) longest = std::max(longest, part.size());
    in_rounds(
        longest, kBox, [&](std::size_t at) { put(Sent(part_at(parts[index(rank_)], at, kBox)), box(rank_)); },
        [&](std::size_t at) {
          for (int r = 0; r < size_; ++r)
            if (r != rank_) put(box(r), part_at(parts[index(r)], at, kBox));
        });
  }

  void look() override {
    if (rank_ == 0) look_for_dead();
    require_no_failure();
  }
  void fail(const std::exception& why) override {
    const auto failed = [&](Failure kind) {
      tell(kind, concat("rank ", rank_, " of ", size_, ": ", why.what()).c_str());
    };
    if (dynamic_cast<const AnotherFailed*>(&why)) return;
    if (dynamic_cast<const InputError*>(&why)) return tell(Failure::input, why.what());  // all ranks find it
    if (dynamic_cast<const MemoryError*>(&why)) return failed(Failure::memory);
    failed(dynamic_cast<const EnvironmentError*>(&why) ? Failure::environment : Failure::other);
  }

  /// Forks the other ranks. Returns in each of them.
  void fork_others() {
    const pid_t parent = getpid();
    std::fflush(nullptr);
    for (int r = 1; r < size_; ++r) {
      const pid_t pid = fork();
      if (pid < 0)
        throw EnvironmentError(concat("cannot start rank ", r, ": ", std::strerror(errno), "; use fewer --ranks"));
      if (pid == 0) {
        rank_ = r;
        children_.clear();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(0);
        return;
      }
      children_.push_back(pid);
    }
  }

  void tell(Failure kind, const char* text) {
    int none = 0;
    if (!header_->claimed.compare_exchange_strong(none, 1)) return;
    std::snprintf(header_->text, sizeof header_->text, "%s", text);
    header_->failure = int(kind);
    wake(header_->round + 1);
  }

  /// In rank 0: waits for the others, which have ended or been told to. Throws if one was killed.
  void join() {
    for (std::size_t i = 0; i < children_.size(); ++i) {
      int status = 0;
      while (waitpid(children_[i], &status, 0) < 0 && errno == EINTR) {
      }
      if (status != 0) report_death(int(i) + 1, children_[i], status);
    }
    children_.clear();
  }

  void end_others() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_)
      while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
      }
    children_.clear();
  }

  void throw_failure() const {
    switch (Failure(header_->failure.load())) {
      case Failure::none:
        return;
      case Failure::input:
        throw InputError(header_->text);
      case Failure::memory:
        throw MemoryError(header_->text);
      case Failure::environment:
        throw EnvironmentError(header_->text);
      case Failure::other:
        throw std::runtime_error(header_->text);
    }
  }

 private:
  void barrier() {
    const std::uint32_t round = header_->round;
    if (header_->arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(size_)) {
      header_->arrived = 0;
      wake(round + 1);
    }
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (header_->round == round && header_->failure == int(Failure::none)) {
      if (std::chrono::steady_clock::now() < until) continue;
      const timespec nap{0, kLookNanoseconds};
      syscall(SYS_futex, &header_->round, FUTEX_WAIT, round, &nap, nullptr, 0);
      if (rank_ == 0) look_for_dead();
    }
    require_no_failure();
  }
  void require_no_failure() const {
    if (header_->failure != int(Failure::none)) throw AnotherFailed(header_->text);
  }
  static std::size_t index(int r) { return static_cast<std::size_t>(r); }
  /// Two boxes for each rank in turn, so that the others read one while it writes the next.
  std::byte* box(int r) const {
    return reinterpret_cast<std::byte*>(header_) + boxes_at_ + (index(r) * 2 + turn_) * kBox;
  }
  template <class Bytes>
  static Bytes part_at(const Bytes& all, std::size_t at, std::size_t most) {
    return at < all.size() ? all.subspan(at, std::min(most, all.size() - at)) : Bytes();
  }
  static void put(Sent from, std::byte* to) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size());
  }
  static void put(const std::byte* from, Received to) {
    if (!to.empty()) std::memcpy(to.data(), from, to.size());
  }
  template <class Write, class Read>
  void in_rounds(std::size_t longest, std::size_t step, const Write& write, const Read& read) {
    for (std::size_t at = 0; at < longest; at += step) {
      write(at);
      barrier();
      read(at);
      turn_ = 1 - turn_;
    }
  }
  void wake(std::uint32_t round) {
    header_->round = round;
    syscall(SYS_futex, &header_->round, FUTEX_WAKE, size_, nullptr, nullptr, 0);
  }
  void look_for_dead() {
    for (std::size_t i = 0; i < children_.size(); ++i) {
      siginfo_t info{};
      if (waitid(P_PID, static_cast<id_t>(children_[i]), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        continue;
      const int status = info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0) : W_EXITCODE(0, info.si_status);
      if (status != 0) report_death(int(i) + 1, children_[i], status);
    }
  }
  void report_death(int rank, pid_t pid, int status) {
    tell(Failure::environment, Team::death(rank, size_, pid, status).c_str());
  }

  const int size_;
  int rank_ = 0;
  std::size_t turn_ = 0;
  const std::size_t bytes_, boxes_at_;
  Header* header_ = nullptr;
  std::vector<pid_t> children_;
};

}  // namespace

std::string Team::death(int number, int size, int process, int status) {
  const std::string who = concat("rank ", number, " of ", size, " (process ", process, ") "),
                    advice = "the same command resumes from the last checkpoint";
  if (!WIFSIGNALED(status)) return concat(who, "ended with code ", WEXITSTATUS(status), "; ", advice);
  const int signal = WTERMSIG(status);
  return concat(who, "was ended by signal ", signal, " (", strsignal(signal),
                signal == SIGKILL ? "; memory may have run out" : "", "); ", advice);
}

void Team::run(FunctionRef<void(Group&)> body) const {
  if (forked == 1) return body(*group);
  if (forked < 1 || forked > kMostForked)
    throw InputError(concat(option, " ", forked, ": is not between 1 and ", kMostForked));
  ForkedRanks ranks(forked);
  try {
    ranks.fork_others();
    if (ranks.root()) {
      body(ranks);
      ranks.join();
      ranks.throw_failure();
      return;
    }
  } catch (const AnotherFailed&) {
    ranks.end_others();
    ranks.throw_failure();
  } catch (...) {
    ranks.end_others();
    throw;
  }
  try {
    body(ranks);
  } catch (const std::exception& error) {
    ranks.fail(error);
  }
  std::fflush(nullptr);
  _exit(0);  // skips the parent's buffers and destructors
}

}  // namespace normlab
