// Values of a tuning stage that are drawn rather than listed: random search.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "experiments/lab/descriptor/sweep.h"

namespace normlab {

/// [smallest, largest] of the drawn values.
using DrawRange = std::array<double, 2>;

struct Draw {
  std::optional<DrawRange> log_uniform, uniform;  // one of them
  std::uint64_t n = 0, seed = 0;
};
template <std::same_as<Draw> T>
constexpr auto rows_of(const T*) {
  constexpr Range kPositivePair{.low = 0, .low_open = true, .why = "a logarithm needs it"};
  return Fields{field("log_uniform", &T::log_uniform, "", kPositivePair), field("uniform", &T::uniform),
                field("n", &T::n, "", {.low = 1, .high = kMaxTrials, .expected = "a number from 1 to 100000"}).needed(),
                field("seed", &T::seed)};
}

/// `n` different values of three significant digits in the range, integers for a setting that is one: a function of the draw and the path alone, so that
/// keys with equal seeds are independent. Fewer if the range does not hold so many.
std::vector<double> drawn_values(const Draw& draw, std::string_view path);

/// An axis {"log_uniform": [smallest, largest], "n": 8} or {"uniform": ...}; without values after a problem.
Axis read_draw(const JsonMember& member, PlacementRows& rows, Problems& problems);

/// Writes the default seed into each draw of "tune", so that an archive states what was drawn.
void state_draw_seeds(JsonNode& root);

}  // namespace normlab
