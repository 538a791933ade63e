// The output file of -o.
#pragma once

#include <filesystem>
#include <string_view>

namespace normlab {

/// "-" is standard output. Devices, pipes and sockets are written to in place; links are followed. A regular file is
/// replaced atomically (write_atomically), with missing folders created. EnvironmentError on failure.
void write_output(const std::filesystem::path& path, std::string_view bytes);

/// Prints "wrote FILE" to standard error, unless FILE is standard output.
void tell_written(const std::filesystem::path& path);

}  // namespace normlab
