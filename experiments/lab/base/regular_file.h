// Opens files named by users, and refuses pipes and devices, which could block or never end.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "experiments/lab/base/system_calls.h"

namespace normlab {

/// "" for a regular file; otherwise its type: "a folder", "a pipe", "a device", "a socket".
std::string_view what_else(const struct stat& status);

/// Opens for reading without waiting for the other end of a pipe; -1 with errno on failure.
int open_at_once(const std::filesystem::path& file);

/// The rest of an open file of `size` bytes, cut to `most` + 1 bytes. EnvironmentError with the name `file`.
std::string read_open_file(int descriptor, const std::filesystem::path& file, std::size_t size, std::size_t most);

class RegularFile {
 public:
  /// InputError "FILE: cannot be read: WHY; ADVICE" if it is missing, not permitted or not regular. EnvironmentError
  /// if the disk fails.
  explicit RegularFile(const std::filesystem::path& file, std::string_view advice = "");

  int descriptor() const { return descriptor_.get(); }
  /// The same for all names of a file.
  std::pair<dev_t, ino_t> identity() const { return {status_.st_dev, status_.st_ino}; }
  /// The rest of the file, cut to `most` + 1 bytes. EnvironmentError if reading fails.
  std::string read(std::size_t most = kAll) const;

  static constexpr std::size_t kAll = static_cast<std::size_t>(-1) - 1;

 private:
  [[noreturn]] void fail(std::string_view why) const;
  [[noreturn]] void fail(int error_number) const;

  std::filesystem::path file_;
  std::string advice_;
  Descriptor descriptor_;
  struct stat status_ {};
};

}  // namespace normlab
