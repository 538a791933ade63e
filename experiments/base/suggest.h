// "did you mean": the nearest of the words that would have been right.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// Insertions, deletions, replacements and swaps of neighbours that lead from `a` to `b`; letter case is free.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The nearest candidate within a third of the longer word's length, or "".
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

/// `unknown <thing> "<word>"; did you mean "..."?`, or with the candidates listed where none is near and they are few.
std::string unknown_word(std::string_view thing, std::string_view word,
                         const std::vector<std::string_view>& candidates);

/// The same for a key, whose name the JSON pointer has already said.
std::string unknown_key(std::string_view key, const std::vector<std::string_view>& candidates);

}  // namespace normlab
