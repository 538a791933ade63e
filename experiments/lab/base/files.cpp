#include "experiments/lab/base/files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/folders.h"
#include "experiments/lab/base/regular_file.h"
#include "experiments/lab/base/system_calls.h"
#include "experiments/lab/base/text_layout.h"

namespace normlab {
namespace {

constexpr int kTries = 10;      // attempts to create a file that another process keeps removing
constexpr int kMostLinks = 40;  // that Linux follows in a path

std::string_view advice(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return "free some space, then run the same command again; finished results are untouched";
    case EFBIG:
      return "raise the limit on file sizes (ulimit -f), then run the same command again; finished results are "
             "untouched";
    case EROFS:
      return "this file system is read-only; choose another folder";
    case EACCES:
    case EPERM:
      return "no permission; check the owner and the mode, or choose another folder";
    case ENOENT:
      return "check the path";
    case ENOTDIR:
    case EISDIR:
      return "there is a file where a folder is expected, or the reverse; check the path";
    case ELOOP:
      return "its symbolic links form a loop; choose another path";
    case ENAMETOOLONG:
      return "a name may have at most 255 bytes and a path 4095; choose a shorter one";
    case EMFILE:
    case ENFILE:
      return "raise the limit on open files (ulimit -n), or use fewer --workers";
    case EIO:
      return "the disk or the network file system reports an error; check it before you continue";
    default:
      return "solve this, then run the same command again; finished results are untouched";
  }
}

int open_retrying(const std::filesystem::path& path, int flags, mode_t mode = 0666) {
  return uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
}

bool write_whole(int descriptor, std::string_view bytes) {
  return write_all(bytes, [&](const char* data, std::size_t size, std::size_t) {
           return ::write(descriptor, data, size);
         }) == bytes.size();
}

int sync_retrying(int descriptor) {
  return uninterrupted([&] { return ::fsync(descriptor); });
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// A file beside the target, written and synced; removed unless renamed.
class Temporary {
 public:
  Temporary(const std::filesystem::path& target, std::string_view bytes) {
    bool created = false, written = false;
    do {  // a killed process with the same id may have left its file, so try names until one is free
      path_ = temporary_name(target);
      written = create_file(path_, bytes, created);
    } while (!created && errno == EEXIST);
    if (!created) throw_system_error("create", path_, errno);
    if (!written) throw_system_error("write", target, errno);
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

template <class Which>
void remove_some_temporaries(const std::filesystem::path& folder, Which&& which) {
  for (const auto& path : list_folder(folder)) {
    const std::string name = path.filename().string();
    if (name.front() == '.' && name.ends_with(kTemporarySuffix) && which(name)) remove_file(path);
  }
}

/// None, with errno, if there is no such file; a network file system may still list its name.
std::optional<Descriptor> open_if_there(const std::filesystem::path& path) {
  Descriptor file(open_at_once(path));
  if (file.get() < 0 && (errno == ENOENT || errno == ESTALE)) return std::nullopt;
  if (file.get() < 0) throw_system_error("open", path, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_system_error("read", path, errno);
  if (S_ISDIR(status.st_mode)) throw_system_error("read", path, EISDIR);
  if (const std::string_view other = what_else(status); !other.empty())
    throw InputError(concat(path.string(), ": is ", other, ", not a regular file"));
  return file;
}

std::uint64_t size_of(const Descriptor& file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_system_error("read", path, errno);
  return std::uint64_t(status.st_size);
}

void read_pieces(const Descriptor& file, const std::filesystem::path& path,
                 const std::function<void(std::string_view)>& take) {
  std::string piece(std::size_t(1) << 20, '\0');
  while (true) {
    const ssize_t n = uninterrupted([&] { return ::read(file.get(), piece.data(), piece.size()); });
    if (n < 0) throw_system_error("read", path, errno);
    if (n == 0) return;
    take(std::string_view(piece).substr(0, std::size_t(n)));
  }
}

/// `around`: the folder and those that led to it, without links.
void add_files_below(const std::filesystem::path& folder, std::vector<std::filesystem::path>& around,
                     std::vector<std::filesystem::path>& files) {
  for (const auto& path : list_folder(folder)) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    const std::filesystem::path whole = std::filesystem::canonical(path, error);
    if (error == std::errc::no_such_file_or_directory) continue;  // removed meanwhile
    if (error) throw_system_error("read", path, error.value());
    if (std::any_of(around.begin(), around.end(), [&](const auto& other) { return lies_in(other, whole); })) continue;
    around.push_back(whole);
    add_files_below(path, around, files);
    around.pop_back();
  }
}

}  // namespace

void throw_system_error(std::string_view action, const std::filesystem::path& path, int error_number) {
  const std::string name = path.native().size() < PATH_MAX ? visible_line(path.native()) : shown(path.native());
  throw EnvironmentError(concat("cannot ", action, ' ', name, ": ", std::generic_category().message(error_number), "; ",
                                advice(error_number)));
}

bool create_file(const std::filesystem::path& path, std::string_view bytes, bool& created) {
  Descriptor file(open_retrying(path, O_WRONLY | O_CREAT | O_EXCL));
  created = file.get() >= 0;
  if (!created) return false;
  const bool written = write_whole(file.get(), bytes) && sync_retrying(file.get()) == 0;
  if (written && file.close_checked() == 0) return true;
  const int error_number = errno;
  ::unlink(path.c_str());
  errno = error_number;
  return false;
}

std::string read_file(const std::filesystem::path& path) {
  auto bytes = read_file_if_there(path);
  if (!bytes) throw_system_error("open", path, ENOENT);
  return *std::move(bytes);
}

std::optional<std::string> read_file_if_there(const std::filesystem::path& path) {
  const auto file = open_if_there(path);
  if (!file) return std::nullopt;
  return read_open_file(file->get(), path, std::size_t(size_of(*file, path)), RegularFile::kAll);
}

void read_pieces(const std::filesystem::path& path, const std::function<void(std::string_view)>& take) {
  const auto file = open_if_there(path);
  if (!file) throw_system_error("open", path, errno);
  read_pieces(*file, path, take);
}

std::optional<std::string> read_end_if_there(const std::filesystem::path& path, std::uint64_t bytes) {
  const auto file = open_if_there(path);
  if (!file) return std::nullopt;
  const std::uint64_t size = size_of(*file, path), begin = size - std::min(size, bytes);
  std::string end(std::size_t(size - begin), '\0');
  const ssize_t done = read_at(file->get(), end.data(), end.size(), off_t(begin));
  if (done < 0) throw_system_error("read", path, errno);
  end.resize(std::size_t(done));  // the file may have been truncated since
  return end;
}

bool copy_regular_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  const auto source = open_if_there(from);
  if (!source) return false;
  Descriptor target(open_retrying(to, O_WRONLY | O_CREAT | O_EXCL));
  if (target.get() < 0) throw_system_error("create", to, errno);
  read_pieces(*source, from, [&](std::string_view piece) {
    if (!write_whole(target.get(), piece)) throw_system_error("write", to, errno);
  });
  if (sync_retrying(target.get()) != 0 || target.close_checked() != 0) throw_system_error("write", to, errno);
  return true;
}

std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  do {
    paths.clear();
    for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
      paths.push_back(at->path());
  } while (error.value() == EINTR);
  if (error && error.value() != ENOENT) throw_system_error("list", folder, error.value());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::vector<std::filesystem::path> files_below(const std::filesystem::path& folder) {
  std::error_code missing;
  std::vector<std::filesystem::path> around{std::filesystem::canonical(folder, missing)}, files;
  if (missing != std::errc::no_such_file_or_directory) add_files_below(folder, around, files);
  return files;
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor directory(open_retrying(folder, O_RDONLY | O_DIRECTORY));
  if (directory.get() < 0) throw_system_error("open the folder", folder, errno);
  // Some network file systems cannot sync a folder and report EINVAL; nothing else can be done.
  if (sync_retrying(directory.get()) != 0 && errno != EINVAL) throw_system_error("sync the folder", folder, errno);
}

bool make_folder(const std::filesystem::path& folder) {
  if (uninterrupted([&] { return ::mkdir(folder.c_str(), 0777); }) != 0) return false;
  sync_folder(folder_of(folder));
  return true;
}

void make_folders(const std::filesystem::path& folder) {
  if (!folder.has_filename()) return folder.has_relative_path() ? make_folders(folder.parent_path()) : void();
  if (make_folder(folder)) return;
  int error_number = errno;
  if (error_number == ENOENT && folder.has_parent_path()) {
    make_folders(folder.parent_path());
    if (make_folder(folder)) return;
    error_number = errno;
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored)) return;
  throw_system_error("create the folder", folder, error_number == EEXIST ? ENOTDIR : error_number);
}

std::filesystem::path temporary_name(const std::filesystem::path& target) {
  static std::atomic<std::uint64_t> counter{0};
  return folder_of(target) /
         concat('.', target.filename().string(), '.', host_name(), '.', ::getpid(), '.', ++counter, kTemporarySuffix);
}

pid_t local_writer(const std::filesystem::path& temporary) {
  const std::string name = temporary.filename().string();
  if (!name.ends_with(kTemporarySuffix)) return 0;
  const auto count = name.rfind('.', name.size() - kTemporarySuffix.size() - 1);
  const auto process = count == name.npos || count == 0 ? name.npos : name.rfind('.', count - 1);
  if (process == name.npos || !std::string_view(name).substr(0, process).ends_with("." + host_name())) return 0;
  return pid_t(whole_number(std::string_view(name).substr(process + 1, count - process - 1)).value_or(0));
}

int rename_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  struct stat before {
  }, after{};
  const bool known = uninterrupted([&] { return ::stat(from.c_str(), &before); }) == 0;
  if (uninterrupted([&] { return ::rename(from.c_str(), to.c_str()); }) == 0) return 0;
  const int error_number = errno;
  const bool there = uninterrupted([&] { return ::stat(to.c_str(), &after); }) == 0;
  return known && there && before.st_ino == after.st_ino && before.st_dev == after.st_dev ? 0 : error_number;
}

void write_atomically(const std::filesystem::path& path, std::string_view bytes) {
  for (int i = 1;; ++i) {
    Temporary temporary(path, bytes);
    const int error_number = rename_file(temporary.path(), path);
    if (error_number == ENOENT && i < kTries) continue;
    if (error_number != 0) throw_system_error("write", path, error_number);
    temporary.forget();
    break;
  }
  sync_folder(folder_of(path));
}

std::filesystem::path target_of(std::filesystem::path path) {
  std::error_code error;
  for (int links = 0; std::filesystem::is_symlink(path, error); ++links) {
    if (links == kMostLinks) throw_system_error("write", path, ELOOP);
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) throw_system_error("read the link", path, error.value());
    path = path.parent_path() / target;  // an absolute target replaces the path
  }
  return path;
}

std::optional<int> named_stream(std::filesystem::path path) {
  std::error_code error;
  const std::filesystem::path descriptors = std::filesystem::canonical("/proc/self/fd", error);
  for (int links = 0; !error && links < kMostLinks; ++links) {
    const std::optional<std::uint64_t> number = whole_number(path.filename().string());
    if (number && std::filesystem::canonical(folder_of(path), error) == descriptors && !error) return int(*number);
    error.clear();
    if (!std::filesystem::is_symlink(path, error)) return std::nullopt;
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    path = path.parent_path() / target;
  }
  return std::nullopt;
}

bool is_stream(const std::filesystem::path& path) {
  struct stat status {};
  return named_stream(path) || (uninterrupted([&] { return ::stat(path.c_str(), &status); }) == 0 &&
                                !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode));
}

void write_file_or_stream(const std::filesystem::path& path, std::string_view bytes) {
  if (const std::optional<int> stream = named_stream(path)) {
    // Opened again, a file that the shell appends to would be written from its start.
    if (!write_whole(*stream, bytes)) throw_system_error("write", path, errno);
    return;
  }
  if (is_stream(path)) {
    Descriptor file(open_retrying(path, O_WRONLY));
    if (file.get() < 0) throw_system_error("open", path, errno);
    if (!write_whole(file.get(), bytes) || file.close_checked() != 0) throw_system_error("write", path, errno);
    return;
  }
  const std::filesystem::path target = target_of(path);
  if (target.has_parent_path()) make_folders(target.parent_path());
  write_atomically(target, bytes);
}

bool publish(const std::filesystem::path& path, std::string_view bytes, const FirstWins& by) {
  for (int i = 0; i < kTries; ++i) {
    Temporary temporary(path, bytes);
    switch (place(temporary.path(), path, by)) {
      case Placed::yes:
        temporary.forget();
        sync_folder(folder_of(path));
        return true;
      case Placed::taken:
        return false;
      case Placed::gone:
        break;
    }
  }
  throw_system_error("publish", path, ENOENT);
}

std::optional<std::filesystem::path> take_away(const std::filesystem::path& path) {
  const std::filesystem::path target = temporary_name(path);
  const int error_number = rename_file(path, target);
  if (error_number == 0) return target;
  if (error_number == ENOENT || error_number == ESTALE) return std::nullopt;
  throw_system_error("rename", path, error_number);
}

bool put_back(const std::filesystem::path& taken, const std::filesystem::path& path, const FirstWins& by) {
  const bool back = place(taken, path, by) == Placed::yes;
  if (!back) remove_file(taken);
  return back;
}

void remove_file(const std::filesystem::path& path) {
  if (uninterrupted([&] { return ::unlink(path.c_str()); }) != 0 && errno != ENOENT)
    throw_system_error("remove", path, errno);
}

void remove_temporaries(const std::filesystem::path& folder) {
  remove_some_temporaries(folder, [](const std::string&) { return true; });
}

void remove_abandoned_temporaries(const std::filesystem::path& folder) {
  remove_some_temporaries(folder, [](const std::string& name) {
    const pid_t writer = local_writer(name);
    return writer > 0 && ::kill(writer, 0) != 0 && errno == ESRCH;
  });
}

LineFile::LineFile(std::filesystem::path path)
    : path_(std::move(path)), file_(open_retrying(path_, O_WRONLY | O_CREAT | O_APPEND)) {
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0) throw_system_error("open", path_, errno);
  bytes_ = std::uint64_t(status.st_size);
}

void LineFile::append(std::string_view line) {
  std::string bytes(line);
  bytes += '\n';
  if (write_whole(file_.get(), bytes)) {
    bytes_ += bytes.size();
    return;
  }
  const int error_number = errno;
  // A device cannot be truncated; readers drop an incomplete last line anyway.
  [[maybe_unused]] const int cut = uninterrupted([&] { return ::ftruncate(file_.get(), off_t(bytes_)); });
  throw_system_error("append to", path_, error_number);
}

void LineFile::sync() {
  if (sync_retrying(file_.get()) != 0) throw_system_error("write", path_, errno);
}

}  // namespace normlab
