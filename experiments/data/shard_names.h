// File names of shards as people write them: "pets-train-{0000..0146}.tar".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// The names that `text` stands for, in its order. Commas separate names; `{a..b}` is each number from a to b, with
/// zeros in front where a or b has one, and `{x,y}` each of the words; several braces multiply, the last one turning
/// fastest. InputError: an empty name, a brace within a brace or without its partner, numbers that fall, are not
/// decimal or, with zeros in front, not equally long, a name that leaves the folder, one that comes twice, more than
/// 100,000.
std::vector<std::string> expand_shard_names(std::string_view text);

}  // namespace normlab
