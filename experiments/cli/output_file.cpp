#include "experiments/cli/output_file.h"

#include "experiments/base/files.h"
#include "experiments/base/terminal.h"

namespace normlab {
namespace {

/// The target of a link, even if it does not exist yet.
std::filesystem::path target_of(std::filesystem::path path) {
  std::error_code error;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(path, error); ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / target;  // an absolute target replaces the path
  }
  return path;
}

}  // namespace

void write_output(const std::filesystem::path& path, std::string_view bytes) {
  if (path == "-") return print_bytes(bytes);
  const std::filesystem::path target = target_of(path);
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(target, error);
  if (std::filesystem::is_other(status)) return write_through(target, bytes);
  if (target.has_parent_path()) make_folders(target.parent_path());
  write_atomically(target, bytes);
}

void tell_written(const std::filesystem::path& path) {
  if (path != "-") tell("wrote {}\n", path.string());
}

}  // namespace normlab
