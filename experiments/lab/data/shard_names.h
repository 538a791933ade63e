// Shard file names such as "pets-train-{0000..0146}.tar".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// Commas separate names; `{a..b}` is each number from a to b, zero-padded if a or b is, and `{x,y}` is each of the
/// words; of several braces the last varies fastest. InputError: an empty name, nested or unbalanced braces,
/// numbers that decrease, are not decimal or, if zero-padded, differ in length, a name outside the folder, a
/// duplicate, more than 100,000 names.
std::vector<std::string> expand_shard_names(std::string_view text);

}  // namespace normlab
