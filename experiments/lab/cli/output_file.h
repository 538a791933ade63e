// The files that a command writes.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace normlab {

/// The files that a command reads; a folder stands for all files that it has.
using Inputs = std::vector<std::filesystem::path>;

/// InputError if `path`, or the target of a link, is a folder, is one of `inputs` or lies in the folder of a trial,
/// OUT/trials/ID. Allows "-" and what is_stream(). Paths in `inputs` may be empty or missing.
void require_output(const std::filesystem::path& path, const Inputs& inputs);

/// write_file_or_stream(), where "-" is standard output. InputError as require_output(), EnvironmentError on failure.
void write_output(const std::filesystem::path& path, std::string_view bytes, const Inputs& inputs);

/// For a file that is written once and then edited: InputError if it exists and is no stream.
void require_new_output(const std::filesystem::path& path);
/// write_output() for such a file, which only one of several processes writes.
void write_new_output(const std::filesystem::path& path, std::string_view bytes);

/// Prints "wrote FILE" to standard error, unless FILE is standard output.
void tell_written(const std::filesystem::path& path);

}  // namespace normlab
