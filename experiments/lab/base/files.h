// File operations that survive kills, full disks and other processes. A system failure becomes an EnvironmentError with
// path, cause and advice.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/base/first_wins.h"
#include "experiments/lab/base/system_calls.h"

namespace normlab {

/// Throws EnvironmentError: "cannot <action> <path>: <text of error_number>; <advice>".
[[noreturn]] void throw_system_error(std::string_view action, const std::filesystem::path& path, int error_number);

/// EnvironmentError if it cannot be read.
std::string read_file(const std::filesystem::path& path);
/// nullopt if the file does not exist, even if it is removed just now.
std::optional<std::string> read_file_if_there(const std::filesystem::path& path);
/// A new file with these bytes, synced. False, with errno, if it could not be created or, with `created`, written; then
/// nothing of it stays.
bool create_file(const std::filesystem::path& path, std::string_view bytes, bool& created);
/// Passes the file to `take` in pieces of at most a megabyte. EnvironmentError if it cannot be read; InputError if it
/// is no regular file.
void read_pieces(const std::filesystem::path& path, const std::function<void(std::string_view)>& take);
/// The last `bytes` of the file, or all of a shorter file; nullopt if it does not exist.
std::optional<std::string> read_end_if_there(const std::filesystem::path& path, std::uint64_t bytes);

/// Creates the folder and its missing parents, and syncs their names to disk.
void make_folders(const std::filesystem::path& folder);
/// Creates only this folder and syncs its name to disk. False, with errno set, on failure or if the folder exists.
bool make_folder(const std::filesystem::path& folder);

/// The folder's entries, sorted by name; empty if the folder does not exist. EnvironmentError if it cannot be read.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);
/// The files in it and in all its subfolders, sorted by path. Links are followed, but not to a folder around them, as
/// "up" to "..".
std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder);

/// Returns once the names in the folder are on disk.
void sync_folder(const std::filesystem::path& folder);

/// rename(2): 0 or the error number. A rename that took effect counts as success even if the reply was lost.
int rename_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// Suffix of files that only their writer uses.
inline constexpr std::string_view kTemporarySuffix = ".tmp";
inline bool is_temporary(const std::filesystem::path& path) {
  return path.filename().string().starts_with('.') && path.extension() == kTemporarySuffix;
}
/// A name beside `target` that only this process uses: ".result.json.HOST.PID.COUNT.tmp".
std::filesystem::path temporary_name(const std::filesystem::path& target);

/// The process on this host that made a name with temporary_name(); 0 for other names.
pid_t local_writer(const std::filesystem::path& temporary);

/// Replaces `path` atomically: readers see the old or the new file, even after a crash. Temporary file, fsync, rename,
/// fsync of the folder, which must exist.
void write_atomically(const std::filesystem::path& path, std::string_view bytes);

/// Copies the file, or the one that a link leads to, to the new file `to`, and syncs it. False if there is none.
/// InputError if it is no regular file.
bool copy_regular_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// The target of a link, even if it does not exist yet; `path` if it is not a link. EnvironmentError for a circle.
std::filesystem::path target_of(std::filesystem::path path);

/// The stream of this process that the path names, such as 1 for /dev/stdout and 5 for /dev/fd/5 or /proc/self/fd/5.
std::optional<int> named_stream(std::filesystem::path path);

/// Whether bytes pass through the file instead of staying in it: a device, a pipe, a socket or a named_stream().
bool is_stream(const std::filesystem::path& path);

/// Writes a file that a user has named. A stream takes the bytes and stays what it is; links are followed. A regular
/// file is replaced atomically, with missing folders created. EnvironmentError on failure.
void write_file_or_stream(const std::filesystem::path& path, std::string_view bytes);

/// Like write_atomically, but the first of several processes wins, also over NFS (experiments/lab/base/first_wins.h).
/// False, with nothing changed, if `path` exists.
bool publish(const std::filesystem::path& path, std::string_view bytes, const FirstWins& by = {});

/// Renames the file to a name that only this process uses, so one of several callers gets it; nullopt if it is gone. It
/// may be another file than expected: inspect it, then remove it or put it back.
std::optional<std::filesystem::path> take_away(const std::filesystem::path& path);
/// Undoes a mistaken take_away(). If the name has been reused in the meantime, removes `taken` and returns false.
bool put_back(const std::filesystem::path& taken, const std::filesystem::path& path, const FirstWins& by = {});

/// A missing file is not an error.
void remove_file(const std::filesystem::path& path);

/// Removes temporary files left by killed writers in `folder`, which must have no other writers.
void remove_temporaries(const std::filesystem::path& folder);
/// The same for a folder with other writers: removes only files of processes on this host that have ended.
void remove_abandoned_temporaries(const std::filesystem::path& folder);

/// A file that grows by whole lines, each appended in one write.
class LineFile {
 public:
  /// Creates the file if missing.
  explicit LineFile(std::filesystem::path path);

  /// Appends `line` and a newline. If the write is partial, truncates it away before throwing.
  void append(std::string_view line);

  std::uint64_t bytes() const { return bytes_; }

  /// Returns once everything appended is on disk.
  void sync();

 private:
  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t bytes_ = 0;
};

}  // namespace normlab
