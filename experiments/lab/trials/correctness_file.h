// The file correct.bits: which images of the evaluation slice a run classifies
// correctly (experiments/lab/metrics/correctness.h).
#pragma once

#include <filesystem>
#include <string_view>

#include "experiments/lab/metrics/correctness.h"

namespace normlab {

constexpr const char* kCorrectnessFile = "correct.bits";

/// Replaces `path` atomically with the line "normlab correct 1 <images> <data hash>", a newline and bits(). The folder
/// must exist. EnvironmentError if the file cannot be written.
void write_correctness(const std::filesystem::path& path, const Correctness& correctness);

/// InputError, with file and byte, if the file has another format or a later version, is too short or too long, or has
/// a bit set after the last image. EnvironmentError if it cannot be read.
Correctness read_correctness(const std::filesystem::path& path);
/// The same for the file's bytes.
Correctness parse_correctness(std::string_view text, const std::filesystem::path& path);

}  // namespace normlab
