// Merging of `extends`, `--set` and a sweep's values.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/descriptor/json_tree.h"
#include "experiments/lab/descriptor/problems.h"

namespace normlab {

/// The step of a path that stands for any number of steps.
inline constexpr std::string_view kAnySteps = "**";

/// Lays `child` over `base`: objects are merged key by key, anything else is replaced. Replaced as a whole are a
/// placement, a layer scale, a row of "placements", "sweep", "exclude", "seeds", "tuned_for", "baseline" and
/// "benchmarks". If two keys mean the same (epochs and steps), the child's removes the base's.
void merge_over(JsonNode& base, const JsonNode& child);

/// Puts `value` at a dotted path and creates missing objects. A name on the way becomes the object that it abbreviates
/// ("dpn" becomes {"base": "dpn"}). In a placement, a path with kAnySteps is one key. `key_at` is where the path was
/// written. Returns "", or the problem if a step of the path holds a value without keys.
std::string set_path(JsonNode& root, std::string_view path, const JsonNode& value, const Position& key_at);

/// The descriptor merged with everything it extends. `files` receives every file read, the descriptor first. InputError
/// for a file that is unreadable, not regular or not JSON, that extends itself, or that builds on more than 63 others.
JsonNode load_merged(const std::filesystem::path& file, Sources& sources, Problems& problems,
                     std::vector<std::filesystem::path>& files);

/// Applies "path=value" settings and returns their paths. A value is JSON, or otherwise a string.
std::vector<std::string> apply_sets(JsonNode& root, std::span<const std::string> sets, Sources& sources,
                                    Problems& problems);

/// Whether a dotted path has the form of `pattern`, in which the step "**" stands for any number of steps.
bool has_form(std::string_view path, std::string_view pattern);
inline bool is_pattern(std::string_view path) { return path.find(kAnySteps) != path.npos; }

/// True if `path` is `prefix` or inside it.
bool is_within(std::string_view path, std::string_view prefix);

}  // namespace normlab
