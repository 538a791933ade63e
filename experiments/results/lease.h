// A claim lasts as long as its owner's counter moves. The owner rewrites `lease` in its attempt's folder every few
// seconds; whoever wants the trial looks at it and at a clock of its own. No two clocks are ever compared.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace normlab {

/// A claim whose counter stands still for so long is taken over, unless it says otherwise.
inline constexpr double kLeaseSeconds = 60;
inline constexpr double kShortestLease = 0.5, kLongestLease = 86400;

/// What an owner says about its trial; none of it decides anything.
struct LeaseNote {
  std::int64_t step = 0, steps = 0;  // no steps: not known yet
  double images_per_second = 0;      // 0: not known yet
  std::optional<double> loss;
};

/// The file `lease` as it was read.
struct LeaseRecord {
  std::uint64_t count = 0;
  LeaseNote note;
  double age_seconds = 0;  // of the last change, by the file's time and this machine's clock: for people only
};

/// None where there is no such file, or where it is just being written.
std::optional<LeaseRecord> read_lease(const std::filesystem::path& attempt_folder);

/// Moves the counter from a thread of its own, and finds out when the claim has been taken away.
class Heartbeat {
 public:
  /// Writes the lease. start() is called once `claim` has these bytes.
  Heartbeat(std::filesystem::path claim, std::string claim_text, const std::filesystem::path& attempt_folder,
            double lease_seconds);
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;
  ~Heartbeat();

  void start();
  void stop();
  void note(const LeaseNote& note);
  /// True once the claim is another's or gone. Looks at once where the thread has not looked for half the lease, as
  /// after a pause of the process.
  bool lost();

 private:
  using Clock = std::chrono::steady_clock;
  void beat();
  bool still_ours() const;

  const std::filesystem::path claim_, lease_;
  const std::string claim_text_;
  const double seconds_;
  std::mutex mutex_;  // held while it looks and writes
  std::condition_variable wake_;
  bool stopping_ = false;
  std::uint64_t count_ = 0;
  std::mutex note_mutex_;  // held for a copy alone: a slow disk does not stop who trains
  LeaseNote note_;
  Clock::time_point confirmed_ = Clock::now();
  std::atomic<bool> lost_{false};
  std::thread thread_;
};

/// What an observer has seen of claims that others hold.
class LeaseWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// True where the trial's claim and lease have read `now` as at every look for `lease_seconds`. A gap between two
  /// looks counts for a quarter of that at most: if this process was paused, so may the other one have been.
  bool stale(const std::string& trial, const std::string& seen, double lease_seconds, Clock::time_point now);
  void forget(const std::string& trial) { looks_.erase(trial); }

 private:
  struct Look {
    std::string seen;
    Clock::time_point last;
    double unchanged_seconds = 0;
  };
  std::map<std::string, Look> looks_;
};

}  // namespace normlab
