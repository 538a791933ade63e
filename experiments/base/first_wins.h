// How a file gets its name only where no other process has given that name to another file: by link(2), or by exclusive
// creation where the file system has no hard links.
#pragma once

#include <filesystem>
#include <string>

namespace normlab {

/// In a folder of results: hosts without hard links have been here, so that all agree by exclusive creation.
inline constexpr const char* kExclusiveCreationFile = "exclusive-creation";

/// Finds out at the start of a run what the file system of `out` can do, and holds this process and those it forks to
/// it. Creates `out`. Returns what there is to tell the user, empty where hard links do. EnvironmentError where it has
/// neither hard links nor exclusive creation.
std::string choose_first_wins(const std::filesystem::path& out);

enum class Placed {
  yes,    // the file has its name, and no other
  taken,  // `path` was there already, and is as it was
  gone    // another process has removed the file, as a temporary that was left behind
};

/// Gives the whole and synced file `temporary` the name `path` in the same folder, unless that is there. Readers see
/// none or all of it. Without choose_first_wins() a refused link makes this process take exclusive creation.
/// EnvironmentError where the system fails.
Placed place(const std::filesystem::path& temporary, const std::filesystem::path& path);

}  // namespace normlab
