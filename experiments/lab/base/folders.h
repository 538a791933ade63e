// Folders that appear whole: made under a temporary name, then exchanged with what had their place. None is ever
// deleted under a name that another process may use.
#pragma once

#include <algorithm>
#include <filesystem>
#include <vector>

namespace normlab {

/// Whether the path is the folder or lies in it. Both canonical.
inline bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

/// A new folder beside `target`, under a name that only this process uses; removed at the end of its life unless it was
/// renamed. EnvironmentError if it cannot be created.
class TemporaryFolderBeside {
 public:
  explicit TemporaryFolderBeside(const std::filesystem::path& target);
  TemporaryFolderBeside(const TemporaryFolderBeside&) = delete;
  TemporaryFolderBeside& operator=(const TemporaryFolderBeside&) = delete;
  ~TemporaryFolderBeside();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Exchanges what two names stand for, in one step: 0 or the error number.
int exchange_names(const std::filesystem::path& a, const std::filesystem::path& b);
/// Whether that error says that the file system cannot do it, as NFS cannot.
bool refuses_exchange(int error_number);

/// Syncs the folder and all folders in it.
void sync_folders_below(const std::filesystem::path& folder);

/// Removes a folder with all its files, after renaming it, so that no process finds half of it.
void remove_folder(const std::filesystem::path& folder);

/// Whether the writer of a temporary file or folder is gone: a process of this host that has ended. Of other hosts and
/// of earlier versions, which left no process id: whether nothing in it has changed for an hour.
bool is_abandoned(const std::filesystem::path& temporary);

}  // namespace normlab
