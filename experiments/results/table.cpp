#include "experiments/results/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/results/table_numbers.h"
#include "experiments/results/text_layout.h"

namespace normlab {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kGap = 2;  // spaces between columns

std::string padded(const std::string& text, std::size_t columns) {
  return text + std::string(columns - std::min(columns, display_width(text)), ' ');
}

std::string with_interval(const std::string& value, const std::string& half_width) {
  return half_width.empty() ? value : value + " ±" + half_width;
}

std::string gain_text(const TableLine& line) {
  return line.is_baseline && line.gain.empty() ? "baseline" : with_interval(line.gain, line.gain_half_width);
}

std::string notes_text(const TableLine& line) { return joined(line.notes, ", "); }

/// Values to the right under each other, intervals to the left: "76.1  ±0.4 " and "  +1.2 ±0.4".
std::vector<std::string> aligned(const std::vector<std::pair<std::string, std::string>>& cells) {
  std::size_t left = 0;
  for (const auto& [value, half_width] : cells) left = std::max(left, display_width(value));
  std::vector<std::string> result;
  for (const auto& [value, half_width] : cells)
    result.push_back(value.empty() ? ""
                                   : std::string(left - display_width(value), ' ') + with_interval(value, half_width));
  return result;
}

std::string render_text(const TableNumbers& table) {
  std::vector<std::vector<std::string>> columns(4);
  std::vector<std::pair<std::string, std::string>> means, gains;
  for (const TableLine& line : table.lines) {
    columns[0].push_back(line.label);
    means.emplace_back(line.mean, line.half_width);
    columns[2].push_back(line.n);
    gains.emplace_back(line.gain, line.gain_half_width);
  }
  columns[1] = aligned(means);
  columns[3] = aligned(gains);
  for (std::size_t i = 0; i < table.lines.size(); ++i)
    if (columns[3][i].empty()) columns[3][i] = gain_text(table.lines[i]);
  const std::string headings[] = {"row", table.heading, "n", "gain"};
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    widths.push_back(display_width(headings[c]));
    for (const std::string& cell : columns[c]) widths[c] = std::max(widths[c], display_width(cell));
  }
  std::size_t longest_note = 0;
  for (const TableLine& line : table.lines) longest_note = std::max(longest_note, display_width(notes_text(line)));
  // Labels give way to notes down to a third of the line; longer notes go on in the next line.
  const std::size_t numbers = widths[1] + widths[2] + widths[3] + 3 * kGap;
  const std::size_t notes_wanted = longest_note == 0 ? 0 : std::clamp<std::size_t>(longest_note, 5, 20) + kGap;
  const std::size_t room = kColumns - std::min(kColumns, numbers + notes_wanted);
  widths[0] = std::min(widths[0], std::max<std::size_t>(room, 8));
  const std::size_t notes_begin = widths[0] + numbers + kGap;
  const std::size_t notes_width = std::max<std::size_t>(kColumns - std::min(kColumns, notes_begin), 8);

  std::string text;
  const auto put_line = [&](std::string line) {
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  };
  const auto row_text = [&](auto&& cell, const std::string& note) {
    std::string line;
    for (std::size_t c = 0; c < columns.size(); ++c) line += padded(cell(c), widths[c] + kGap);
    return line + note;
  };
  if (!table.about.empty()) {
    for (const std::string& line : wrapped(table.about, kColumns)) put_line(line);
    text += "\n";
  }
  put_line(row_text([&](std::size_t c) { return headings[c]; }, longest_note == 0 ? "" : "notes"));
  for (std::size_t i = 0; i < table.lines.size(); ++i) {
    const auto notes = wrapped(notes_text(table.lines[i]), notes_width);
    put_line(row_text([&](std::size_t c) { return c == 0 ? shorten_middle(columns[0][i], widths[0]) : columns[c][i]; },
                      notes[0]));
    for (std::size_t k = 1; k < notes.size(); ++k) put_line(std::string(notes_begin, ' ') + notes[k]);
  }
  text += "\n";
  for (const std::string& sentence : table.footer)
    for (const std::string& line : wrapped(sentence, kColumns)) put_line(line);
  return text;
}

std::string markdown_cell(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '|' || c == '\\') result += '\\';
    result += c == '\n' || c == '\r' ? ' ' : c;
  }
  return result;
}

std::string render_markdown(const TableNumbers& table) {
  std::string text = table.about.empty() ? "" : table.about + "\n\n";
  text += fmt::format("| row | {} | n | gain | notes |\n|:---|---:|---:|---:|:---|\n", markdown_cell(table.heading));
  for (const TableLine& line : table.lines)
    text += fmt::format("| {} | {} | {} | {} | {} |\n", markdown_cell(line.label),
                        with_interval(line.mean, line.half_width), line.n, gain_text(line),
                        markdown_cell(notes_text(line)));
  text += "\n";
  for (const std::string& sentence : table.footer) text += "- " + sentence + "\n";
  return text;
}

/// RFC 4180: quotes where they are needed.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

std::string render_csv(const TableNumbers& table) {
  std::string text = "row," + csv_cell(table.heading) + ",half_width,n,gain,gain_half_width,pairs,notes\n";
  for (const TableLine& line : table.lines)
    text += fmt::format("{},{},{},{},{},{},{},{}\n", csv_cell(line.label), line.mean, line.half_width, line.n,
                        line.gain, line.gain_half_width, line.pairs, csv_cell(notes_text(line)));
  return text;
}

using Json = nlohmann::ordered_json;

/// The number that the text shows, or null.
Json number(const std::string& text) {
  if (text.empty()) return nullptr;
  const double value = std::stod(text);
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

std::string render_json(const TableSpec& spec, const TableNumbers& table) {
  Json rows = Json::array();
  for (std::size_t i = 0; i < table.lines.size(); ++i) {
    const TableLine& line = table.lines[i];
    Json cells = Json::array();
    std::size_t counted = 0;
    for (const TableCellInput& cell : spec.rows[i].cells) {
      Json entry{{"seed", cell.seed}, {"state", to_string(cell.state)}};
      if (cell.state == TrialState::done && cell.value) entry["value"] = *cell.value, ++counted;
      if (cell.state == TrialState::diverged) entry["diverged_step"] = cell.diverged_step;
      if (cell.state == TrialState::running || cell.state == TrialState::missing) entry["progress"] = cell.progress;
      if (!cell.message.empty()) entry["message"] = cell.message;
      if (!cell.environment.empty()) entry["environment"] = cell.environment;
      cells.push_back(std::move(entry));
    }
    Json row{{"row", line.label}, {"baseline", line.is_baseline}};
    row["mean"] = number(line.mean);
    row["half_width"] = number(line.half_width);
    row["n"] = counted;
    row["planned"] = spec.rows[i].cells.size();
    row["gain"] = number(line.gain);
    row["gain_half_width"] = number(line.gain_half_width);
    row["pairs"] = line.pairs;
    row["notes"] = line.notes;
    row["seeds"] = std::move(cells);
    rows.push_back(std::move(row));
  }
  const Json json{{"about", table.about}, {"metric", spec.metric}, {"unit", spec.unit},
                  {"scale", spec.scale},  {"rows", rows},          {"footer", table.footer}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::optional<TableFormat> table_format(std::string_view name) {
  if (name == "text") return TableFormat::text;
  if (name == "markdown") return TableFormat::markdown;
  if (name == "csv") return TableFormat::csv;
  if (name == "json") return TableFormat::json;
  return std::nullopt;
}

std::string render_table(const TableSpec& spec, TableFormat format) {
  const TableNumbers table = table_numbers(spec);
  switch (format) {
    case TableFormat::markdown:
      return render_markdown(table);
    case TableFormat::csv:
      return render_csv(table);
    case TableFormat::json:
      return render_json(spec, table);
    case TableFormat::text:
      break;
  }
  return render_text(table);
}

}  // namespace normlab
