#include "experiments/results/claim.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "experiments/results/build_info.h"
#include "experiments/results/files.h"
#include "experiments/results/strict_json.h"

namespace normlab {
namespace {

constexpr std::string_view kAttemptPrefix = "attempt-";
constexpr std::int64_t kMaxAttempt = 1'000'000'000;

/// Fields 3 (state) and 22 (start time) of /proc/PID/stat; none where there is no such process.
struct ProcessStatus {
  char state = '?';
  std::uint64_t start_time = 0;
};
std::optional<ProcessStatus> process_status(pid_t pid) {
  std::string text;
  try {
    text = read_file(concat("/proc/", pid, "/stat"));
  } catch (const EnvironmentError&) {
    return std::nullopt;
  }
  const auto name_end = text.rfind(')');  // a process may have ") " in its name
  if (name_end == text.npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
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

std::string claim_text(const Owner& owner) {
  const nlohmann::ordered_json json{{"host", owner.host},
                                    {"boot_id", owner.boot_id},
                                    {"pid", owner.pid},
                                    {"start_time", owner.start_time},
                                    {"attempt", owner.attempt}};
  return json.dump() + "\n";
}

/// Makes the folder of the first attempt after `attempt` that has none yet.
std::int64_t make_next_attempt(const std::filesystem::path& trial_folder, std::int64_t attempt) {
  while (true) {
    const auto folder = attempt_folder(trial_folder, ++attempt);
    if (::mkdir(folder.c_str(), 0777) == 0) return attempt;
    if (errno != EEXIST) throw_system_error("create the folder", folder, errno);
  }
}

}  // namespace

Owner this_process() {
  const auto status = process_status(::getpid());
  if (!status) throw EnvironmentError("cannot read /proc/self/stat; mount /proc, trials are claimed by process");
  return {.host = host_name(), .boot_id = boot_id(), .pid = ::getpid(), .start_time = status->start_time, .attempt = 0};
}

bool is_dead(const Owner& owner) {
  if (owner.host != host_name()) return false;
  if (owner.boot_id != boot_id()) return true;
  const auto status = process_status(owner.pid);
  // Where /proc hides the processes of other users, the signal that is none still tells whether there is one.
  if (!status) return ::kill(owner.pid, 0) != 0 && errno == ESRCH;
  return status->start_time != owner.start_time || status->state == 'Z' || status->state == 'X';
}

std::optional<Owner> read_claim(const std::filesystem::path& trial_folder) {
  const auto path = trial_folder / "claim";
  std::string text;
  constexpr int kTries = 100;
  for (int i = 0;; ++i) {
    try {
      text = read_file(path);
      break;
    } catch (const EnvironmentError&) {
      if (!std::filesystem::exists(path)) return std::nullopt;
      if (i == kTries) throw;  // there and unreadable, not just made by another process in between
    }
  }
  try {
    const nlohmann::json json = parse_strict_json(text, path.string());
    ObjectReader object(json, path.string());
    Owner owner;
    owner.host = object.string("host");
    owner.boot_id = object.string("boot_id");
    const std::int64_t pid = object.integer("pid");
    if (pid < 1 || pid > std::numeric_limits<pid_t>::max()) object.fail("pid", "no process id");
    owner.pid = pid_t(pid);
    owner.start_time = object.unsigned_integer("start_time");
    owner.attempt = object.integer("attempt");
    if (owner.attempt < 1 || owner.attempt > kMaxAttempt) object.fail("attempt", "no attempt's number");
    object.finish();
    return owner;
  } catch (const InputError& error) {
    throw InputError(concat(error.what(), "; if no process works on this trial, delete this file"));
  }
}

std::filesystem::path attempt_folder(const std::filesystem::path& trial_folder, std::int64_t attempt) {
  return trial_folder / concat(kAttemptPrefix, attempt);
}

std::int64_t last_attempt(const std::filesystem::path& trial_folder) {
  std::int64_t last = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(trial_folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(kAttemptPrefix, 0) != 0) continue;
    std::int64_t number = 0;
    const char* end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kAttemptPrefix.size(), end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end && number <= kMaxAttempt) last = std::max(last, number);
  }
  if (error && error.value() != ENOENT) throw_system_error("list", trial_folder, error.value());
  return last;
}

std::optional<Claim> Claim::acquire(const std::filesystem::path& trial_folder) {
  make_folders(trial_folder);
  // Between reading who is dead and taking its place nobody else may do the same: a slow process would otherwise rename
  // its claim over that of a faster one. The system drops the lock when its process dies, so it needs no takeover.
  const FileLock lock(trial_folder / ".claim.lock");
  if (!lock.held()) return std::nullopt;
  const std::optional<Owner> former = read_claim(trial_folder);
  if (former && !is_dead(*former)) return std::nullopt;

  Owner owner = this_process();
  owner.attempt = make_next_attempt(trial_folder, std::max(last_attempt(trial_folder), former ? former->attempt : 0));
  if (former) {
    remove_temporaries(trial_folder);
    remove_temporaries(normlab::attempt_folder(trial_folder, former->attempt));
    write_atomically(trial_folder / "claim", claim_text(owner));
  } else if (!publish(trial_folder / "claim", claim_text(owner))) {
    return std::nullopt;
  }
  return Claim(trial_folder, owner, former.has_value());
}

Claim::Claim(std::filesystem::path trial_folder, Owner owner, bool taken_over)
    : trial_folder_(std::move(trial_folder)), owner_(std::move(owner)), taken_over_(taken_over) {}

Claim::Claim(Claim&& other) noexcept
    : trial_folder_(std::move(other.trial_folder_)), owner_(std::move(other.owner_)), taken_over_(other.taken_over_) {
  other.trial_folder_.clear();
}

Claim::~Claim() {
  try {
    release();
  } catch (const Error&) {  // the claim then ends with this process
  }
}

std::filesystem::path Claim::attempt_folder() const { return normlab::attempt_folder(trial_folder_, owner_.attempt); }

void Claim::release() {
  const std::filesystem::path folder = std::exchange(trial_folder_, {});
  if (folder.empty() || owner_.pid != ::getpid()) return;  // a forked child has a copy, the claim is its parent's
  if (read_claim(folder) == owner_) remove_file(folder / "claim");
}

}  // namespace normlab
