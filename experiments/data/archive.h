// Archives, the one file that knows libarchive: tars, plain or gzipped, and zips.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

struct ArchiveMember {
  std::string name;
  std::int64_t offset = 0;  // of the header in the unpacked tar; of the packed data in the zip
  std::vector<std::uint8_t> content;
};

/// Hands every regular file of a .tar or .tar.gz to `visit`, in archive order. Reads ustar, GNU long names and pax;
/// folders are passed over. InputError with file, member and byte offset: not a tar, cut short (also on a member's
/// border: the two empty blocks at the end must be there), a link, device or sparse file, a member beyond 256 MiB.
void read_tar(const std::filesystem::path& file, const std::function<void(ArchiveMember)>& visit);

/// Hands every member of a zip to `visit`, in the order of their data; names and sizes are those of the directory at
/// its end. Stored and deflated members, ZIP64. InputError with file, member and byte offset: not a zip, cut short, a
/// folder or link, a wrong checksum or size, another packing, an encrypted member, members that claim more than 100
/// times the file and more than 256 MiB in all. EnvironmentError where the file cannot be opened.
void read_zip(const std::filesystem::path& file, const std::function<void(ArchiveMember)>& visit);
/// The same for bytes at hand; `file` names them in errors.
void read_zip(std::span<const std::byte> bytes, const std::string& file,
              const std::function<void(ArchiveMember)>& visit);

/// Makes a zip of stored members, all from 1980, so that equal members give equal bytes.
class ZipWriter {
 public:
  ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;
  ~ZipWriter();
  void add(const std::string& name, std::string_view content);
  /// The bytes of the zip. Nothing can be added afterwards.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace normlab
