// Files that survive a kill, a full disk and a second process. Every failure of the system becomes an EnvironmentError
// that names the path, says why and what to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// Throws EnvironmentError: "cannot <action> <path>: <text of error_number>; <advice>".
[[noreturn]] void throw_system_error(std::string_view action, const std::filesystem::path& path, int error_number);

/// The whole file. EnvironmentError where it cannot be read.
std::string read_file(const std::filesystem::path& path);
/// The same, or none where there is no such file: one call of the system, also if another process removes it just now.
std::optional<std::string> read_file_if_there(const std::filesystem::path& path);
/// Hands the file over in pieces of at most a megabyte. EnvironmentError where it cannot be read.
void read_pieces(const std::filesystem::path& path, const std::function<void(std::string_view)>& take);
/// The last `bytes` of the file, or all of a shorter one; none where there is no such file.
std::optional<std::string> read_end_if_there(const std::filesystem::path& path, std::uint64_t bytes);

/// Creates the folder and the ones above it; one that exists is fine. The names of new ones are on the disk.
void make_folders(const std::filesystem::path& folder);
/// Creates this folder alone, and its name is on the disk. False, with errno, where that fails or it exists.
bool make_folder(const std::filesystem::path& folder);

/// What is in the folder, sorted by name; nothing where there is no such folder. EnvironmentError where it cannot be
/// read.
std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);

/// Returns once the names in the folder are on the disk.
void sync_folder(const std::filesystem::path& folder);

/// rename(2): 0, or the error. A call whose answer got lost on the way and that was made all the same counts as made.
int rename_file(const std::filesystem::path& from, const std::filesystem::path& to);

/// Ends the names of files that only their writer knows.
inline constexpr std::string_view kTemporarySuffix = ".tmp";
/// A name beside `target` that only this process uses: ".result.json.HOST.PID.COUNT.tmp".
std::filesystem::path temporary_name(const std::filesystem::path& target);

/// Replaces `path` by these bytes so that a reader, also after a crash, sees the old file or the new one and nothing
/// between: a temporary file beside it, fsync, rename, fsync of the folder. The folder has to exist.
void write_atomically(const std::filesystem::path& path, std::string_view bytes);

/// Writes to a device, pipe or socket that exists, and leaves it what it is. EnvironmentError where that fails.
void write_through(const std::filesystem::path& path, std::string_view bytes);

/// As write_atomically, but only where `path` does not exist yet: the first of several processes wins, also over NFS
/// (experiments/base/first_wins.h). False, and nothing changed, if it was there.
bool publish(const std::filesystem::path& path, std::string_view bytes);

/// Renames the file to a name beside it that only this process uses: of several that take it one gets it. None where
/// it is gone. What was renamed is known only afterwards: look at it, then remove it or put it back.
std::optional<std::filesystem::path> take_away(const std::filesystem::path& path);
/// Gives a file that was taken by mistake its name back, unless that has been given to another one meanwhile: false.
bool put_back(const std::filesystem::path& taken, const std::filesystem::path& path);

/// Removes the file; one that is not there is fine.
void remove_file(const std::filesystem::path& path);

/// Removes the temporary files that a killed writer left in `folder`. Only for a folder that nobody else writes to.
void remove_temporaries(const std::filesystem::path& folder);
/// The same where others do write: only those of processes that are gone from this host.
void remove_abandoned_temporaries(const std::filesystem::path& folder);

/// A file that grows by whole lines, each handed over in one write.
class LineFile {
 public:
  /// Opens for appending, creating it where it is missing.
  explicit LineFile(std::filesystem::path path);
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  ~LineFile();

  /// Appends `line` and a newline. If the disk takes only a part of it, that part is cut off again before it throws.
  void append(std::string_view line);

  /// Length in bytes; after append() the line is in it.
  std::uint64_t bytes() const { return bytes_; }

  /// Returns once everything appended is on the disk.
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

}  // namespace normlab
