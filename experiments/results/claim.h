// Who works on a trial. The file `claim` in a trial's folder names one process of one start of one host. It is put
// there by link(2), so the first wins; a process that is gone leaves it behind and loses it at once to the next that
// asks.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace normlab {

/// One process, for all time: a process id comes back, a start time with it does not.
struct Owner {
  std::string host;
  std::string boot_id;  // of this start of the host
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // in clock ticks since the host started
  std::int64_t attempt = 0;
  bool operator==(const Owner&) const = default;
};

/// This process, with attempt 0.
Owner this_process();

/// True where the owner's host is this one and its process is gone, a zombie, or of an earlier start of the host. About
/// another host nothing is known from here: false.
bool is_dead(const Owner& owner);

/// The owner named in a trial folder; none where nobody is. InputError where the file is damaged.
std::optional<Owner> read_claim(const std::filesystem::path& trial_folder);

/// The right to work on one trial in one attempt's folder. Given back when it goes out of scope.
class Claim {
 public:
  /// Takes the trial where nobody has it or its owner is dead, and makes the folder of a new attempt. None where a live
  /// process, one of another host or a faster one has it.
  static std::optional<Claim> acquire(const std::filesystem::path& trial_folder);

  Claim(Claim&& other) noexcept;
  Claim& operator=(Claim&&) = delete;
  ~Claim();

  std::int64_t attempt() const { return owner_.attempt; }
  std::filesystem::path attempt_folder() const;
  /// Whether the trial was taken from a process that died.
  bool taken_over() const { return taken_over_; }
  /// Removes the claim if it is still this one.
  void release();

 private:
  Claim(std::filesystem::path trial_folder, Owner owner, bool taken_over);
  std::filesystem::path trial_folder_;  // empty: released or moved from
  Owner owner_;
  bool taken_over_ = false;
};

/// trial_folder/attempt-K
std::filesystem::path attempt_folder(const std::filesystem::path& trial_folder, std::int64_t attempt);

/// The highest K of the attempt-K folders; 0 where there is none.
std::int64_t last_attempt(const std::filesystem::path& trial_folder);

}  // namespace normlab
