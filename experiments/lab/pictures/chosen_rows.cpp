#include "experiments/lab/pictures/chosen_rows.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/text_layout.h"

namespace normlab {

void choose_rows(TableModel& table, const std::vector<std::string>& words, RowWords known) {
  std::map<std::string, std::set<std::string>> named;  // a word's rows
  for (const TableLine& line : table.lines) {
    named[line.label].insert(line.label);
    for (std::size_t begin = 0, end; begin <= line.label.size(); begin = end + 2) {
      end = std::min(line.label.find(", ", begin), line.label.size());
      const std::string part = line.label.substr(begin, end - begin);
      named[part].insert(line.label);
      if (const auto equals = part.find('='); equals != part.npos) named[part.substr(equals + 1)].insert(line.label);
    }
  }
  std::vector<std::string> pieces;
  for (std::string word : words) {
    word.erase(0, word.find_first_not_of(' '));
    pieces.push_back(std::move(word));
  }
  std::set<std::string> chosen;
  for (auto from = pieces.begin(), to = from; from != pieces.end(); from = to) {
    // The longest run of pieces that is a label, or else one piece.
    for (to = pieces.end(); to - from > 1 && !named.contains(joined({from, to}, ", ")); --to) {
    }
    const auto rows = named.find(joined({from, to}, ", "));
    if (rows != named.end()) {
      chosen.insert(rows->second.begin(), rows->second.end());
    } else if (known == RowWords::of_this_table) {
      std::vector<std::string_view> candidates;
      for (const auto& entry : named) candidates.push_back(entry.first);
      throw InputError("--rows: " + unknown_word("row", *from, candidates));
    }
  }
  std::set<std::size_t> baselines;
  for (const TableLine& line : table.lines)
    if (chosen.contains(line.label) && line.baseline) baselines.insert(*line.baseline);
  std::erase_if(table.lines, [&](const TableLine& line) {
    return !chosen.contains(line.label) && !(line.is_baseline && baselines.contains(line.plan_index));
  });
}

}  // namespace normlab
