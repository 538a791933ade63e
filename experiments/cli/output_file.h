// The files that a command writes.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace normlab {

/// The files that a command reads; a folder stands for all files that it has.
using Inputs = std::vector<std::filesystem::path>;

/// The target of a link, even if it does not exist yet; `path` if it is not a link. What replaces a file replaces this.
std::filesystem::path target_of(std::filesystem::path path);

/// InputError if `path`, or the target of a link, is one of `inputs` or lies in the folder of a trial,
/// OUT/trials/ID. Allows "-", devices, pipes and sockets. Paths in `inputs` may be empty or missing.
void require_output(const std::filesystem::path& path, const Inputs& inputs);

/// "-" is standard output. Devices, pipes and sockets are written to in place; links are followed. A regular file is
/// replaced atomically (write_atomically), with missing folders created. InputError as require_output(),
/// EnvironmentError on failure.
void write_output(const std::filesystem::path& path, std::string_view bytes, const Inputs& inputs);

/// Prints "wrote FILE" to standard error, unless FILE is standard output.
void tell_written(const std::filesystem::path& path);

}  // namespace normlab
