// Archives: tars, plain or gzipped, and zips, by libarchive.
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

struct archive;

namespace normlab {

/// 256 MiB, or 100 times a packed file's length if that is more. A file that claims more is refused before unpacking:
/// no real dataset compresses so well.
std::int64_t most_unpacked(const std::filesystem::path& file);

struct ArchiveMember {
  std::string name;
  std::int64_t offset = 0;                  // of the header in the unpacked tar; of the packed data in the zip
  std::int64_t data_offset = 0, bytes = 0;  // of the content in the unpacked tar
  std::vector<std::uint8_t> content;
};

/// Passes every regular file to `visit`, in archive order. Reads .tar and .tar.gz (ustar, GNU long names, pax); skips
/// folders. InputError with file, member and byte offset: not a tar; cut short, also between members (the two empty end
/// blocks are required); a .tar.gz with other checksums; a link, device or sparse file; a member beyond 256 MiB;
/// members of a .tar.gz that together claim more than most_unpacked().
/// `wants`, if given, selects by name the members whose content is read; others get empty content, and a plain
/// tar seeks past them.
void read_tar(const std::filesystem::path& file, const std::function<void(ArchiveMember)>& visit,
              const std::function<bool(const std::string& name)>& wants = nullptr);

/// Passes every member to `visit`, in the order of their data, with names and sizes from the central directory. Reads
/// stored and deflated members and ZIP64. InputError with file, member and byte offset: not a zip, cut short, a folder
/// or link, a wrong checksum or size, another compression, encryption, members that together claim more than
/// most_unpacked(). EnvironmentError if the file cannot be opened.
void read_zip(const std::filesystem::path& file, const std::function<void(ArchiveMember)>& visit);
/// The same for bytes in memory; `file` names them in errors.
void read_zip(std::span<const std::byte> bytes, const std::string& file,
              const std::function<void(ArchiveMember)>& visit);

/// All members are dated 1970 and readable by all, so equal members give equal bytes. EnvironmentError if the
/// file cannot be written.
class TarWriter {
 public:
  explicit TarWriter(const std::filesystem::path& file);
  void add(const std::string& name, std::span<const std::uint8_t> content);
  /// The file is incomplete until this returns.
  void finish();

 private:
  std::filesystem::path file_;
  std::shared_ptr<archive> writer_;
};

/// Stored members, all dated 1980, so equal members give equal bytes.
class ZipWriter {
 public:
  ZipWriter();
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;
  void add(const std::string& name, std::string_view content);
  /// Nothing can be added afterwards.
  std::string finish();

 private:
  void check(int status) const;
  std::shared_ptr<archive> writer_;
  std::string bytes_;
};

}  // namespace normlab
