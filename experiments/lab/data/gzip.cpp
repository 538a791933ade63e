#include "experiments/lab/data/gzip.h"

#include <unistd.h>

#include <algorithm>

#include "core/error.h"
#include "experiments/lab/base/regular_file.h"

namespace normlab {

namespace {
constexpr std::size_t kUnpackedAtOnce = std::size_t{1} << 18;
}  // namespace

GzipFile::GzipFile(const std::filesystem::path& file) {
  const int descriptor = ::dup(RegularFile(file).descriptor());
  packed_.reset(gzdopen(descriptor, "rb"));
  if (!packed_) {
    if (descriptor >= 0) ::close(descriptor);
    throw EnvironmentError(concat(file.string(), ": cannot be unpacked: no memory, or too many open files"));
  }
  gzbuffer(packed_.get(), kUnpackedAtOnce);
  if (gzdirect(packed_.get()) != 0)
    throw InputError(concat(file.string(), ": is not a gzip file, although its name says so"));
}

std::size_t GzipFile::read(std::span<std::uint8_t> to) {
  const auto most = static_cast<unsigned>(std::min<std::size_t>(to.size(), 1u << 30));  // gzread counts in an int
  return static_cast<std::size_t>(std::max(gzread(packed_.get(), to.data(), most), 0));
}

std::string GzipFile::damage() const {
  int code = Z_OK;
  const std::string why = gzerror(packed_.get(), &code);
  if (code == Z_OK || code == Z_STREAM_END) return "";
  return concat(why.substr(why.find(": ") + 2),
                "; the file is damaged or cut short, copy it again");  // without "<fd:4>"
}

std::vector<std::uint8_t> read_gzip(const std::filesystem::path& file, std::int64_t most) {
  GzipFile packed(file);
  std::vector<std::uint8_t> bytes;
  for (std::size_t got = 1; got > 0 && std::ssize(bytes) < most;) {
    const std::size_t had = bytes.size();
    bytes.resize(had + std::min(kUnpackedAtOnce, static_cast<std::size_t>(most) - had));  // grows with what is there
    got = packed.read(std::span(bytes).subspan(had));
    bytes.resize(had + got);
  }
  if (const std::string damage = packed.damage(); !damage.empty())
    throw InputError(concat(file.string(), ": after ", bytes.size(), " unpacked bytes: ", damage));
  return bytes;
}

}  // namespace normlab
