#include "experiments/lab/base/first_wins.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/system_calls.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  struct stat status {};
  if (uninterrupted([&] { return ::lstat(path.c_str(), &status); }) == 0) return true;
  if (errno == ENOENT || errno == ESTALE) return false;
  throw_system_error("look for", path, errno);
}

int link_retrying(const fs::path& from, const fs::path& to) {
  return uninterrupted([&] { return ::link(from.c_str(), to.c_str()); });
}

/// Errors of file systems without hard links, or without them here. The folder is known to be writable.
bool refuses_links(int error_number) {
  constexpr int kRefusals[] = {ENOSYS, EOPNOTSUPP, EPERM, EMLINK, EXDEV, EACCES, EINVAL};
  return std::find(std::begin(kRefusals), std::end(kRefusals), error_number) != std::end(kRefusals);
}

bool create_exclusively(const fs::path& path, const std::string& text) {
  bool created = false;
  return create_file(path, text, created);
}

/// The right to name a file; its text is the name of the holder's temporary. A process that takes over first removes
/// that temporary, so that a paused holder has nothing left to rename.
class Reservation {
 public:
  Reservation(const fs::path& temporary, const fs::path& path)
      : folder_(path.parent_path()),
        prefix_(concat('.', path.filename().string(), '.')),
        file_(folder_ / concat(prefix_, "reserved", kTemporarySuffix)),
        temporary_(temporary),
        text_(temporary.filename().string() + "\n") {}

  /// False if another process holds it.
  bool take() const {
    if (create_exclusively(file_, text_)) return true;
    if (errno != EEXIST) throw_system_error("create", file_, errno);
    return false;
  }
  bool is_mine() const { return read() == text_; }
  /// Gives it up, unless another process has taken it over.
  void release() const {
    if (is_mine()) remove_file(file_);
  }

  /// Waits briefly for the holder. Ends its reservation once it has been unchanged for longer than a rename takes.
  void wait() {
    constexpr auto kPatience = std::chrono::seconds(2);
    constexpr auto kPause = std::chrono::milliseconds(10);
    const auto now = std::chrono::steady_clock::now();
    const std::string seen = read();
    if (seen != seen_ || since_ == std::chrono::steady_clock::time_point()) {
      seen_ = seen;
      since_ = now;
    } else if (now - since_ > kPatience) {
      disarm(seen);
      if (read() == seen) remove_file(file_);
      since_ = {};
      return;
    }
    std::this_thread::sleep_for(kPause);
  }

 private:
  std::string read() const { return read_file_if_there(file_).value_or(""); }

  /// Removes the temporary that the holder would rename. A holder killed before it wrote its whole text is unknown:
  /// then all other waiting temporaries are removed, and their owners make them again.
  void disarm(const std::string& seen) const {
    const bool whole = seen.size() > prefix_.size() && seen.starts_with(prefix_) && seen.ends_with("\n") &&
                       seen.find('/') == seen.npos;
    if (whole) return remove_file(folder_ / seen.substr(0, seen.size() - 1));
    for (const fs::path& path : list_folder(folder_)) {
      const std::string name = path.filename().string();
      if (name.starts_with(prefix_) && name.ends_with(kTemporarySuffix) && path != file_ &&
          path.filename() != temporary_.filename())
        remove_file(path);
    }
  }

  const fs::path folder_;
  const std::string prefix_;
  const fs::path file_, temporary_;
  const std::string text_;
  std::string seen_;
  std::chrono::steady_clock::time_point since_{};
};

Placed place_by_creation(const fs::path& temporary, const fs::path& path) {
  Reservation reservation(temporary, path);
  while (!reservation.take()) {
    if (is_there(path)) return Placed::taken;
    reservation.wait();
  }
  const bool taken = is_there(path);
  if (taken || !reservation.is_mine()) {
    reservation.release();
    return taken ? Placed::taken : Placed::gone;
  }
  const int error_number = rename_file(temporary, path);
  reservation.release();
  if (error_number == 0) return Placed::yes;
  if (error_number == ENOENT && !is_there(temporary)) return Placed::gone;
  throw_system_error("publish", path, error_number);
}

/// nullopt if the file system refused the link because it has none.
std::optional<Placed> place_by_link(const fs::path& temporary, const fs::path& path) {
  const int error_number = link_retrying(temporary, path) == 0 ? 0 : errno;
  struct stat status {};
  const bool there = uninterrupted([&] { return ::stat(temporary.c_str(), &status); }) == 0;
  // Over a network, the reply to a successful link can get lost and the retry fails, so the link count decides.
  if (error_number == 0 || (there && status.st_nlink == 2)) {
    uninterrupted([&] { return ::unlink(temporary.c_str()); });  // a leftover second name is harmless
    return Placed::yes;
  }
  if (error_number == EEXIST) return Placed::taken;
  if (!there && error_number == ENOENT) return Placed::gone;
  if (refuses_links(error_number)) {
    errno = error_number;
    return std::nullopt;
  }
  throw_system_error("publish", path, error_number);
}

/// Type and mount point of the file system that holds `path`, for messages.
std::string file_system_of(const fs::path& path) {
  std::error_code error;
  const std::string place = fs::canonical(path, error).string();
  std::string best, type;
  try {
    std::istringstream mounts(read_file("/proc/self/mountinfo"));
    for (std::string line; std::getline(mounts, line);) {
      std::istringstream fields(line);
      std::string skipped, mount, word;
      fields >> skipped >> skipped >> skipped >> skipped >> mount;
      while (fields >> word && word != "-") continue;
      const bool holds = mount == "/" || place == mount || place.starts_with(mount + "/");
      if (holds && mount.size() >= best.size() && fields >> word) best = mount, type = word;
    }
  } catch (const EnvironmentError&) {  // the type number below identifies it
  }
  if (!best.empty()) return concat(type, " at ", best);
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return "of unknown type";
  return fmt::format("of type {:#x}", static_cast<unsigned long>(status.f_type));
}

/// Throws if two processes could both be told that they created the same file.
void require_exclusive_creation(const fs::path& out, const std::string& file_system, const std::string& refusal) {
  const fs::path first = temporary_name(out / "probe"), second = temporary_name(out / "probe");
  bool holds = create_exclusively(first, "first");
  if (!holds) throw_system_error("create", first, errno);
  holds = !create_exclusively(first, "second") && errno == EEXIST && read_file(first) == "first" &&
          rename_file(first, second) == 0 && read_file(second) == "first";
  remove_file(first);
  remove_file(second);
  if (!holds)
    throw EnvironmentError(concat(out.string(), ": the file system ", file_system, " has neither hard links (", refusal,
                                  ") nor exclusive creation, and processes need one of them to divide the trials; "
                                  "choose another folder for the results"));
}

}  // namespace

FirstWins choose_first_wins(const fs::path& out) {
  make_folders(out);
  remove_abandoned_temporaries(out);
  const fs::path marker = out / kExclusiveCreationFile;
  const fs::path first = temporary_name(out / "probe"), second = temporary_name(out / "probe");
  if (!create_exclusively(first, "")) throw_system_error("create", first, errno);
  const int error_number = link_retrying(first, second) == 0 ? 0 : errno;
  remove_file(first);
  remove_file(second);
  if (error_number == 0 && !is_there(marker)) return {FirstWins::Way::link, marker};
  if (error_number == 0)
    return {FirstWins::Way::creation, marker,
            concat(out.string(), " is shared with hosts that have no hard links, according to ", marker.string(),
                   "; this run creates files exclusively (O_EXCL), as they do")};
  if (!refuses_links(error_number)) throw_system_error("make a hard link in", out, error_number);
  const std::string refusal = std::generic_category().message(error_number), file_system = file_system_of(out);
  require_exclusive_creation(out, file_system, refusal);
  // Before anything is published: runs on hosts with hard links check for it before each link.
  write_atomically(marker, concat(file_system, ": ", refusal, "\n"));
  return {FirstWins::Way::creation, marker,
          concat(out.string(), ": the file system ", file_system, " has no hard links (", refusal,
                 "); this run creates files exclusively (O_EXCL) instead, and so do other runs in this folder, because "
                 "of ",
                 marker.string())};
}

Placed place(const fs::path& temporary, const fs::path& path, const FirstWins& by) {
  using enum FirstWins::Way;
  if (by.way == creation || (by.way == link && is_there(by.marker))) return place_by_creation(temporary, path);
  if (const auto placed = place_by_link(temporary, path)) return *placed;
  if (by.way == link)
    throw EnvironmentError(concat("cannot publish ", path.string(), ": ", std::generic_category().message(errno),
                                  "; the file system made hard links when this run began but does not now; run the "
                                  "same command again, finished results are untouched"));
  return place_by_creation(temporary, path);
}

}  // namespace normlab
