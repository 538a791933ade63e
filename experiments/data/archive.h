// Tar archives, plain or gzipped: the one file that knows libarchive.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace normlab {

struct ArchiveMember {
  std::string name;
  std::int64_t offset = 0;  // of the header, in the unpacked tar
  std::vector<std::uint8_t> content;
};

/// Hands every regular file of a .tar or .tar.gz to `visit`, in archive order. Reads ustar, GNU long names and pax;
/// folders are passed over. InputError with file, member and byte offset: not a tar, cut short (also on a member's
/// border: the two empty blocks at the end must be there), a link, device or sparse file, a member beyond 256 MiB.
void read_tar(const std::filesystem::path& file, const std::function<void(ArchiveMember)>& visit);

}  // namespace normlab
