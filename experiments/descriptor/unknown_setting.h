// What a reader of a descriptor is told of a key that is none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// The paths of the settings that end in this key, where there are some but few; otherwise as unknown_key().
std::string unknown_setting(std::string_view key, const std::vector<std::string_view>& candidates);

}  // namespace normlab
