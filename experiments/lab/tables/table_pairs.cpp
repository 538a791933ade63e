// --pairs all and --letters: every two rows of a strip.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/statistics/letters.h"
#include "experiments/lab/tables/table_parts.h"

namespace normlab {
namespace {

/// The rows of each strip, the baseline first; without strips all rows, but no means over benchmarks and no
/// external rows, whose seeds are not ours.
std::vector<std::vector<std::size_t>> families(const std::vector<TableLine>& lines,
                                               const std::vector<TableStrip>& strips) {
  std::vector<std::vector<std::size_t>> all;
  for (const TableStrip& strip : strips) {
    all.push_back({*strip.baseline});
    all.back().insert(all.back().end(), strip.rows.begin(), strip.rows.end());
  }
  if (!all.empty()) return all;
  all.emplace_back();
  for (const TableLine& line : lines)
    if (line.mean_of.empty() && line.external.empty()) all.back().push_back(line.plan_index);
  return all;
}

/// How often all intervals of 3 to 20 rows hold, as `normlab bench intervals --pairs` finds.
std::string_view pair_coverage(std::size_t seeds) {
  return seeds < 3 ? "91 to 100%" : seeds < 10 ? "94 to 100%" : "95%";
}

/// The best mean comes first.
void set_letters(std::vector<TableLine>& lines, std::vector<std::size_t> rows, const std::vector<TablePair>& pairs,
                 bool lower) {
  std::erase_if(rows, [&](std::size_t row) { return !lines[row].mean.value; });
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
    return (lower ? -1 : 1) * *lines[a].mean.value > (lower ? -1 : 1) * *lines[b].mean.value;
  });
  std::vector<std::pair<std::size_t, std::size_t>> different;
  for (const TablePair& pair : pairs)
    if (pair.differs) different.emplace_back(pair.other, pair.row);
  std::size_t next = 0;
  for (const LetterGroup& group : letter_groups(rows, different)) {
    const std::string letter = letter_of(next++);
    for (const std::size_t row : group) lines[row].letters += letter;
  }
}

std::string count_words(const std::vector<std::size_t>& counts) {
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return *least == *most ? fmt::format("{}", *least) : fmt::format("{} to {}", *least, *most);
}

}  // namespace

PairedRows compare_pairs(std::vector<TableLine>& lines, const std::vector<TableStrip>& strips,
                         const std::vector<StripRow>& rows, const TableOptions& options, ManyToOneOptions procedure) {
  PairedRows out;
  const auto all = families(lines, strips);
  const bool table = options.family == TableFamily::table && all.size() > 1;
  if (table)
    for (const auto& family : all) procedure.family_rows += family.size() * (family.size() - 1) / 2;
  std::vector<std::size_t> compared;
  std::size_t without = 0, fewest = 0;
  double narrowest = 0;
  std::vector<std::size_t> ends;  // of each family's pairs
  for (const auto& family : all) {
    std::vector<StripRow> values;
    for (const std::size_t row : family) values.push_back(rows[row]);
    const AllPairs found = all_pairs(values, procedure);
    compared.push_back(found.compared);
    for (const RowPair& pair : found.pairs) {
      const Comparison& d = pair.difference;
      TablePair& one = out.pairs.emplace_back();
      one.row = family[pair.b], one.other = family[pair.a], one.pairs = d.pairs;
      one.difference.value = d.gain, one.half_width.value = d.half_width;
      one.low.value = d.low, one.high.value = d.high, one.p.value = d.p;
      one.cut = d.cut, one.differs = d.differs;
      without += d.half_width ? 0 : 1;
      if (!d.half_width) continue;
      const std::size_t seeds = procedure.first_stage.empty() ? d.pairs : procedure.first_stage.size();
      fewest = fewest == 0 ? seeds : std::min(fewest, seeds);
      if (*d.half_width > 0) narrowest = narrowest > 0 ? std::min(narrowest, *d.half_width) : *d.half_width;
    }
    ends.push_back(out.pairs.size());
  }
  for (TablePair& pair : out.pairs) {
    const int decimals = honest_decimals(pair.difference, pair.half_width, pair.cut, pair.differs,
                                         narrowest > 0 ? decimals_for(narrowest) : 2);
    for (Figure* figure : {&pair.difference, &pair.low, &pair.high})
      if (figure->value) figure->text = signed_fixed(*figure->value, decimals);
    if (pair.half_width.value) pair.half_width.text = fixed(*pair.half_width.value, decimals);
    if (pair.p.value) pair.p.text = p_text(*pair.p.value);
  }
  if (options.letters)
    for (std::size_t f = 0; f < all.size(); ++f)
      set_letters(
          lines, all[f],
          {out.pairs.begin() + std::ptrdiff_t(f == 0 ? 0 : ends[f - 1]), out.pairs.begin() + std::ptrdiff_t(ends[f])},
          lower_is_better(options.metric));
  const auto add = [&](const char* key, std::string text) { out.sentences.push_back({key, std::move(text)}); };
  const std::string whole = all.size() == 1 ? "" : table ? " of the table" : " beside one baseline";
  if (table) compared = {std::accumulate(compared.begin(), compared.end(), std::size_t{0})};
  const std::string sign = lower_is_better(options.metric) ? ", positive where the row is lower" : "";
  if (fewest == 0)
    add("pairs", "No two rows share two seeds, so no pair can be told apart.");
  else if (options.letters)
    add("pairs",
        fmt::format("Letters: rows{} that share one cannot be told apart by Holm's test of all {} pairs{}, paired by "
                    "seed (compact letter display, Piepho, 2004). As they judge more pairs, a row marked * may share "
                    "a letter with its baseline.",
                    all.size() == 1 ? "" : " beside one baseline", count_words(compared), table ? whole : ""));
  else
    add("pairs",
        fmt::format("Pairs: row minus the other, paired by seed{}; {}; * leaves out 0; p by Holm's procedure.", sign,
                    std::ranges::max(compared) == 1
                        ? "each interval holds with 95%"
                        : fmt::format("all {} intervals{} hold together with {}", count_words(compared), whole,
                                      pair_coverage(fewest))));
  if (without > 0 && fewest > 0)
    add("pairs", fmt::format("{} no interval, as the rows share fewer than two seeds or their difference is the same "
                             "in each seed: they count as not told apart.",
                             without == 1 ? "1 pair has" : fmt::format("{} pairs have", without)));
  return out;
}

std::vector<TablePair> shown_pairs(const std::vector<TablePair>& pairs, const std::vector<TableLine>& lines) {
  std::set<std::size_t> shown;
  for (const TableLine& line : lines) shown.insert(line.plan_index);
  std::vector<TablePair> kept;
  std::copy_if(pairs.begin(), pairs.end(), std::back_inserter(kept),
               [&](const TablePair& pair) { return shown.contains(pair.row) && shown.contains(pair.other); });
  return kept;
}

}  // namespace normlab
