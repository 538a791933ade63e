#include "experiments/lab/bench/print.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

namespace normlab {
namespace {

using Json = nlohmann::ordered_json;

/// Words in place of a key, or of its ending. Other keys say their unit themselves.
constexpr std::pair<std::string_view, std::string_view> kWords[] = {
    {"whole_ms", "step of the whole network, ms"},
    {"on_features_ms", "step on stored features, ms"},
    {"rest_ms", "lanes, clipping, update and the rest, ms"},
    {"bandwidth_gb_per_second", "GB/s"},
    {"images_per_second", "images/s"},
    {"gb_per_second", "GB/s"},
    {"gflops", "GFLOP/s"},
    {"share_of_step", "% of step"},
    {"share", "share %"},
    {"mb", "MB"},
    {"parameters", "params"},
};

std::string title_of(std::string title) {
  for (const auto& [ending, words] : kWords) {
    if (!title.ends_with(ending)) continue;
    title.replace(title.size() - ending.size(), title.npos, words);
    break;
  }
  std::replace(title.begin(), title.end(), '_', ' ');
  return title;
}

/// Numbers with four digits, ratios with three decimals.
std::string cell(const std::string& key, const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return value.get<std::string>();
  const double number = value.get<double>();
  if (key.find("share") != key.npos) return fmt::format("{:.1f}", 100 * number);
  if (key.find("ratio") != key.npos) return fmt::format("{:.3f}", number);
  if (number >= 1e5) return scaled(number);
  if (value.is_number_integer() || number == 0) return fmt::format("{:.0f}", number);
  return fmt::format("{:.{}f}", number, std::clamp(3 - int(std::floor(std::log10(std::abs(number)))), 0, 4));
}

/// Rows that count the work of a call are shown with its rate.
Json with_rates(Json row) {
  for (const auto& [work, rate] : {std::pair{"flops", "gflops"}, std::pair{"bytes", "gb_per_second"}}) {
    if (!row.contains("ms") || !row.contains(work)) continue;
    if (!row.contains(rate)) row[rate] = row[work].get<double>() / row["ms"].get<double>() * 1e-6;
    if (row[work] == 0) row[rate] = "";
    row.erase(work);
  }
  return row;
}

/// The words of a title stand below each other, above a column.
std::string table_of(const Json& list) {
  std::vector<Json> rows;
  for (const Json& row : list) rows.push_back(with_rates(row));
  struct Column {
    std::vector<std::string> words;  // of the title, and the cells
    std::size_t head = 0, width = 0;
    bool left = false;
  };
  std::vector<Column> columns;
  std::size_t head = 0;
  for (const auto& [key, first] : rows.front().items()) {
    Column& column = columns.emplace_back();
    std::istringstream title(title_of(key));
    for (std::string word; title >> word;) column.words.push_back(word);
    head = std::max(head, column.head = column.words.size());
    for (const Json& row : rows) column.words.push_back(cell(key, row[key]));
    for (const std::string& word : column.words) column.width = std::max(column.width, word.size());
    column.left = first.is_string() && first != "";
  }
  std::string text;
  for (std::size_t line = 0; line < head + rows.size(); ++line) {
    for (const Column& c : columns) {
      const std::size_t above = head - c.head;
      const std::string word = line < above ? "" : c.words[line - above];
      const std::string gap(c.width - word.size(), ' ');
      text += (c.left ? word + gap : gap + word) + " ";
    }
    text.erase(text.find_last_not_of(' ') + 1) += "\n";
  }
  return text;
}

void add_lines(const Json& object, std::vector<std::pair<std::string, std::string>>& lines, std::string& tables) {
  for (const auto& [key, value] : object.items())
    if (value.is_object())
      add_lines(value, lines, tables);
    else if (value.is_array())
      tables += "\n" + table_of(value);
    else
      lines.emplace_back(title_of(key), cell(key, value));
}

}  // namespace

std::string scaled(double value) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P"};
  std::size_t i = 0;
  for (; value >= 999.5 && i + 1 < std::size(kPrefixes); ++i) value *= 1e-3;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kPrefixes[i]);
}

std::string bench_text(const Json& document) {
  std::vector<std::pair<std::string, std::string>> lines;
  std::string text, tables;
  add_lines(document, lines, tables);
  std::size_t width = 0;
  for (const auto& [title, value] : lines) width = std::max(width, title.size());
  for (const auto& [title, value] : lines) text += fmt::format("{:<{}}  {}\n", title, width, value);
  return text + tables;
}

}  // namespace normlab
