// Who works on a trial. The file `claim` in a trial's folder names one process, with host, boot and attempt. The first
// process to create it owns the trial. An owner on this host loses the claim as soon as its process is gone; any other
// owner, once its lease (experiments/lab/trials/lease.h) has not changed for the lease time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/base/first_wins.h"
#include "experiments/lab/trials/lease.h"

namespace normlab {

/// Attempts have numbers from 1 to this, so that what reads them all has an end.
inline constexpr std::int64_t kMostAttempts = 10'000;

/// Identifies one process for all time: a process id is reused, but not with the same start time.
struct Owner {
  std::string host;
  std::string boot_id;        // of this boot of the host
  std::string pid_namespace;  // containers number their processes separately; empty in claims of older versions
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // in clock ticks since boot
  std::int64_t attempt = 0;
  double lease_seconds = 0;  // its counter changes within this time; 0: written by a version without leases
  bool operator==(const Owner&) const = default;
};

/// This process, with attempt 0.
Owner this_process();

/// True if the owner's host is this one and its process is gone, is a zombie or belongs to an earlier boot. False for
/// another host or container, about which nothing is known.
bool is_dead(const Owner& owner);

/// The owner named in a trial folder, if any. InputError if the file is damaged.
std::optional<Owner> read_claim(const std::filesystem::path& trial_folder);

/// The right to work on one trial in one attempt's folder. Released when it goes out of scope.
class Claim {
 public:
  /// Claims the trial if it has no owner or a dead one, and creates a new attempt's folder. None if a live process, a
  /// process of another host or a faster one owns it, or if the folder was replaced meanwhile. InputError for an owner
  /// on another host without a lease, whose state cannot be determined.
  static std::optional<Claim> acquire(const std::filesystem::path& trial_folder, double lease_seconds = kLeaseSeconds,
                                      const FirstWins& first_wins = {});

  Claim(Claim&& other) = default;
  Claim& operator=(Claim&&) = delete;
  ~Claim();

  std::int64_t attempt() const { return owner_.attempt; }
  std::filesystem::path attempt_folder() const;
  /// Whether the trial was taken from a dead process.
  bool taken_over() const { return taken_over_; }
  /// True once another process has taken the trial over, for example after a long pause. Further work is
  /// then discarded.
  bool lost() const { return heartbeat_ && heartbeat_->lost(); }
  /// The same, looked up at once. Also true if the trial's folder is gone.
  bool lost_now() const { return heartbeat_ && heartbeat_->lost_now(); }
  /// Whether that folder has this claim, for example under a new name.
  bool is_in(const std::filesystem::path& folder) const { return read_claim(folder) == owner_; }
  /// Publishes the note in the lease for other processes to read.
  void note(const LeaseNote& note) const;
  /// Removes the claim if it is still this process's.
  void release();
  /// Releases a claim under which no attempt was made, and removes the attempt's folder if it has only its lease.
  void withdraw();

 private:
  Claim(std::filesystem::path trial_folder, Owner owner, bool taken_over, std::unique_ptr<Heartbeat> heartbeat,
        FirstWins first_wins);
  std::filesystem::path trial_folder_;
  Owner owner_;
  bool taken_over_ = false;
  std::unique_ptr<Heartbeat> heartbeat_;  // null: released or moved from
  FirstWins first_wins_;
};

/// Removes the claim of an owner that is dead or whose lease has expired; the next process to acquire the trial gets
/// it. False, with nothing changed, if the claim is no longer this owner's.
bool break_claim(const std::filesystem::path& trial_folder, const Owner& owner, const FirstWins& first_wins = {});

/// Everything that changes while the owner lives, for a LeaseWatch.
std::string lease_of(const std::filesystem::path& trial_folder, const Owner& owner);

/// trial_folder/attempt-K
std::filesystem::path attempt_folder(const std::filesystem::path& trial_folder, std::int64_t attempt);

/// Each K, up to kMostAttempts, of the attempt-K folders, in ascending order.
std::vector<std::int64_t> attempts_in(const std::filesystem::path& trial_folder);
/// The highest; 0 if there are none.
std::int64_t last_attempt(const std::filesystem::path& trial_folder);

}  // namespace normlab
