// Gives a file a name only if no other process has used that name, by link(2), or by exclusive creation where the file
// system has no hard links.
#pragma once

#include <filesystem>
#include <string>

namespace normlab {

/// Marks a results folder that a host without hard links has used, so that all hosts use exclusive creation there.
inline constexpr const char* kExclusiveCreationFile = "exclusive-creation";

/// Finds out at the start of a run what the file system of `out` supports. This process and its forks then use that
/// method. Creates `out`. Returns a message for the user, empty if hard links work. EnvironmentError if the file system
/// has neither hard links nor exclusive creation.
std::string choose_first_wins(const std::filesystem::path& out);

enum class Placed {
  yes,    // the file has this name and no other
  taken,  // `path` existed and is unchanged
  gone    // another process removed the file as an abandoned temporary
};

/// Gives the complete, synced file `temporary` the name `path` in the same folder, unless `path` exists. Readers see
/// all of the file or none. Without choose_first_wins(), a refused link switches this process to exclusive creation.
/// EnvironmentError on a system failure.
Placed place(const std::filesystem::path& temporary, const std::filesystem::path& path);

}  // namespace normlab
