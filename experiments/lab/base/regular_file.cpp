#include "experiments/lab/base/regular_file.h"

#include <fcntl.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/system_calls.h"

namespace normlab {

std::string_view what_else(const struct stat& status) {
  if (S_ISREG(status.st_mode)) return "";
  if (S_ISDIR(status.st_mode)) return "a folder";
  if (S_ISFIFO(status.st_mode)) return "a pipe";
  return S_ISSOCK(status.st_mode) ? "a socket" : "a device";
}

int open_at_once(const std::filesystem::path& file) {
  return uninterrupted([&] { return ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); });
}

std::string read_open_file(int descriptor, const std::filesystem::path& file, std::size_t size, std::size_t most) {
  // One byte more than the size, so that the final read needs no larger buffer. Files in /proc report size 0.
  std::string bytes(std::min(size, most) + 1, '\0');
  std::size_t done = 0;
  while (done <= most) {
    if (done == bytes.size()) bytes.resize(std::min(2 * bytes.size() + 4096, most + 1));
    const ssize_t n = uninterrupted([&] { return ::read(descriptor, bytes.data() + done, bytes.size() - done); });
    if (n < 0) throw_system_error("read", file, errno);
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

RegularFile::RegularFile(const std::filesystem::path& file, std::string_view advice)
    : file_(file), advice_(advice), descriptor_(open_at_once(file)) {
  if (descriptor_.get() < 0 || ::fstat(descriptor_.get(), &status_) != 0) fail(errno);
  if (const std::string_view other = what_else(status_); !other.empty())
    fail(concat("it is ", other, ", not a regular file"));
}

std::string RegularFile::read(std::size_t most) const {
  return read_open_file(descriptor(), file_, static_cast<std::size_t>(status_.st_size), most);
}

void RegularFile::fail(std::string_view why) const {
  const std::string name = file_.native().size() < PATH_MAX ? file_.string() : shown(file_.native());
  throw InputError(concat(name, ": cannot be read: ", why, advice_.empty() ? "" : "; ", advice_));
}

void RegularFile::fail(int error_number) const {
  constexpr int kOfTheName[] = {ENOENT, ENOTDIR, EACCES, EPERM, ELOOP, ENAMETOOLONG, ENXIO};
  if (std::find(std::begin(kOfTheName), std::end(kOfTheName), error_number) != std::end(kOfTheName))
    fail(std::strerror(error_number));
  throw_system_error("read", file_, error_number);  // a failure of the machine, not of the named file
}

}  // namespace normlab
