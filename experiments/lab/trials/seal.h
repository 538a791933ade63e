// Seals: size and SHA-256 of the files that a run writes, listed in its result, so that later changes are detected.
// Only the run itself writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace normlab {

struct FileSeal {
  std::uint64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
  bool operator==(const FileSeal&) const = default;
};
using FileSeals = std::map<std::string, FileSeal>;  // by file name

FileSeal seal_of(std::string_view bytes);
/// The same for a file, which may be larger than memory. EnvironmentError if it cannot be read.
FileSeal seal_of_file(const std::filesystem::path& path);

/// InputError if `found` is not `listed`; the message gives both sizes or both hashes, and what to do.
void require_seal(const std::filesystem::path& path, const FileSeal& found, const FileSeal& listed);

}  // namespace normlab
