#include "experiments/cli/output_file.h"

#include <algorithm>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/base/files.h"
#include "experiments/base/terminal.h"

namespace normlab {
namespace {

bool is_inside(const std::filesystem::path& file, const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(folder, error);
  return !error && std::mismatch(whole.begin(), whole.end(), file.begin(), file.end()).first == whole.end();
}

}  // namespace

std::filesystem::path target_of(std::filesystem::path path) {
  std::error_code error;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(path, error); ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / target;  // an absolute target replaces the path
  }
  return path;
}

void require_output(const std::filesystem::path& path, const Inputs& inputs) {
  if (path == "-") return;
  std::error_code error;
  const std::filesystem::path target = std::filesystem::weakly_canonical(target_of(path), error);
  const std::filesystem::file_status status = std::filesystem::status(target, error);
  if (std::filesystem::is_other(status)) return;
  const auto refuse = [&](std::string_view what) {
    throw InputError(concat(path.string(), ": ", what, "; give another file to write"));
  };
  for (const std::filesystem::path& input : inputs) {
    if (!std::filesystem::exists(status)) break;
    if (std::filesystem::equivalent(target, input, error)) refuse("is read by this command, which would replace it");
    if (std::filesystem::is_directory(input, error) && is_inside(target, input))
      refuse(concat("is in a folder that this command reads, ", input.string(), ", and would be replaced"));
  }
  for (std::filesystem::path folder = target.parent_path(); folder.has_relative_path(); folder = folder.parent_path())
    if (folder.parent_path().filename() == "trials" && std::filesystem::exists(folder / "config.json", error))
      refuse("is in the folder of a trial, which keeps only what the trial wrote");
}

void write_output(const std::filesystem::path& path, std::string_view bytes, const Inputs& inputs) {
  require_output(path, inputs);
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
