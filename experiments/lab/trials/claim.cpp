#include "experiments/lab/trials/claim.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/text_layout.h"

namespace normlab {
namespace {

constexpr std::string_view kAttemptPrefix = "attempt-";

/// Fields 3 (state) and 22 (start time) of /proc/PID/stat; none if there is no such process.
struct ProcessStatus {
  char state = '?';
  std::uint64_t start_time = 0;
};
std::optional<ProcessStatus> process_status(pid_t pid) {
  std::optional<std::string> text;
  try {
    text = read_file_if_there(concat("/proc/", pid, "/stat"));
  } catch (const EnvironmentError&) {  // hidden, or gone while it was being read
  }
  if (!text) return std::nullopt;
  const auto name_end = text->rfind(')');  // a process name may contain ") "
  if (name_end == text->npos) return std::nullopt;
  std::istringstream fields(text->substr(name_end + 1));
  ProcessStatus status;
  fields >> status.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  if (!(fields >> status.start_time)) return std::nullopt;
  return status;
}

std::string boot_id() {
  std::string text = read_file("/proc/sys/kernel/random/boot_id");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

/// Processes in different containers of one host may have equal numbers.
std::string pid_namespace() {
  std::error_code error;
  const auto name = std::filesystem::read_symlink("/proc/self/ns/pid", error);
  return error ? "unknown" : name.string();
}

std::string claim_text(const Owner& owner) {
  const nlohmann::ordered_json json{{"host", owner.host},
                                    {"boot_id", owner.boot_id},
                                    {"pid_namespace", owner.pid_namespace},
                                    {"pid", owner.pid},
                                    {"start_time", owner.start_time},
                                    {"attempt", owner.attempt},
                                    {"lease_seconds", owner.lease_seconds}};
  return json.dump() + "\n";
}

/// Creates the folder of the first unused attempt after `attempt`; 0 if the trial's folder is gone.
std::int64_t make_next_attempt(const std::filesystem::path& trial_folder, std::int64_t attempt) {
  while (++attempt <= kMostAttempts) {
    const auto folder = attempt_folder(trial_folder, attempt);
    if (make_folder(folder)) return attempt;
    if (errno == ENOENT) return 0;
    if (errno != EEXIST) throw_system_error("create the folder", folder, errno);
  }
  throw InputError(concat(trial_folder.string(), ": has ", kMostAttempts,
                          " attempts, and more are not made; remove this folder, and the next run trains it again"));
}

void remove_attempt_without_files(const std::filesystem::path& attempt_folder) {
  for (const auto& path : list_folder(attempt_folder))
    if (path.filename() != "lease") return;
  remove_file(attempt_folder / "lease");
  ::rmdir(attempt_folder.c_str());
}

Owner parse_claim(const std::string& text, const std::filesystem::path& path) {
  try {
    const nlohmann::json json = parse_strict_json(text, path.string());
    ObjectReader object(json, path.string());
    Owner owner;
    owner.host = object.string("host");
    owner.boot_id = object.string("boot_id");
    const std::int64_t pid = object.integer("pid");
    if (pid < 1 || pid > std::numeric_limits<pid_t>::max()) object.fail("pid", "expected a process id");
    owner.pid = pid_t(pid);
    owner.start_time = object.unsigned_integer("start_time");
    owner.attempt = object.integer("attempt");
    if (owner.attempt < 1 || owner.attempt > kMostAttempts) object.fail("attempt", "expected the number of an attempt");
    if (object.has("pid_namespace")) owner.pid_namespace = object.string("pid_namespace");
    if (object.has("lease_seconds")) {
      owner.lease_seconds = object.number("lease_seconds");
      if (!(owner.lease_seconds >= kShortestLease && owner.lease_seconds <= kLongestLease))
        object.fail("lease_seconds", "expected a lease time in seconds");
    }
    object.finish();
    return owner;
  } catch (const InputError& error) {
    throw InputError(concat(error.what(), "; if no process is working on this trial, delete this file"));
  }
}

}  // namespace

Owner this_process() {
  const auto status = process_status(::getpid());
  if (!status) throw EnvironmentError("cannot read /proc/self/stat, which claiming a trial needs; mount /proc");
  return {.host = host_name(),
          .boot_id = boot_id(),
          .pid_namespace = pid_namespace(),
          .pid = ::getpid(),
          .start_time = status->start_time,
          .attempt = 0,
          .lease_seconds = 0};
}

bool is_dead(const Owner& owner) {
  if (owner.host != host_name()) return false;
  if (owner.boot_id != boot_id()) return true;
  if (!owner.pid_namespace.empty() && owner.pid_namespace != pid_namespace()) return false;
  const auto status = process_status(owner.pid);
  // If /proc hides other users' processes, signal 0 still tells whether the process exists.
  if (!status) return ::kill(owner.pid, 0) != 0 && errno == ESRCH;
  return status->start_time != owner.start_time || status->state == 'Z' || status->state == 'X';
}

std::optional<Owner> read_claim(const std::filesystem::path& trial_folder) {
  const auto path = trial_folder / "claim";
  const auto text = read_file_if_there(path);
  if (!text) return std::nullopt;
  return parse_claim(*text, path);
}

std::filesystem::path attempt_folder(const std::filesystem::path& trial_folder, std::int64_t attempt) {
  return trial_folder / concat(kAttemptPrefix, attempt);
}

std::vector<std::int64_t> attempts_in(const std::filesystem::path& trial_folder) {
  std::vector<std::int64_t> attempts;
  for (const auto& path : list_folder(trial_folder)) {
    const std::string name = path.filename().string();
    if (!name.starts_with(kAttemptPrefix)) continue;
    const std::uint64_t number = whole_number(name.substr(kAttemptPrefix.size())).value_or(0);
    if (number >= 1 && number <= std::uint64_t(kMostAttempts)) attempts.push_back(std::int64_t(number));
  }
  std::sort(attempts.begin(), attempts.end());
  return attempts;
}

std::int64_t last_attempt(const std::filesystem::path& trial_folder) {
  const std::vector<std::int64_t> attempts = attempts_in(trial_folder);
  return attempts.empty() ? 0 : attempts.back();
}

std::string lease_of(const std::filesystem::path& trial_folder, const Owner& owner) {
  const std::string seen = claim_text(owner);
  // A missing lease is also a state to compare.
  return seen + read_file_if_there(attempt_folder(trial_folder, owner.attempt) / "lease").value_or("");
}

bool break_claim(const std::filesystem::path& trial_folder, const Owner& owner, const FirstWins& first_wins) {
  const auto path = trial_folder / "claim";
  if (read_claim(trial_folder) != owner) return false;
  const auto taken = take_away(path);
  if (!taken) return false;
  // Between the check and the rename, a faster process may have broken the claim and linked its own.
  bool right = false;
  try {
    right = parse_claim(read_file(*taken), *taken) == owner;
  } catch (const Error&) {
  }
  if (right)
    remove_file(*taken);
  else
    put_back(*taken, path, first_wins);
  return right;
}

std::optional<Claim> Claim::acquire(const std::filesystem::path& trial_folder, double lease_seconds,
                                    const FirstWins& first_wins) {
  make_folders(trial_folder);
  const std::optional<Owner> former = read_claim(trial_folder);
  if (former) {
    if (!is_dead(*former)) {
      if (former->lease_seconds == 0 && former->host != host_name())
        throw InputError(concat((trial_folder / "claim").string(),
                                ": an earlier version of normlab on another host wrote this claim without a lease, so "
                                "it is unknown whether its process still runs; if process ",
                                former->pid, " on ", former->host, " has ended, delete this file"));
      return std::nullopt;
    }
    if (!break_claim(trial_folder, *former, first_wins)) return std::nullopt;
    remove_temporaries(normlab::attempt_folder(trial_folder, former->attempt));
  }
  Owner owner = this_process();
  owner.lease_seconds = std::clamp(lease_seconds, kShortestLease, kLongestLease);
  owner.attempt = make_next_attempt(trial_folder, std::max(last_attempt(trial_folder), former ? former->attempt : 0));
  if (owner.attempt == 0) return std::nullopt;
  const auto folder = normlab::attempt_folder(trial_folder, owner.attempt);
  const std::string text = claim_text(owner);
  std::unique_ptr<Heartbeat> heartbeat;
  try {
    heartbeat = std::make_unique<Heartbeat>(trial_folder / "claim", text, folder, owner.lease_seconds);
    if (!publish(trial_folder / "claim", text, first_wins)) {
      remove_attempt_without_files(folder);
      return std::nullopt;
    }
  } catch (const EnvironmentError&) {
    // `normlab merge` may have put another folder in the place of this one, which then has a result.
    std::error_code unknown;
    if (std::filesystem::exists(folder, unknown) || unknown) throw;
    return std::nullopt;
  }
  heartbeat->start();
  return Claim(trial_folder, owner, former.has_value(), std::move(heartbeat), first_wins);
}

Claim::Claim(std::filesystem::path trial_folder, Owner owner, bool taken_over, std::unique_ptr<Heartbeat> heartbeat,
             FirstWins first_wins)
    : trial_folder_(std::move(trial_folder)),
      owner_(std::move(owner)),
      taken_over_(taken_over),
      heartbeat_(std::move(heartbeat)),
      first_wins_(std::move(first_wins)) {}

Claim::~Claim() {
  try {
    release();
  } catch (const Error&) {  // the claim then lasts until this process ends
  }
}

void Claim::note(const LeaseNote& note) const {
  if (heartbeat_) heartbeat_->note(note);
}

std::filesystem::path Claim::attempt_folder() const { return normlab::attempt_folder(trial_folder_, owner_.attempt); }

void Claim::release() {
  if (!heartbeat_) return;
  if (owner_.pid != ::getpid()) {  // a forked child has a copy without the thread; the claim belongs to its parent
    static_cast<void>(heartbeat_.release());
    return;
  }
  heartbeat_.reset();
  break_claim(trial_folder_, owner_, first_wins_);
}

void Claim::withdraw() {
  const auto folder = attempt_folder();
  try {
    release();
    remove_attempt_without_files(folder);
  } catch (const Error&) {  // as in the destructor
  }
}

}  // namespace normlab
