#include "experiments/lab/base/suggest.h"

#include <algorithm>

#include "core/visible_text.h"

namespace normlab {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }

constexpr std::size_t kLongestWord = 64;  // typing errors are shorter, and the distance takes quadratic time
constexpr std::size_t kFew = 12;

std::string hint(std::string_view word, const std::vector<std::string_view>& candidates) {
  if (const std::string_view near = nearest(word, candidates); !near.empty())
    return "; did you mean " + in_quotes(near) + "?";
  if (candidates.empty() || candidates.size() > kFew) return "";
  std::string list = "; one of: ";
  for (std::size_t i = 0; i < candidates.size(); ++i) list += (i > 0 ? ", " : "") + shown(candidates[i]);
  return list;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the edit distance table; the third is for swaps.
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1]))
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  if (word.size() > kLongestWord) return {};
  std::size_t best = std::string_view::npos;
  std::string_view found;
  for (const std::string_view candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best || distance > std::max<std::size_t>(1, std::max(word.size(), candidate.size()) / 3)) continue;
    best = distance;
    found = candidate;
  }
  if (!found.empty() || word.size() < 4) return found;
  // A word may stand for the only one that begins with it, as "patch" for "patch_size".
  for (const std::string_view candidate : candidates) {
    const bool begins = candidate.size() > word.size() && edit_distance(word, candidate.substr(0, word.size())) == 0;
    if (!begins || candidate[word.size()] != '_') continue;
    if (!found.empty()) return {};
    found = candidate;
  }
  return found;
}

std::string unknown_word(std::string_view thing, std::string_view word,
                         const std::vector<std::string_view>& candidates) {
  return "unknown " + std::string(thing) + " " + in_quotes(word) + hint(word, candidates);
}

std::string unknown_key(std::string_view key, const std::vector<std::string_view>& candidates) {
  return "unknown key" + hint(key, candidates);
}

}  // namespace normlab
