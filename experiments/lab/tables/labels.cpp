#include "experiments/lab/tables/labels.h"

#include <algorithm>

#include "experiments/lab/descriptor/condition.h"

namespace normlab {
namespace {

using Labels = std::map<std::string, std::string>;

bool is_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '/' || c == '.';
}

/// Replaces whole words only, the longest that fits, and nothing in what it has put in. A point may end a sentence.
std::string replaced(const std::string& text, const Labels& names) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const Labels::value_type* found = nullptr;
    for (const auto& entry : names) {
      const std::size_t end = at + entry.first.size();
      const bool begins = at == 0 || !is_of_word(text[at - 1]),
                 ends = end >= text.size() || !is_of_word(text[end]) ||
                        (text[end] == '.' && (end + 1 == text.size() || text[end + 1] == ' '));
      if (begins && ends && text.compare(at, entry.first.size(), entry.first) == 0 &&
          (found == nullptr || entry.first.size() > found->first.size()))
        found = &entry;
    }
    if (found == nullptr) {
      out += text[at++];
      continue;
    }
    out += found->second;
    at += found->first.size();
  }
  return out;
}

}  // namespace

std::string shown_name(const std::string& name, const Labels& labels) {
  if (const auto whole = labels.find(name); whole != labels.end()) return whole->second;
  std::string out;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find(", ", begin), name.size());
    const std::string part = name.substr(begin, end - begin);
    const std::size_t value = part.find('=') + 1;  // 0: no "="
    const auto label = value == 0 ? labels.end() : labels.find(part.substr(value));
    out += (begin == 0 ? "" : ", ") + (label == labels.end() ? part : part.substr(0, value) + label->second);
    begin = end + 2;
  }
  return out;
}

/// Of an external row what follows "timm: ".
static std::string name_in(const TableLine& line, const std::string& name, const Labels& labels) {
  const std::string theirs = line.external.empty() ? "" : line.external + ": ";
  return name.starts_with(theirs) ? theirs + shown_name(name.substr(theirs.size()), labels) : shown_name(name, labels);
}

TableModel with_labels(TableModel model) {
  if (model.labels.empty()) return model;
  const auto show = [&](std::string& name) { name = shown_name(name, model.labels); };
  Labels metrics, rows, strips;           // as sentences name them
  for (const auto& entry : model.labels)  // a table may name a second metric, as --lr-sensitivity does
    if (entry.first == model.metric || entry.first.find('/') != entry.first.npos) metrics.insert(entry);
  const auto show_and_note = [&](std::string& name, Labels& notes) {
    const std::string before = name;
    show(name);
    if (name != before && !parse_number(before)) notes[before] = name;  // a number may be any other number there
  };
  for (TableLine& line : model.lines) {
    for (std::string& name : line.axes) name = name_in(line, name, model.labels);
    if (line.external.empty())
      show_and_note(line.label, rows);
    else
      line.label = name_in(line, line.label, model.labels);
  }
  for (TableStrip& strip : model.strips) show_and_note(strip.label, strips);
  for (const Labels& names : {metrics, strips}) rows.insert(names.begin(), names.end());
  strips.insert(metrics.begin(), metrics.end());
  for (TableColumn& column : model.columns) {
    if (column.key.starts_with("col:")) show(column.heading);
    column.heading = replaced(column.heading, metrics);
  }
  for (TableGridRow& row : model.grid)
    for (std::size_t c = 0; c < row.cells.size(); ++c)
      if (std::string& name = row.cells[c].value; model.columns[c].kind == ColumnKind::label)
        name = name_in(model.lines[row.lines.front()], name, model.labels);
  constexpr std::string_view kOfNumbers[] = {"interval", "gain", "chance", "power", "detect", "sd", "selection"};
  for (TableSentence& sentence : model.footer) {
    if (sentence.key == "where") continue;  // what was asked for
    // Sentences about numbers name no row, but words that a row may have for a name, such as "best".
    const bool numbers = std::find(std::begin(kOfNumbers), std::end(kOfNumbers), sentence.key) != std::end(kOfNumbers);
    sentence.text = replaced(sentence.text, numbers ? strips : rows);
  }
  return model;
}

void show_labels(Experiment& experiment) {
  for (Cell& row : experiment.rows) {
    const std::string before = row.label;
    row.label = shown_name(before, experiment.labels);
    for (Trial& trial : experiment.trials)
      if (trial.label.starts_with(before + ",") && &experiment.rows[trial.row] == &row)
        trial.label.replace(0, before.size(), row.label);
  }
}

}  // namespace normlab
