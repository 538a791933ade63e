#include "experiments/lab/cli/output_file.h"

#include <unistd.h>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/folders.h"
#include "experiments/lab/base/terminal.h"

namespace normlab {
namespace {

bool is_inside(const std::filesystem::path& file, const std::filesystem::path& folder) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::canonical(folder, error);
  return !error && lies_in(file, whole);
}

}  // namespace

void require_output(const std::filesystem::path& path, const Inputs& inputs) {
  if (path == "-" || is_stream(path)) return;
  std::error_code error;
  const std::filesystem::path target = std::filesystem::weakly_canonical(target_of(path), error);
  const std::filesystem::file_status status = std::filesystem::status(target, error);
  const auto refuse = [&](std::string_view what) {
    throw InputError(concat(shown(path.string()), ": ", what, "; give another file to write"));
  };
  if (std::filesystem::is_directory(status)) refuse("is a folder");
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
  if (path == "-" || named_stream(path) == STDOUT_FILENO) return print_bytes(bytes);  // after what is printed already
  write_file_or_stream(path, bytes);
}

[[noreturn]] static void refuse_existing(const std::filesystem::path& path) {
  throw InputError(concat(shown(path.string()), ": exists already; give another file with -o"));
}

void require_new_output(const std::filesystem::path& path) {
  std::error_code error;
  if (path != "-" && !is_stream(path) && std::filesystem::exists(path, error)) refuse_existing(path);
}

void write_new_output(const std::filesystem::path& path, std::string_view bytes) {
  if (path == "-" || is_stream(path)) return write_output(path, bytes, {});
  const std::filesystem::path target = target_of(path);
  if (target.has_parent_path()) make_folders(target.parent_path());
  if (!publish(target, bytes)) refuse_existing(path);
}

void tell_written(const std::filesystem::path& path) {
  if (path != "-") tell("wrote {}\n", path.string());
}

}  // namespace normlab
