// The file that a user names with -o.
#pragma once

#include <filesystem>
#include <string_view>

namespace normlab {

/// Writes `bytes` where the user said: "-" is standard output. A device, pipe or socket is written to, and stays what
/// it is. A link leads to the file that is written. A regular file is replaced whole (write_atomically), and folders
/// above a new one are made. EnvironmentError where that fails.
void write_output(const std::filesystem::path& path, std::string_view bytes);

/// "wrote FILE" on standard error, unless FILE is standard output.
void tell_written(const std::filesystem::path& path);

}  // namespace normlab
