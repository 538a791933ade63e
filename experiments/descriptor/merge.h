// Trees put on top of trees: `extends`, `--set` and the values of a sweep.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/descriptor/json_tree.h"
#include "experiments/descriptor/problems.h"

namespace normlab {

/// Lays `child` over `base`: objects are merged key by key, everything else is replaced. A placement, a row of
/// "placements", "sweep", "exclude", "seeds" and "baseline" are replaced whole. Where two keys say the same thing
/// (epochs and steps), the child's removes the base's.
void merge_over(JsonNode& base, const JsonNode& child);

/// Puts `value` at a dotted path, making objects on the way; a name that stood there becomes the object it is short for
/// ("dpn" becomes {"base": "dpn"}). `key_at` is where the path was written. Says why it cannot where a step of the path
/// holds something that has no keys; otherwise "".
std::string set_path(JsonNode& root, std::string_view path, const JsonNode& value, const Position& key_at);

/// The descriptor with what it extends merged in and "extends" gone. `files` receives every file that was read, the
/// descriptor first. InputError for a file that cannot be read, is no regular file or no
/// JSON, extends itself, or stands on more than 63 others.
JsonNode load_merged(const std::filesystem::path& file, Sources& sources, Problems& problems,
                     std::vector<std::filesystem::path>& files);

/// Applies "path=value" settings, each value parsed as JSON and otherwise taken as a string. Returns their paths.
std::vector<std::string> apply_sets(JsonNode& root, std::span<const std::string> sets, Sources& sources,
                                    Problems& problems);

/// True where `path` is `prefix` or lies inside it.
bool is_within(std::string_view path, std::string_view prefix);

}  // namespace normlab
