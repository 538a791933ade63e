// Opening files that a user names. A pipe or a device would be waited for, or never end.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace normlab {

/// "" for a regular file; otherwise what it is: "a folder", "a pipe", "a device", "a socket".
std::string_view what_else(const struct stat& status);

/// Opens for reading without waiting for anybody at the other end; -1 and errno where that fails.
int open_at_once(const std::filesystem::path& file);

/// All that is left to read of an open file of `size` bytes, of a longer one its first `most` + 1. EnvironmentError,
/// with the name `file`, where reading fails.
std::string read_open_file(int descriptor, const std::filesystem::path& file, std::size_t size, std::size_t most);

/// A regular file that is open for reading, or a link to one.
class RegularFile {
 public:
  /// InputError, "FILE: cannot be read: WHY; ADVICE": not there, no permission, not a regular file. EnvironmentError
  /// where the disk fails.
  explicit RegularFile(const std::filesystem::path& file, std::string_view advice = "");
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;
  ~RegularFile();

  int descriptor() const { return descriptor_; }
  /// Which file it is, by whatever name.
  std::pair<dev_t, ino_t> identity() const { return {status_.st_dev, status_.st_ino}; }
  /// All that is left to read, of a longer file its first `most` + 1 bytes. EnvironmentError where reading fails.
  std::string read(std::size_t most = kAll) const;

  static constexpr std::size_t kAll = static_cast<std::size_t>(-1) - 1;

 private:
  [[noreturn]] void fail(std::string_view why) const;
  [[noreturn]] void fail(int error_number) const;

  std::filesystem::path file_;
  std::string advice_;
  int descriptor_ = -1;
  struct stat status_ {};
};

}  // namespace normlab
