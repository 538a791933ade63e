// correct.bits: which images of the evaluation slice a run gets right (experiments/statistics/correctness.h), as a
// file.
#pragma once

#include <filesystem>
#include <string_view>

#include "experiments/statistics/correctness.h"

namespace normlab {

/// Name of the file in an attempt's folder.
constexpr const char* kCorrectnessFile = "correct.bits";

/// Replaces `path` atomically: the line "normlab correct 1 <images> <data hash>" and a newline, then bits(). The folder
/// has to exist. EnvironmentError where it cannot be written.
void write_correctness(const std::filesystem::path& path, const Correctness& correctness);

/// InputError, with file and byte, for one that is no such file, of a later version, cut short or too long, or with a
/// bit set after the last image. EnvironmentError where it cannot be read.
Correctness read_correctness(const std::filesystem::path& path);
/// The same of the file's bytes.
Correctness parse_correctness(std::string_view text, const std::filesystem::path& path);

}  // namespace normlab
