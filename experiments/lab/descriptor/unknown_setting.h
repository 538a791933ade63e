// The message for an unknown key in a descriptor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// Lists the paths of settings that end in this key if there are only a few; otherwise as unknown_key().
std::string unknown_setting(std::string_view key, const std::vector<std::string_view>& candidates);

}  // namespace normlab
