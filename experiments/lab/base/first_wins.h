// Gives a file a name that no other process has used: by link(2), or by exclusive creation without hard links.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace normlab {

/// In a results folder: a host without hard links has used it, so all hosts use exclusive creation.
inline constexpr const char* kExclusiveCreationFile = "exclusive-creation";

/// How the processes of a run give new files their names.
struct FirstWins {
  enum class Way : std::uint8_t { untried, link, creation };
  Way way = Way::untried;          // untried: by a link, or where that is refused by exclusive creation
  std::filesystem::path marker{};  // link: kExclusiveCreationFile, which another host may write at any time
  std::string notice{};            // for the user; empty with hard links
};

/// Finds out what the file system of `out` supports; creates `out`. EnvironmentError if neither way works.
FirstWins choose_first_wins(const std::filesystem::path& out);

enum class Placed {
  yes,    // the file has this name and no other
  taken,  // `path` existed and is unchanged
  gone    // another process removed the file as an abandoned temporary
};

/// Gives the complete, synced file `temporary` the name `path` in the same folder, unless `path` exists. Readers see
/// all or none of it. EnvironmentError on a system failure, and where links are refused that were made at first.
Placed place(const std::filesystem::path& temporary, const std::filesystem::path& path, const FirstWins& by);

}  // namespace normlab
