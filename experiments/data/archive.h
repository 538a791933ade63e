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

struct archive;

namespace normlab {

/// The most that a packed file is unpacked to: 256 MiB, or 100 times its length where that is more. What claims more is
/// refused before it is unpacked: no data are packed so well.
std::int64_t most_unpacked(const std::filesystem::path& file);

struct ArchiveMember {
  std::string name;
  std::int64_t offset = 0;                  // of the header in the unpacked tar; of the packed data in the zip
  std::int64_t data_offset = 0, bytes = 0;  // of the content in the unpacked tar
  std::vector<std::uint8_t> content;
};

/// Hands every regular file of a .tar or .tar.gz to `visit`, in archive order. Reads ustar, GNU long names and pax;
/// folders are passed over. InputError with file, member and byte offset: not a tar, cut short (also on a member's
/// border: the two empty blocks at the end must be there), a link, device or sparse file, a member beyond 256 MiB,
/// members of a .tar.gz that claim more than most_unpacked() in all.
/// `wants`, where it is given, says by its name whether a member's content is read; that of others stays empty, and in
/// a plain tar is passed over without reading it.
void read_tar(const std::filesystem::path& file, const std::function<void(ArchiveMember)>& visit,
              const std::function<bool(const std::string& name)>& wants = nullptr);

/// What a .gz of one file unpacks to, the first `most` bytes where that is more. InputError: cannot be read, is no
/// gzip, is damaged before that.
std::vector<std::uint8_t> read_gzip(const std::filesystem::path& file, std::int64_t most);

/// Hands every member of a zip to `visit`, in the order of their data; names and sizes are those of the directory at
/// its end. Stored and deflated members, ZIP64. InputError with file, member and byte offset: not a zip, cut short, a
/// folder or link, a wrong checksum or size, another packing, an encrypted member, members that claim more
/// than most_unpacked() in all. EnvironmentError where the file cannot be opened.
void read_zip(const std::filesystem::path& file, const std::function<void(ArchiveMember)>& visit);
/// The same for bytes at hand; `file` names them in errors.
void read_zip(std::span<const std::byte> bytes, const std::string& file,
              const std::function<void(ArchiveMember)>& visit);

/// Writes a tar, all members from 1970 and readable by all, so that equal members give equal bytes. EnvironmentError
/// where the file cannot be written.
class TarWriter {
 public:
  explicit TarWriter(const std::filesystem::path& file);
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;
  ~TarWriter();
  void add(const std::string& name, std::span<const std::uint8_t> content);
  /// Until then the file is not whole.
  void finish();

 private:
  std::filesystem::path file_;
  archive* writer_;
};

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
