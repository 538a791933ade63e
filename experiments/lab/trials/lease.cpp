#include "experiments/lab/trials/lease.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/start_thread.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/system_calls.h"

namespace normlab {
namespace {

/// A fixed length: the file is rewritten in place, which needs no disk space and no new name.
constexpr std::size_t kLeaseBytes = 256;

std::string lease_text(std::uint64_t count, const LeaseNote& note) {
  nlohmann::ordered_json json{
      {"count", count},
      {"step", note.step},
      {"steps", note.steps},
      {"images_per_second", std::isfinite(note.images_per_second) ? note.images_per_second : 0}};
  nlohmann::ordered_json nonfinite = nlohmann::ordered_json::object();
  if (note.loss) put_numbers(json, {{"loss", *note.loss}}, nonfinite);
  if (!nonfinite.empty()) json["nonfinite"] = std::move(nonfinite);
  if (note.data_share) {
    json["data_share"] = std::round(1000 * *note.data_share) / 1000;  // short, so that every note fits
    json["data_threads"] = note.data_threads;
  }
  std::string text = json.dump();
  text.resize(kLeaseBytes - 1, ' ');
  return text + "\n";
}

/// Returns zero or errno.
int write_in_place(const std::filesystem::path& path, const std::string& text, int flags) {
  const int file = uninterrupted([&] { return ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666); });
  if (file < 0) return errno;
  const bool written = write_all(text, [&](const char* data, std::size_t size, std::size_t at) {
                         return ::pwrite(file, data, size, off_t(at));
                       }) == text.size();
  const int error_number = written ? 0 : errno;
  // On a network file system, closing sends the data to the server.
  return close_once(file) != 0 && written ? errno : error_number;
}

}  // namespace

std::optional<LeaseRecord> read_lease(const std::filesystem::path& attempt_folder) {
  const auto path = attempt_folder / "lease";
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  try {
    const nlohmann::json json = parse_strict_json(read_file(path), path.string());
    ObjectReader object(json, path.string());
    LeaseRecord record;
    record.count = object.unsigned_integer("count");
    record.note.step = object.integer("step");
    record.note.steps = object.integer("steps");
    record.note.images_per_second = object.number("images_per_second");
    const nlohmann::json* nonfinite = object.optional("nonfinite");
    if (const nlohmann::json* loss = object.optional("loss"))
      record.note.loss = take_numbers({{"loss", *loss}}, nonfinite, path.string()).at("loss");
    if (object.optional("data_share") != nullptr) {
      record.note.data_share = object.number("data_share");
      record.note.data_threads = object.integer("data_threads");
    }
    object.finish();
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    record.age_seconds =
        std::max(0.0, double(now.tv_sec - status.st_mtim.tv_sec) + 1e-9 * double(now.tv_nsec - status.st_mtim.tv_nsec));
    return record;
  } catch (const Error&) {
    return std::nullopt;
  }
}

Heartbeat::Heartbeat(std::filesystem::path claim, std::string claim_text, const std::filesystem::path& attempt_folder,
                     double lease_seconds)
    : claim_(std::move(claim)),
      lease_(attempt_folder / "lease"),
      claim_text_(std::move(claim_text)),
      seconds_(lease_seconds) {
  if (const int error = write_in_place(lease_, lease_text(count_, note_), O_CREAT); error != 0)
    throw_system_error("write", lease_, error);
}

void Heartbeat::start() {
  confirmed_ = Clock::now();
  thread_ = start_thread([this] {
    sigset_t all;  // signals are for the training thread
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    constexpr double kLongestInterval = 5;
    const double interval = std::min(kLongestInterval, seconds_ / 6);
    std::unique_lock lock(mutex_);
    // The first beat comes soon, so that `normlab status` has something to show.
    double wait = std::min(1.0, interval);
    while (!wake_.wait_for(lock, std::chrono::duration<double>(wait), [this] { return stopping_; }) && !lost_) {
      beat();
      wait = interval;
    }
  });
}

Heartbeat::~Heartbeat() { stop(); }

void Heartbeat::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Heartbeat::note(const LeaseNote& note) {
  const std::lock_guard lock(note_mutex_);
  note_ = note;
}

bool Heartbeat::lost() {
  if (lost_) return true;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return lost_;  // the thread is checking
  if (Clock::now() - confirmed_ > std::chrono::duration<double>(seconds_ / 2)) beat();
  return lost_;
}

bool Heartbeat::lost_now() {
  const std::lock_guard lock(mutex_);
  if (!lost_) beat();
  return lost_;
}

void Heartbeat::beat() {
  if (!still_ours()) {
    lost_ = true;
    return;
  }
  LeaseNote now;
  {
    const std::lock_guard lock(note_mutex_);
    now = note_;
  }
  // A missing folder was cleared by a process that considered the trial abandoned. Other errors do not stop the
  // training, which meets the same disk.
  const int error = write_in_place(lease_, lease_text(++count_, now), 0);
  if (error == ENOENT)
    lost_ = true;
  else
    confirmed_ = Clock::now();
}

bool Heartbeat::still_ours() const {
  // A process that took the claim by mistake restores it at once, so it may be missing for a moment.
  constexpr int kLooks = 4;
  for (int i = 0; i < kLooks; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(25));
    try {
      if (const auto text = read_file_if_there(claim_)) return *text == claim_text_;
    } catch (const EnvironmentError&) {
      return true;  // unreadable at the moment, so undecided
    }
  }
  return false;
}

bool LeaseWatch::stale(const std::string& trial, const std::string& seen, double lease_seconds, Clock::time_point now) {
  const auto [found, first] = looks_.try_emplace(trial, Look{seen, now, 0});
  Look& look = found->second;
  if (first) return false;
  if (look.seen != seen) {
    look = {seen, now, 0};
    return false;
  }
  look.unchanged_seconds += std::min(std::chrono::duration<double>(now - look.last).count(), lease_seconds / 4);
  look.last = now;
  return look.unchanged_seconds >= lease_seconds;
}

}  // namespace normlab
