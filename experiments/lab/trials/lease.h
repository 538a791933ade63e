// A claim lasts as long as its owner's counter changes. The owner rewrites `lease` in its attempt's folder every few
// seconds. Other processes compare successive reads, timed by their own clocks; clocks are never compared.
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

/// A claim whose counter does not change for this time is taken over, unless the claim states another time.
inline constexpr double kLeaseSeconds = 60;
inline constexpr double kShortestLease = 0.5, kLongestLease = 86400;

/// What an owner reports about its trial, for information only.
struct LeaseNote {
  std::int64_t step = 0, steps = 0;  // steps 0: not known yet
  double images_per_second = 0;      // 0: not known yet
  std::optional<double> loss;
  /// Recent share of the time in which the training made images or waited for them; unknown on a GPU, which computes
  /// meanwhile, and in leases of older versions.
  std::optional<double> data_share{};
  std::int64_t data_threads = 0;  // known with data_share
};

/// The contents of the file `lease`.
struct LeaseRecord {
  std::uint64_t count = 0;
  LeaseNote note;
  double age_seconds = 0;  // since the last change, by the file's time and this machine's clock; for display only
};

/// None if there is no such file or it is being written.
std::optional<LeaseRecord> read_lease(const std::filesystem::path& attempt_folder);

/// Advances the counter from its own thread, and detects when the claim has been taken away.
class Heartbeat {
 public:
  /// Writes the lease. Call start() once the file `claim` holds `claim_text`.
  Heartbeat(std::filesystem::path claim, std::string claim_text, const std::filesystem::path& attempt_folder,
            double lease_seconds);
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;
  ~Heartbeat();

  void start();
  void stop();
  void note(const LeaseNote& note);
  /// True once the claim is gone or belongs to another process. Checks at once if the thread has not checked for half
  /// the lease time, for example after a pause of the process.
  bool lost();
  /// The same, but checks in any case.
  bool lost_now();

 private:
  using Clock = std::chrono::steady_clock;
  void beat();
  bool still_ours() const;

  const std::filesystem::path claim_, lease_;
  const std::string claim_text_;
  const double seconds_;
  std::mutex mutex_;  // held while the thread checks and writes
  std::condition_variable wake_;
  bool stopping_ = false;
  std::uint64_t count_ = 0;
  std::mutex note_mutex_;  // held only for a copy, so that a slow disk does not block the training
  LeaseNote note_;
  Clock::time_point confirmed_ = Clock::now();
  std::atomic<bool> lost_{false};
  std::thread thread_;
};

/// An observer's record of claims that others hold.
class LeaseWatch {
 public:
  using Clock = std::chrono::steady_clock;

  /// True if the trial's claim and lease have read `seen` at every look for `lease_seconds`. A gap between two looks
  /// counts for at most a quarter of that time: if this process was paused, the other may have been paused too.
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
