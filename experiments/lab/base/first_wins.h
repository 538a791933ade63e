// Gives a file a name that no other process has used: by link(2), or by exclusive creation without hard links.
#pragma once

#include <filesystem>
#include <string>

namespace normlab {

/// In a results folder: a host without hard links has used it, so all hosts use exclusive creation.
inline constexpr const char* kExclusiveCreationFile = "exclusive-creation";

/// Finds out what the file system of `out` supports, for this process and its forks; creates `out`. Returns a message
/// for the user, empty with hard links. EnvironmentError if neither method works.
std::string choose_first_wins(const std::filesystem::path& out);

enum class Placed {
  yes,    // the file has this name and no other
  taken,  // `path` existed and is unchanged
  gone    // another process removed the file as an abandoned temporary
};

/// Gives the complete, synced file `temporary` the name `path` in the same folder, unless `path` exists. Readers see
/// all or none of it. Without choose_first_wins(), a refused link switches this process to exclusive creation.
/// EnvironmentError on a system failure.
Placed place(const std::filesystem::path& temporary, const std::filesystem::path& path);

}  // namespace normlab
