// Unpacks gzip files by zlib, which compares their checksums; libarchive does not.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace normlab {

class GzipFile {
 public:
  /// InputError: not readable, or not a gzip.
  explicit GzipFile(const std::filesystem::path& file);
  /// The number of unpacked bytes that it put into `to`; fewer than fit only at the end or where damage() begins.
  std::size_t read(std::span<std::uint8_t> to);
  /// What is wrong with what was read: cut short, other checksums. "" if nothing is.
  std::string damage() const;

 private:
  std::unique_ptr<gzFile_s, int (*)(gzFile)> packed_{nullptr, gzclose_r};
};

/// The content of a single-file .gz, cut to the first `most` bytes. InputError: unreadable, not a gzip, or damaged before
/// that point.
std::vector<std::uint8_t> read_gzip(const std::filesystem::path& file, std::int64_t most);

}  // namespace normlab
