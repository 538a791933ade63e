#include "experiments/lab/data/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "core/error.h"
#include "core/library.h"
#include "core/visible_text.h"
#include "experiments/lab/base/regular_file.h"
#include "experiments/lab/data/gzip.h"

namespace normlab {
namespace {

/// Without the prefix "archive_".
// clang-format off
#define NORMLAB_LIBARCHIVE_FUNCTIONS(F) \
  F(entry_filetype) F(entry_free) F(entry_hardlink) F(entry_new) F(entry_pathname) F(entry_set_filetype) \
  F(entry_set_mtime) F(entry_set_pathname) F(entry_set_perm) F(entry_set_size) F(entry_size) F(entry_size_is_set) \
  F(entry_sparse_count) F(errno) F(error_string) F(filter_bytes) F(read_data_block) F(read_data_skip) F(read_free) \
  F(read_header_position) F(read_new) F(read_next_header) F(read_open) F(read_open_fd) F(read_open_filename) \
  F(read_open_memory) F(read_support_format_tar) F(read_support_format_zip_seekable) F(set_error) F(write_close) \
  F(write_data) F(write_finish_entry) F(write_free) F(write_header) F(write_new) F(write_open2) \
  F(write_open_filename) F(write_set_bytes_in_last_block) F(write_set_bytes_per_block) F(write_set_format_option) \
  F(write_set_format_ustar) F(write_set_format_zip)
// clang-format on

struct LibArchive {
#define NORMLAB_MEMBER(name) decltype(&::archive_##name) archive_##name = nullptr;
  NORMLAB_LIBARCHIVE_FUNCTIONS(NORMLAB_MEMBER)
#undef NORMLAB_MEMBER
};

LibArchive load_libarchive() {
  constexpr int kAbi = 13;  // for all versions 3.x
  static_assert(ARCHIVE_VERSION_NUMBER / 1'000'000 == 3);
  const Library library("libarchive", concat("libarchive.so.", kAbi), "install it: apt-get install libarchive-dev");
  LibArchive functions;
#define NORMLAB_FIND(name) library.find("archive_" #name, functions.archive_##name);
  NORMLAB_LIBARCHIVE_FUNCTIONS(NORMLAB_FIND)
#undef NORMLAB_FIND
  return functions;
}

/// All access to libarchive. It is loaded on first use: with its dependencies it would cost every command a millisecond
/// and 40 MB of address space. EnvironmentError if it is missing.
const LibArchive& la() {
  static const LibArchive instance = load_libarchive();
  return instance;
}

constexpr std::int64_t kBlock = 512;                                 // tar's block size
constexpr std::int64_t kMaxMember = 256ll << 20;                     // an image of 256 MiB is a mistake
constexpr std::int64_t kMaxUnpacked = 256ll << 20, kMaxRatio = 100;  // for a packed file as a whole
constexpr std::size_t kReadBytes = std::size_t{1} << 18;
constexpr std::size_t kSkipBytes = std::size_t{1} << 14;  // used when most of the file is skipped

using Handle = std::unique_ptr<archive, int (*)(archive*)>;

archive* require_memory(archive* made) {
  if (made == nullptr) throw EnvironmentError("libarchive cannot be set up: no memory");
  return made;
}

std::shared_ptr<archive> new_writer() { return {require_memory(la().archive_write_new()), la().archive_write_free}; }

Handle new_reader() { return Handle(require_memory(la().archive_read_new()), la().archive_read_free); }

int write_header(archive* writer, const std::string& name, std::size_t bytes) {
  const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(la().archive_entry_new(),
                                                                       la().archive_entry_free);
  la().archive_entry_set_pathname(entry.get(), name.c_str());
  la().archive_entry_set_filetype(entry.get(), AE_IFREG);
  la().archive_entry_set_perm(entry.get(), 0644);
  la().archive_entry_set_mtime(entry.get(), 0, 0);
  la().archive_entry_set_size(entry.get(), static_cast<la_int64_t>(bytes));
  return la().archive_write_header(writer, entry.get());
}

std::string reason(archive* reader) {
  const char* text = la().archive_error_string(reader);
  return text != nullptr ? shown(text) : "no reason given";
}

/// libarchive warns of a pax header whose UTF-8 the locale cannot show, in a name or an owner, and then gives its bytes
/// as they are. Its warnings have no codes.
bool only_unconverted(archive* reader) {
  return reason(reader).find("can't be converted from UTF-8 to current locale") != std::string::npos;
}

[[noreturn]] void fail(const std::filesystem::path& file, std::int64_t offset, const std::string& member,
                       const std::string& what) {
  throw InputError(
      concat(file.string(), ": byte ", offset, member.empty() ? "" : ", member " + in_quotes(member), ": ", what));
}

std::string name_of(archive_entry* entry, const std::filesystem::path& file, std::int64_t offset) {
  const char* name = la().archive_entry_pathname(entry);
  if (name == nullptr) fail(file, offset, "", "a member's name cannot be read; use ASCII names");
  return name;
}

void require_plain_file(const std::filesystem::path& file, archive_entry* entry, const ArchiveMember& member) {
  if (la().archive_entry_hardlink(entry) != nullptr || la().archive_entry_filetype(entry) == AE_IFLNK) {
    fail(file, member.offset, member.name, "is a link; pack the file itself (tar --dereference --hard-dereference)");
  }
  if (la().archive_entry_filetype(entry) != AE_IFREG) fail(file, member.offset, member.name, "is not a regular file");
  if (la().archive_entry_sparse_count(entry) > 0) fail(file, member.offset, member.name, "is a sparse file");
  if (member.bytes > kMaxMember)
    fail(file, member.offset, member.name, concat("has ", member.bytes, " bytes by its header; the limit is 256 MiB"));
}

void read_content(archive* reader, const std::filesystem::path& file, std::int64_t size, ArchiveMember& member) {
  const void* data = nullptr;
  std::size_t bytes = 0;
  la_int64_t at = 0;
  int status = ARCHIVE_OK;
  // Grows with the data, up to the size that the header claims.
  while ((status = la().archive_read_data_block(reader, &data, &bytes, &at)) == ARCHIVE_OK) {
    const auto* from = static_cast<const std::uint8_t*>(data);
    if (bytes > static_cast<std::size_t>(size) - member.content.size())
      fail(file, member.offset, member.name, concat("holds more than the ", size, " bytes that its header gives"));
    member.content.insert(member.content.end(), from, from + bytes);
  }
  const auto got = static_cast<std::int64_t>(member.content.size());
  if (status != ARCHIVE_EOF || got != size) {
    fail(file, member.offset, member.name,
         concat("read ", got, " of ", size, " bytes", status != ARCHIVE_EOF ? ": " + reason(reader) : "",
                "; is the file truncated?"));
  }
}

std::int64_t most_unpacked_of(std::int64_t file_bytes) { return std::max(kMaxUnpacked, file_bytes * kMaxRatio); }

/// Refuses a member before unpacking it if the members would exceed the limit.
void require_unpackable(const std::filesystem::path& file, const ArchiveMember& member, std::int64_t before,
                        std::int64_t bytes, std::int64_t most, const char* advice) {
  if (bytes >= 0 && bytes <= most - before) return;
  fail(file, member.offset, member.name,
       concat("has ", bytes, " bytes by its header, so the members exceed 256 MiB and ", kMaxRatio,
              " times the size of the file. If this is intended, ", advice));
}

void read_zip_members(archive* reader, const std::filesystem::path& file, std::int64_t file_bytes,
                      const std::function<void(ArchiveMember)>& visit) {
  std::int64_t unpacked = 0;
  std::string last;
  archive_entry* entry = nullptr;
  for (;;) {
    const int status = la().archive_read_next_header(reader, &entry);
    if (status == ARCHIVE_EOF) return;
    ArchiveMember member;
    member.offset = la().archive_filter_bytes(reader, 0);
    if (status != ARCHIVE_OK) {
      fail(file, member.offset, "",
           concat("this is not a zip, or it is damaged or truncated: ", reason(reader),
                  last.empty() ? "" : " (after member " + in_quotes(last) + ")"));
    }
    member.name = last = name_of(entry, file, member.offset);
    if (la().archive_entry_filetype(entry) != AE_IFREG) fail(file, member.offset, member.name, "is not a regular file");
    if (la().archive_entry_size_is_set(entry) == 0) fail(file, member.offset, member.name, "its header gives no size");
    member.bytes = la().archive_entry_size(entry);
    require_unpackable(file, member, unpacked, member.bytes, most_unpacked_of(file_bytes),
                       "store them without compression");
    unpacked += member.bytes;
    read_content(reader, file, member.bytes, member);
    visit(std::move(member));
  }
}

[[noreturn]] void refuse_zip(const std::filesystem::path& file, std::uint64_t bytes) {
  throw InputError(
      concat(file.string(), ": byte ", bytes, ": no zip directory at the end; this is not a zip, or it is truncated"));
}

/// What libarchive reads of a gzipped tar.
struct Unpacked {
  GzipFile file;
  std::vector<std::uint8_t> block = std::vector<std::uint8_t>(kReadBytes);
};
la_ssize_t read_unpacked(archive* reader, void* source, const void** block) {
  auto& [file, bytes] = *static_cast<Unpacked*>(source);
  *block = bytes.data();
  const std::size_t got = file.read(bytes);
  if (got > 0 || file.damage().empty()) return static_cast<la_ssize_t>(got);
  la().archive_set_error(reader, EINVAL, "%s", file.damage().c_str());
  return -1;
}

Handle zip_reader() {
  Handle reader = new_reader();
  la().archive_read_support_format_zip_seekable(reader.get());
  return reader;
}

}  // namespace

std::int64_t most_unpacked(const std::filesystem::path& file) {
  std::error_code error;  // an unreadable file counts as empty; its reader reports the error
  const auto bytes = std::filesystem::file_size(file, error);
  return most_unpacked_of(error ? 0 : static_cast<std::int64_t>(bytes));
}

void read_tar(const std::filesystem::path& file, const std::function<void(ArchiveMember)>& visit,
              const std::function<bool(const std::string&)>& wants) {
  std::optional<Unpacked> packed;
  if (file.extension() == ".gz") packed = Unpacked{GzipFile(file)};
  const Handle reader = new_reader();
  la().archive_read_support_format_tar(reader.get());
  const RegularFile opened(file);
  if ((packed ? la().archive_read_open(reader.get(), &*packed, nullptr, read_unpacked, nullptr)
              : la().archive_read_open_fd(reader.get(), opened.descriptor(), wants ? kSkipBytes : kReadBytes)) !=
      ARCHIVE_OK) {
    throw InputError(concat(file.string(), ": cannot be read as a tar: ", reason(reader.get())));
  }
  std::error_code error;
  const auto file_bytes = static_cast<std::int64_t>(std::filesystem::file_size(file, error));
  std::int64_t end = 0;  // of the last member, in the unpacked tar
  std::string last;
  archive_entry* entry = nullptr;
  for (;;) {
    const int status = la().archive_read_next_header(reader.get(), &entry);
    if (status == ARCHIVE_EOF) break;
    if (status != ARCHIVE_OK && !(status == ARCHIVE_WARN && only_unconverted(reader.get()))) {
      fail(file, end, "", concat(reason(reader.get()), last.empty() ? "" : " (after member " + in_quotes(last) + ")"));
    }
    ArchiveMember member;
    member.offset = la().archive_read_header_position(reader.get());
    member.name = last = name_of(entry, file, member.offset);
    if (la().archive_entry_filetype(entry) == AE_IFDIR) {
      end = la().archive_filter_bytes(reader.get(), 0);
      continue;
    }
    member.data_offset = la().archive_filter_bytes(reader.get(), 0);
    member.bytes = la().archive_entry_size(entry);
    require_plain_file(file, entry, member);
    if (packed)
      require_unpackable(file, member, member.data_offset, member.bytes, most_unpacked_of(file_bytes),
                         "unpack it with gunzip");
    if (!wants || wants(member.name)) {
      read_content(reader.get(), file, member.bytes, member);
    } else if (!packed && member.data_offset + member.bytes > file_bytes) {  // a seek past the end would go unnoticed
      fail(file, member.offset, member.name,
           concat("has ", member.bytes, " bytes by its header, but ", file_bytes - member.data_offset,
                  " are left; is the file truncated?"));
    } else if (la().archive_read_data_skip(reader.get()) != ARCHIVE_OK) {
      fail(file, member.offset, member.name, reason(reader.get()));
    }
    end = (la().archive_filter_bytes(reader.get(), 0) + kBlock - 1) / kBlock * kBlock;
    visit(std::move(member));
  }
  while (packed && packed->file.read(packed->block) > 0) continue;  // up to the checksums
  if (packed && !packed->file.damage().empty()) fail(file, end, "", packed->file.damage());
  // libarchive accepts a file that stops between two members.
  if (la().archive_filter_bytes(reader.get(), 0) < end + 2 * kBlock) {
    fail(file, end, "",
         concat("the tar ends without its end marker", last.empty() ? "" : ", after member " + in_quotes(last),
                "; it is truncated, copy it again"));
  }
}

void read_zip(const std::filesystem::path& file, const std::function<void(ArchiveMember)>& visit) {
  const Handle reader = zip_reader();
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0)
    throw EnvironmentError(concat(file.string(), ": cannot be opened: ", std::strerror(errno)));
  if (S_ISDIR(status.st_mode)) throw EnvironmentError(concat(file.string(), ": cannot be opened: it is a folder"));
  if (const std::string_view other = what_else(status); !other.empty())
    throw InputError(concat(file.string(), ": is ", other, ", not a regular file"));
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (la().archive_read_open_filename(reader.get(), file.c_str(), kReadBytes) != ARCHIVE_OK) {
    if (la().archive_errno(reader.get()) == EILSEQ) refuse_zip(file, bytes);  // libarchive's "unknown format"
    throw EnvironmentError(concat(file.string(), ": cannot be opened: ", reason(reader.get())));
  }
  read_zip_members(reader.get(), file, static_cast<std::int64_t>(bytes), visit);
}

void read_zip(std::span<const std::byte> bytes, const std::string& file,
              const std::function<void(ArchiveMember)>& visit) {
  const Handle reader = zip_reader();
  // libarchive does not accept a null pointer, even for zero bytes.
  const void* begin = bytes.empty() ? "" : static_cast<const void*>(bytes.data());
  if (la().archive_read_open_memory(reader.get(), begin, bytes.size()) != ARCHIVE_OK) refuse_zip(file, bytes.size());
  read_zip_members(reader.get(), file, static_cast<std::int64_t>(bytes.size()), visit);
}

TarWriter::TarWriter(const std::filesystem::path& file) : file_(file), writer_(new_writer()) {
  if (la().archive_write_set_format_ustar(writer_.get()) != ARCHIVE_OK ||
      la().archive_write_set_bytes_in_last_block(writer_.get(), 1) != ARCHIVE_OK ||
      la().archive_write_open_filename(writer_.get(), file_.c_str()) != ARCHIVE_OK)
    throw EnvironmentError(concat(file_.string(), ": cannot be written: ", reason(writer_.get())));
}

void TarWriter::add(const std::string& name, std::span<const std::uint8_t> content) {
  archive* const writer = writer_.get();
  if (write_header(writer, name, content.size()) != ARCHIVE_OK ||
      la().archive_write_data(writer, content.data(), content.size()) != static_cast<la_ssize_t>(content.size()))
    throw EnvironmentError(
        concat(file_.string(), ": member ", in_quotes(name), " cannot be written: ", reason(writer)));
}

void TarWriter::finish() {
  if (la().archive_write_close(writer_.get()) != ARCHIVE_OK)
    throw EnvironmentError(concat(file_.string(), ": cannot be written: ", reason(writer_.get())));
}

void ZipWriter::check(int status) const {
  if (status != ARCHIVE_OK) throw EnvironmentError(concat("a zip cannot be made: ", reason(writer_.get())));
}

ZipWriter::ZipWriter() : writer_(new_writer()) {
  check(la().archive_write_set_format_zip(writer_.get()));
  check(la().archive_write_set_format_option(writer_.get(), "zip", "compression", "store"));
  check(la().archive_write_set_bytes_per_block(writer_.get(), 0));  // no padding after the end
  const auto append = [](archive*, void* to, const void* data, std::size_t bytes) {
    static_cast<std::string*>(to)->append(static_cast<const char*>(data), bytes);
    return static_cast<la_ssize_t>(bytes);
  };
  check(la().archive_write_open2(writer_.get(), &bytes_, nullptr, append, nullptr, nullptr));
}

void ZipWriter::add(const std::string& name, std::string_view content) {
  // The date is before 1980, where zip time starts, so the time zone has no effect.
  check(write_header(writer_.get(), name, content.size()));
  while (!content.empty()) {  // each call takes at most 2 GiB
    const la_ssize_t written = la().archive_write_data(writer_.get(), content.data(), content.size());
    if (written <= 0) check(ARCHIVE_FATAL);
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  check(la().archive_write_finish_entry(writer_.get()));
}

std::string ZipWriter::finish() {
  check(la().archive_write_close(writer_.get()));
  return std::move(bytes_);
}

}  // namespace normlab
