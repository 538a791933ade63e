// A temporary folder.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "experiments/lab/base/files.h"

namespace normlab {

/// This process's folder below the system's temporary folder; the destructor removes it and its contents.
class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / (name + "-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    make_folders(path_);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace normlab
