#include "experiments/results/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "core/error.h"

namespace normlab {
namespace {

constexpr std::string_view kTemporarySuffix = ".tmp";

std::string_view advice(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "free some space; finished results are untouched, start the same command again";
    case EFBIG:
      return "the limit on file sizes is too low (ulimit -f); finished results are untouched, raise it and start the "
             "same command again";
    case EROFS:
      return "this file system is read-only; choose another folder";
    case EACCES:
    case EPERM:
      return "no permission; check the owner and the mode, or choose another folder";
    case ENOENT:
      return "check the path";
    case ENOTDIR:
    case EISDIR:
      return "a file stands where a folder is expected, or the reverse; check the path";
    case ELOOP:
      return "symbolic links lead in a circle; choose another path";
    case ENAMETOOLONG:
      return "a name has at most 255 bytes and a path 4095; choose a shorter one";
    case EMFILE:
    case ENFILE:
      return "too many open files (ulimit -n)";
    case EIO:
      return "the disk or the network file system reports an error; check it before going on";
    case EOPNOTSUPP:
    case EMLINK:
      return "this file system has no hard links, by which processes agree on who was first; choose another folder for "
             "the results";
    default:
      return "finished results are untouched; once this is solved, start the same command again";
  }
}

/// Owns a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close_quietly(); }
  int get() const { return value_; }
  /// Network file systems report a failed write only here.
  int close_checked() {
    const int result = ::close(value_);
    value_ = -1;
    return result;
  }

 private:
  void close_quietly() {
    if (value_ >= 0) ::close(value_);
  }
  int value_;
};

int open_retrying(const std::filesystem::path& path, int flags, mode_t mode = 0666) {
  int descriptor = -1;
  do descriptor = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

/// Writes all bytes; on failure the number that went through, with errno set.
std::size_t write_all(int descriptor, std::string_view bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    done += std::size_t(n);
  }
  return done;
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor directory(open_retrying(folder, O_RDONLY | O_DIRECTORY));
  if (directory.get() < 0) throw_system_error("open the folder", folder, errno);
  // Some network file systems cannot sync a folder and say EINVAL; there is nothing more to be done there.
  if (::fsync(directory.get()) != 0 && errno != EINVAL) throw_system_error("sync the folder", folder, errno);
}

/// A name beside `target` that only this process uses: ".result.json.HOST.PID.COUNT.tmp".
std::filesystem::path temporary_name(const std::filesystem::path& target) {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  static std::atomic<std::uint64_t> counter{0};
  return folder_of(target) /
         concat('.', target.filename().string(), '.', host, '.', ::getpid(), '.', ++counter, kTemporarySuffix);
}

/// A file of its own beside the target, filled and on the disk; removed unless it was renamed.
class Temporary {
 public:
  Temporary(const std::filesystem::path& target, std::string_view bytes) {
    int descriptor = -1;
    do {  // a killed process with this number may have left its file behind, so names are tried until one is free
      path_ = temporary_name(target);
      descriptor = open_retrying(path_, O_WRONLY | O_CREAT | O_EXCL);
    } while (descriptor < 0 && errno == EEXIST);
    Descriptor file(descriptor);
    if (file.get() < 0) throw_system_error("create", path_, errno);
    const bool written = write_all(file.get(), bytes) == bytes.size() && ::fsync(file.get()) == 0;
    if (!written || file.close_checked() != 0) {
      const int error_number = errno;
      ::unlink(path_.c_str());
      throw_system_error("write", target, error_number);
    }
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  const std::filesystem::path& path() const { return path_; }
  void forget() { path_.clear(); }

 private:
  std::filesystem::path path_;
};

}  // namespace

void throw_system_error(std::string_view action, const std::filesystem::path& path, int error_number) {
  throw EnvironmentError(concat("cannot ", action, ' ', path.string(), ": ",
                                std::generic_category().message(error_number), "; ", advice(error_number)));
}

std::string read_file(const std::filesystem::path& path) {
  auto bytes = read_file_if_there(path);
  if (!bytes) throw_system_error("open", path, ENOENT);
  return *std::move(bytes);
}

std::optional<std::string> read_file_if_there(const std::filesystem::path& path) {
  const Descriptor file(open_retrying(path, O_RDONLY));
  // A network file system may still know a name whose file is gone.
  if (file.get() < 0 && (errno == ENOENT || errno == ESTALE)) return std::nullopt;
  if (file.get() < 0) throw_system_error("open", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_system_error("read", path, errno);
  if (S_ISDIR(status.st_mode)) throw_system_error("read", path, EISDIR);
  // One byte more than the file has, so that the read that ends it needs no second buffer; files in /proc say 0.
  std::string bytes(std::size_t(status.st_size) + 1, '\0');
  std::size_t done = 0;
  while (true) {
    if (done == bytes.size()) bytes.resize(2 * bytes.size() + 4096);
    const ssize_t n = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_system_error("read", path, errno);
    if (n == 0) break;
    done += std::size_t(n);
  }
  bytes.resize(done);
  return bytes;
}

void make_folders(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_system_error("create the folder", folder, error.value());
}

void write_atomically(const std::filesystem::path& path, std::string_view bytes) {
  Temporary temporary(path, bytes);
  if (::rename(temporary.path().c_str(), path.c_str()) != 0) throw_system_error("write", path, errno);
  temporary.forget();
  sync_folder(folder_of(path));
}

bool publish(const std::filesystem::path& path, std::string_view bytes) {
  constexpr int kTries = 10;
  for (int i = 0;; ++i) {
    const Temporary temporary(path, bytes);
    if (::link(temporary.path().c_str(), path.c_str()) == 0) break;
    const int error_number = errno;
    // Over a network the answer to a link that was made can get lost, and its repetition then fails: the number of
    // names that the file has is what counts.
    struct stat status {};
    const bool there = ::stat(temporary.path().c_str(), &status) == 0;
    if (there && status.st_nlink == 2) break;
    if (error_number == EEXIST) return false;
    // Whoever takes a trial over clears away what its former owner left, and may mean this file, too.
    if (!there && error_number == ENOENT && i < kTries) continue;
    throw_system_error("publish", path, error_number == EPERM ? EOPNOTSUPP : error_number);
  }
  sync_folder(folder_of(path));
  return true;
}

std::optional<std::filesystem::path> take_away(const std::filesystem::path& path) {
  const std::filesystem::path target = temporary_name(path);
  if (::rename(path.c_str(), target.c_str()) == 0) return target;
  if (errno == ENOENT || errno == ESTALE) return std::nullopt;
  throw_system_error("rename", path, errno);
}

bool put_back(const std::filesystem::path& taken, const std::filesystem::path& path) {
  const bool back = ::link(taken.c_str(), path.c_str()) == 0;
  ::unlink(taken.c_str());
  return back;
}

void remove_file(const std::filesystem::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_system_error("remove", path, errno);
}

void remove_temporaries(const std::filesystem::path& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool ours = name.size() > kTemporarySuffix.size() && name.front() == '.' &&
                      name.compare(name.size() - kTemporarySuffix.size(), name.npos, kTemporarySuffix) == 0;
    if (ours) remove_file(entry.path());
  }
  if (error && error.value() != ENOENT) throw_system_error("list", folder, error.value());
}

LineFile::LineFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open_retrying(path_, O_WRONLY | O_CREAT | O_APPEND)) {
  if (descriptor_ < 0) throw_system_error("open", path_, errno);
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    const int error_number = errno;
    ::close(descriptor_);
    throw_system_error("open", path_, error_number);
  }
  bytes_ = std::uint64_t(status.st_size);
}

LineFile::~LineFile() { ::close(descriptor_); }

void LineFile::append(std::string_view line) {
  std::string bytes(line);
  bytes += '\n';
  if (write_all(descriptor_, bytes) == bytes.size()) {
    bytes_ += bytes.size();
    return;
  }
  const int error_number = errno;
  // A device has no length to go back to, and readers drop a torn last line in any case.
  [[maybe_unused]] const int cut = ::ftruncate(descriptor_, off_t(bytes_));
  throw_system_error("append to", path_, error_number);
}

void LineFile::sync() {
  if (::fsync(descriptor_) != 0) throw_system_error("write", path_, errno);
}

}  // namespace normlab
