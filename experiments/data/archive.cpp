#include "experiments/data/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <memory>

#include "core/error.h"

namespace normlab {
namespace {

constexpr std::int64_t kBlock = 512;              // tar's unit
constexpr std::int64_t kMaxMember = 256ll << 20;  // an image of 256 MiB is a mistake
constexpr std::size_t kReadBytes = std::size_t{1} << 18;

using Reader = std::unique_ptr<archive, int (*)(archive*)>;

std::string reason(archive* reader) {
  const char* text = archive_error_string(reader);
  return text != nullptr ? text : "no reason given";
}

[[noreturn]] void fail(const std::filesystem::path& file, std::int64_t offset, const std::string& member,
                       const std::string& what) {
  throw InputError(concat(file.string(), ": byte ", offset, member.empty() ? "" : ", member \"", member,
                          member.empty() ? ": " : "\": ", what));
}

void require_plain_file(const std::filesystem::path& file, archive_entry* entry, const ArchiveMember& member) {
  if (archive_entry_hardlink(entry) != nullptr || archive_entry_filetype(entry) == AE_IFLNK) {
    fail(file, member.offset, member.name, "is a link; pack the file itself (tar --dereference --hard-dereference)");
  }
  if (archive_entry_filetype(entry) != AE_IFREG) fail(file, member.offset, member.name, "is not a regular file");
  if (archive_entry_sparse_count(entry) > 0) fail(file, member.offset, member.name, "is a sparse file");
  if (archive_entry_size(entry) > kMaxMember) {
    fail(file, member.offset, member.name, concat("claims ", archive_entry_size(entry), " bytes, more than 256 MiB"));
  }
}

void read_content(archive* reader, const std::filesystem::path& file, std::int64_t size, ArchiveMember& member) {
  const void* data = nullptr;
  std::size_t bytes = 0;
  la_int64_t at = 0;
  int status = ARCHIVE_OK;
  // Grows with what is there, not with what the header claims.
  while ((status = archive_read_data_block(reader, &data, &bytes, &at)) == ARCHIVE_OK) {
    const auto* from = static_cast<const std::uint8_t*>(data);
    member.content.insert(member.content.end(), from, from + bytes);
  }
  const auto got = static_cast<std::int64_t>(member.content.size());
  if (status != ARCHIVE_EOF || got != size) {
    fail(file, member.offset, member.name,
         concat("read ", got, " of ", size, " bytes", status != ARCHIVE_EOF ? ": " + reason(reader) : "",
                "; is the file cut short?"));
  }
}

}  // namespace

void read_tar(const std::filesystem::path& file, const std::function<void(ArchiveMember)>& visit) {
  const Reader reader(archive_read_new(), archive_read_free);
  if (!reader) throw EnvironmentError("libarchive cannot be set up: no memory");
  archive_read_support_format_tar(reader.get());
  if (file.extension() == ".gz") archive_read_support_filter_gzip(reader.get());
  if (archive_read_open_filename(reader.get(), file.c_str(), kReadBytes) != ARCHIVE_OK) {
    throw InputError(concat(file.string(), ": cannot be read as a tar: ", reason(reader.get())));
  }
  std::int64_t end = 0;  // of the last member, in the unpacked tar
  std::string last;
  archive_entry* entry = nullptr;
  for (;;) {
    const int status = archive_read_next_header(reader.get(), &entry);
    if (status == ARCHIVE_EOF) break;
    if (status != ARCHIVE_OK) {
      fail(file, end, "", concat(reason(reader.get()), last.empty() ? "" : " (after member \"" + last + "\")"));
    }
    ArchiveMember member;
    member.offset = archive_read_header_position(reader.get());
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr) fail(file, member.offset, "", "a member's name cannot be read; use ASCII names");
    member.name = last = name;
    if (archive_entry_filetype(entry) == AE_IFDIR) {
      end = archive_filter_bytes(reader.get(), 0);
      continue;
    }
    require_plain_file(file, entry, member);
    read_content(reader.get(), file, archive_entry_size(entry), member);
    end = (archive_filter_bytes(reader.get(), 0) + kBlock - 1) / kBlock * kBlock;
    visit(std::move(member));
  }
  // libarchive takes a file that stops between two members for a whole one.
  if (archive_filter_bytes(reader.get(), 0) < end + 2 * kBlock) {
    fail(file, end, "",
         concat("the tar stops without its end mark", last.empty() ? "" : ", after member \"" + last + "\"",
                "; it was cut short, copy it again"));
  }
}

}  // namespace normlab
