#include "experiments/lab/statistics/letters.h"

#include <algorithm>
#include <functional>

#include "core/error.h"

namespace normlab {
namespace {

constexpr std::size_t kMostGroups = 1000;

/// Whether each place of the order is in the group.
using Members = std::vector<bool>;

bool is_within(const Members& inner, const Members& outer) {
  for (std::size_t i = 0; i < inner.size(); ++i)
    if (inner[i] && !outer[i]) return false;
  return true;
}

/// Adds the group unless another holds it, and removes those that it holds.
void absorb(std::vector<Members>& groups, Members group) {
  if (std::any_of(groups.begin(), groups.end(), [&](const Members& g) { return is_within(group, g); })) return;
  std::erase_if(groups, [&](const Members& g) { return is_within(g, group); });
  groups.push_back(std::move(group));
}

/// Whether other groups connect the place with all that this group connects it with.
bool is_redundant(const std::vector<Members>& groups, std::size_t group, std::size_t place) {
  for (std::size_t other = 0; other < groups[group].size(); ++other) {
    if (!groups[group][other]) continue;
    bool shown = false;
    for (std::size_t g = 0; g < groups.size() && !shown; ++g)
      shown = g != group && groups[g][place] && groups[g][other];
    if (!shown) return false;
  }
  return true;
}

}  // namespace

std::vector<LetterGroup> letter_groups(std::span<const std::size_t> order,
                                       std::span<const std::pair<std::size_t, std::size_t>> different) {
  const auto place_of = [&](std::size_t row) {
    return std::size_t(std::find(order.begin(), order.end(), row) - order.begin());
  };
  std::vector<Members> groups{Members(order.size(), true)};
  for (const auto& [one, two] : different) {
    const std::size_t a = place_of(one), b = place_of(two);
    std::vector<Members> split;
    for (const Members& group : groups)
      if (group[a] && group[b]) split.push_back(group);
    std::erase_if(groups, [&](const Members& group) { return group[a] && group[b]; });
    for (const Members& group : split)
      for (const std::size_t without : {a, b}) {
        Members rest = group;
        rest[without] = false;
        absorb(groups, std::move(rest));
      }
    if (groups.size() > kMostGroups)
      throw InputError(concat("these rows need more than ", kMostGroups, " letters; compare fewer rows"));
  }
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (std::size_t place = 0; place < order.size(); ++place)
      if (groups[g][place] && is_redundant(groups, g, place)) groups[g][place] = false;
  std::erase_if(groups,
                [](const Members& group) { return std::find(group.begin(), group.end(), true) == group.end(); });
  std::sort(groups.begin(), groups.end(), std::greater<>());
  std::vector<LetterGroup> rows;
  for (const Members& group : groups) {
    rows.emplace_back();
    for (std::size_t place = 0; place < group.size(); ++place)
      if (group[place]) rows.back().push_back(order[place]);
  }
  return rows;
}

std::string letter_of(std::size_t group) {
  if (group < 26) return std::string(1, char('a' + group));
  if (group < 52) return std::string(1, char('A' + group - 26));
  return concat("(", group + 1, ")");
}

}  // namespace normlab
