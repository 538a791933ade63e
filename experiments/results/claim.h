// Who works on a trial. The file `claim` in a trial's folder names one process of one start of one host, and the
// attempt it works in. The first that puts it there wins. A process that is gone from this host loses it at
// once to the next that asks; any other one, once its lease (experiments/results/lease.h) has not moved for a lease
// time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "experiments/results/lease.h"

namespace normlab {

/// One process, for all time: a process id comes back, a start time with it does not.
struct Owner {
  std::string host;
  std::string boot_id;        // of this start of the host
  std::string pid_namespace;  // a container's processes have numbers of their own; empty in claims of older versions
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // in clock ticks since the host started
  std::int64_t attempt = 0;
  double lease_seconds = 0;  // its counter moves within this time; 0: written by a version that kept no lease
  bool operator==(const Owner&) const = default;
};

/// This process, with attempt 0.
Owner this_process();

/// True where the owner's host is this one and its process is gone, a zombie, or of an earlier start of the host. About
/// another host or container nothing is known from here: false.
bool is_dead(const Owner& owner);

/// The owner named in a trial folder; none where nobody is. InputError where the file is damaged.
std::optional<Owner> read_claim(const std::filesystem::path& trial_folder);

/// The right to work on one trial in one attempt's folder. Given back when it goes out of scope.
class Claim {
 public:
  /// Takes the trial where nobody has it or its owner is dead, and makes the folder of a new attempt. None where a live
  /// process, one of another host or a faster one has it. InputError where the owner is of another host and keeps no
  /// lease, so that nobody could ever tell whether it lives.
  static std::optional<Claim> acquire(const std::filesystem::path& trial_folder, double lease_seconds = kLeaseSeconds);

  Claim(Claim&& other) = default;
  Claim& operator=(Claim&&) = delete;
  ~Claim();

  std::int64_t attempt() const { return owner_.attempt; }
  std::filesystem::path attempt_folder() const;
  /// Whether the trial was taken from a process that died.
  bool taken_over() const { return taken_over_; }
  /// True once another process has taken the trial over, as after a long pause: then whatever is done here is in vain.
  bool lost() const { return heartbeat_ && heartbeat_->lost(); }
  /// For the lease, that others can read.
  void note(const LeaseNote& note) const;
  /// Removes the claim if it is still this one.
  void release();

 private:
  Claim(std::filesystem::path trial_folder, Owner owner, bool taken_over, std::unique_ptr<Heartbeat> heartbeat);
  std::filesystem::path trial_folder_;
  Owner owner_;
  bool taken_over_ = false;
  std::unique_ptr<Heartbeat> heartbeat_;  // none: released or moved from
};

/// Takes the claim away from an owner that is dead or whose lease has run out; the trial is then free for the first
/// that acquires it. False where it is not this owner's any more: then nothing has changed.
bool break_claim(const std::filesystem::path& trial_folder, const Owner& owner);

/// All that changes while the owner lives, for a LeaseWatch.
std::string lease_of(const std::filesystem::path& trial_folder, const Owner& owner);

/// trial_folder/attempt-K
std::filesystem::path attempt_folder(const std::filesystem::path& trial_folder, std::int64_t attempt);

/// The highest K of the attempt-K folders; 0 where there is none.
std::int64_t last_attempt(const std::filesystem::path& trial_folder);

}  // namespace normlab
