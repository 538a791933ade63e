#include "experiments/lab/data/indexed_images.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/parallel.h"
#include "experiments/lab/base/system_calls.h"

namespace normlab {
namespace {

constexpr std::int64_t kMostFileBytes = std::int64_t{256} << 20;  // an image of 256 MiB is a mistake

/// Fills `bytes` from `offset`.
void read_part(const std::filesystem::path& file, std::int64_t offset, std::vector<std::uint8_t>& bytes,
               const std::string& where) {
  const Descriptor fd(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) throw InputError(concat(where, ": cannot be opened: ", std::strerror(errno)));
  const ssize_t have = read_at(fd.get(), bytes.data(), bytes.size(), offset);
  if (have < 0) throw InputError(concat(where, ": cannot be read: ", std::strerror(errno)));
  if (static_cast<std::size_t>(have) < bytes.size())
    throw InputError(concat(where, ": ends after ", have, " of ", bytes.size(),
                            " bytes; the file was truncated or changed after it was listed"));
}

}  // namespace

IndexedImages::IndexedImages(ImageIndex index, int threads) : index_(std::move(index)) {
  parallel_items(static_cast<std::int64_t>(index_.entries.size()), 64, threads, [&](std::size_t, std::int64_t i) {
    ImageEntry& entry = index_.entries[static_cast<std::size_t>(i)];
    if (entry.archive >= 0) return;
    struct stat status {};
    const bool there = stat(file(entry).c_str(), &status) == 0 && S_ISREG(status.st_mode);
    entry.bytes = there && status.st_size <= kMostFileBytes ? std::int64_t{status.st_size} : -1;
  });
}

void IndexedImages::read(std::int64_t i, std::vector<std::uint8_t>& bytes) const {
  const ImageEntry& entry = at(i);
  if (!entry.content.empty()) {
    bytes = entry.content;
    return;
  }
  const std::string name = where(i);
  if (entry.bytes < 0) throw InputError(concat(name, ": ", missing_reason(entry)));
  bytes.resize(static_cast<std::size_t>(entry.bytes));
  read_part(file(entry), entry.offset, bytes, name);
}

std::string IndexedImages::where(std::int64_t i) const {
  const ImageEntry& entry = at(i);
  const std::string name = visible_line(file(entry).string());
  return entry.archive < 0 ? name : concat(name, ": member ", in_quotes(entry.member));
}

std::int64_t IndexedImages::bytes(std::int64_t i) const {
  const ImageEntry& entry = at(i);
  return entry.content.empty() ? entry.bytes : static_cast<std::int64_t>(entry.content.size());
}

std::vector<std::uint8_t> IndexedImages::head(std::int64_t i, std::size_t count) const {
  const ImageEntry& entry = at(i);
  const auto have = std::min(count, static_cast<std::size_t>(std::max<std::int64_t>(bytes(i), 0)));
  if (!entry.content.empty()) return {entry.content.begin(), entry.content.begin() + std::ptrdiff_t(have)};
  std::vector<std::uint8_t> first(have);
  try {
    if (have > 0) read_part(file(entry), entry.offset, first, where(i));
  } catch (const InputError&) {  // whoever needs the file reports it
    first.clear();
  }
  return first;
}

void IndexedImages::keep(const std::vector<bool>& good) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    if (!good[i]) continue;
    if (kept != i) index_.entries[kept] = std::move(index_.entries[i]);
    ++kept;
  }
  index_.entries.resize(kept);
}

std::filesystem::path IndexedImages::file(const ImageEntry& entry) const {
  return index_.folder / (entry.archive < 0 ? entry.key : index_.archives[static_cast<std::size_t>(entry.archive)]);
}

std::string IndexedImages::missing_reason(const ImageEntry& entry) const {
  struct stat status {};
  if (stat(file(entry).c_str(), &status) != 0) return std::strerror(errno);
  if (!S_ISREG(status.st_mode)) return "is not a regular file";
  return status.st_size > kMostFileBytes ? "is larger than 256 MiB, the limit for an image"
                                         : "did not exist when the data set was listed";
}

}  // namespace normlab
