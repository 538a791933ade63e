// "did you mean": the nearest valid word.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`, ignoring case.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The nearest candidate within a third of the longer word's length, otherwise the only one that begins with the word and
/// an underscore, or "".
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

/// `unknown <thing> "<word>"; did you mean "..."?`, or the candidates if none is near and they are few.
std::string unknown_word(std::string_view thing, std::string_view word,
                         const std::vector<std::string_view>& candidates);

/// The same for a key that the message's JSON pointer already names.
std::string unknown_key(std::string_view key, const std::vector<std::string_view>& candidates);

}  // namespace normlab
