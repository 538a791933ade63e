// Letters for all pairs of rows: rows that share one cannot be told apart.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace normlab {

/// Rows, as indices; two rows of a group do not differ, and any two that do not differ share a group.
using LetterGroup = std::vector<std::size_t>;

/// Piepho, "An algorithm for a letter-based representation of all-pairwise comparisons", Journal of Computational and
/// Graphical Statistics 13 (2004): insert and absorb, then sweep out what other groups show too. `order` holds each of
/// its rows once, and groups come in the order of their rows. InputError beyond 1000 groups.
std::vector<LetterGroup> letter_groups(std::span<const std::size_t> order,
                                       std::span<const std::pair<std::size_t, std::size_t>> different);

/// "a" to "z", "A" to "Z", then "(53)".
std::string letter_of(std::size_t group);

}  // namespace normlab
