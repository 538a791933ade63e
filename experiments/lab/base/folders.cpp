#include "experiments/lab/base/folders.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <string>

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/system_calls.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

/// The time of the last change in it, links not followed; 0 if it is gone.
std::time_t last_change(const fs::path& path) {
  struct stat status {};
  if (uninterrupted([&] { return ::lstat(path.c_str(), &status); }) != 0) return 0;
  std::time_t last = status.st_mtime;
  if (S_ISDIR(status.st_mode))
    for (const fs::path& entry : list_folder(path)) last = std::max(last, last_change(entry));
  return last;
}

}  // namespace

TemporaryFolderBeside::TemporaryFolderBeside(const fs::path& target) {
  make_folders(target.parent_path());
  do path_ = temporary_name(target);  // a killed process with the same id may have left its folder
  while (fs::exists(fs::symlink_status(path_)));
  try {
    if (!make_folder(path_)) throw_system_error("create the folder", path_, errno);
  } catch (...) {  // its name may not be on disk
    ::rmdir(path_.c_str());
    throw;
  }
}

TemporaryFolderBeside::~TemporaryFolderBeside() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

int exchange_names(const fs::path& a, const fs::path& b) {
  return uninterrupted([&] { return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE); }) == 0
             ? 0
             : errno;
}

bool refuses_exchange(int error_number) {
  return error_number == EINVAL || error_number == ENOSYS || error_number == EOPNOTSUPP;
}

void sync_folders_below(const fs::path& folder) {
  for (const fs::path& path : list_folder(folder))
    if (fs::is_directory(path)) sync_folders_below(path);
  sync_folder(folder);
}

void remove_folder(const fs::path& folder) {
  if (const auto taken = take_away(folder)) {
    std::error_code ignored;  // what cannot be removed stays as abandoned
    fs::remove_all(*taken, ignored);
  }
}

bool is_abandoned(const fs::path& temporary) {
  constexpr std::time_t kUnchanged = 3600;  // seconds; also more than the clocks of two hosts differ
  if (const pid_t writer = local_writer(temporary); writer > 0) return ::kill(writer, 0) != 0 && errno == ESRCH;
  return std::time(nullptr) - last_change(temporary) > kUnchanged;
}

}  // namespace normlab
