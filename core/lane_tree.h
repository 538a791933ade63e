// The order in which the lanes' gradients are added: a balanced binary tree over lane numbers. The left half of n lanes
// is the largest power of two below n, the right half is the rest, and each half is again a tree. Seven lanes give
// ((0 + 1) + (2 + 3)) + ((4 + 5) + 6). An aligned group of lanes is one node, so a process that has only those lanes
// can send their sum.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "core/host_device.h"

namespace normlab {

inline constexpr std::int64_t kMostLanes = 8;

/// The sum of of(l) over the lanes kFirst to kFirst + kCount - 1.
template <int kCount, int kFirst = 0, class F>
[[gnu::always_inline]] constexpr auto lane_tree(const F& leaf) {
  if constexpr (kCount == 1) {
    return leaf(kFirst);
  } else {
    constexpr int kLower = int(std::bit_ceil(unsigned(kCount)) / 2);
    return lane_tree<kLower, kFirst>(leaf) + lane_tree<kCount - kLower, kFirst + kLower>(leaf);
  }
}

/// Calls f with `lanes` as an integral constant.
template <class F>
void with_lanes(std::int64_t lanes, F&& f) {
  [&]<int... kBefore>(std::integer_sequence<int, kBefore...>) {
    (void)((lanes == kBefore + 1 && (f(std::integral_constant<int, kBefore + 1>{}), true)) || ...);
  }
  (std::make_integer_sequence<int, int(kMostLanes)>{});
}

/// The same sum for a number of lanes known only at run time. of(l, total) writes lane l's value; T has operator+=.
template <class T, class F>
NORMLAB_HOST_DEVICE T lane_tree(std::int64_t lanes, const F& leaf) {
  T waiting[4];  // nodes waiting for their right sibling, the largest first
  static_assert(kMostLanes <= 8);
  int count = 0;
  for (std::int64_t l = 0; l < lanes; ++l) {
    leaf(l, waiting[count++]);
    for (std::int64_t left = l; left & 1; left >>= 1, --count) waiting[count - 2] += waiting[count - 1];
  }
  for (; count > 1; --count) waiting[count - 2] += waiting[count - 1];
  return waiting[0];
}

/// A node of the tree: the sum of lanes first to first + count - 1. Without a lane: none.
struct LaneNode {
  std::int64_t first = 0, count = 0;
};
/// Node `to` += node `from`, by their numbers.
struct LaneMerge {
  std::int64_t to, from;
};

/// Two of `nodes` that are siblings, if there are any: a left one has a power of two of lanes, and begins at a multiple
/// of twice as many.
inline std::optional<LaneMerge> sibling_nodes(std::span<const LaneNode> nodes, std::int64_t lanes) {
  for (std::size_t to = 0; to < nodes.size(); ++to)
    for (std::size_t from = 0; from < nodes.size(); ++from) {
      const LaneNode &left = nodes[to], &right = nodes[from];
      if (left.count == 0 || right.count == 0 || left.first % (2 * left.count) != 0) continue;
      if (right.first == left.first + left.count &&
          right.first + right.count == std::min(left.first + 2 * left.count, lanes))
        return LaneMerge{std::int64_t(to), std::int64_t(from)};
    }
  return std::nullopt;
}

/// Calls merge(LaneMerge) for the sums that make the tree of `lanes` out of the sums of whole subtrees, in order.
template <class F>
void for_merges(std::span<LaneNode> nodes, std::int64_t lanes, const F& merge) {
  while (const std::optional<LaneMerge> next = sibling_nodes(nodes, lanes)) {
    nodes[std::size_t(next->to)].count += nodes[std::size_t(next->from)].count;
    nodes[std::size_t(next->from)] = {};
    merge(*next);
  }
}

}  // namespace normlab
