// Tables as CSV and JSON.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/labels.h"
#include "experiments/lab/tables/markup.h"
#include "experiments/lab/tables/table.h"

namespace normlab {
namespace {

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t c = 0; c < cells.size(); ++c) line += (c == 0 ? "" : ",") + csv_cell(cells[c]);
  return line + "\n";
}

/// The shortest text that reads back as the same number; "" for none.
std::string full(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; }
std::string full(const Figure& figure) { return full(figure.value); }

bool is_pivot(const TableModel& model) {
  return std::any_of(model.columns.begin(), model.columns.end(),
                     [](const TableColumn& column) { return column.key.starts_with("col:"); });
}

bool is_row_column(const TableModel& model, const TableColumn& column) {
  return std::find(model.row_columns.begin(), model.row_columns.end(), column.key) != model.row_columns.end();
}

bool lists_pairs(const TableModel& model) {
  return std::any_of(model.columns.begin(), model.columns.end(),
                     [](const TableColumn& column) { return column.key == "difference"; });
}

std::string label_of_plan(const TableModel& model, std::size_t plan_index) {
  const auto is = [&](const TableLine& line) { return line.plan_index == plan_index; };
  return std::find_if(model.lines.begin(), model.lines.end(), is)->label;
}

std::string csv_pairs(const TableModel& model) {
  std::string text = csv_line({"row", "other", "difference", "half_width", "low", "high", "pairs", "p", "differs"});
  for (const TablePair& pair : model.pairs)
    text +=
        csv_line({label_of_plan(model, pair.row), label_of_plan(model, pair.other), full(pair.difference),
                  full(pair.half_width), full(pair.low), full(pair.high), fmt::format("{}", pair.pairs), full(pair.p),
                  !pair.low.value ? ""
                  : pair.differs  ? "yes"
                                  : "no"});
  return text;
}

/// Gives each value, half width and tail its own column.
std::string csv_pivot(const TableModel& model) {
  std::vector<std::string> headings;
  for (const TableColumn& column : model.columns) {
    headings.push_back(is_row_column(model, column) ? column.key : column.heading);
    if (column.kind != ColumnKind::number || is_row_column(model, column)) continue;
    headings.push_back(column.heading + " " + column.half_width);
    headings.push_back(column.heading + " n, marks");
  }
  const bool labelled = !model.labels.empty();
  if (labelled) headings.push_back("label");
  std::string text = csv_line(headings);
  for (const TableGridRow& row : model.grid) {
    std::vector<std::string> cells;
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const TableCell& cell = row.cells[c];
      const bool number = model.columns[c].kind == ColumnKind::number;
      cells.push_back(number && cell.sort && !cell.value.empty() ? full(cell.sort) : cell.value);
      if (!number || is_row_column(model, model.columns[c])) continue;
      cells.push_back(full(cell.half_width_full));
      cells.push_back(row.cells[c].tail);
    }
    if (labelled) {
      std::vector<std::string> names;
      for (std::size_t c = 0; c < row.cells.size(); ++c)
        if (model.columns[c].kind == ColumnKind::label) names.push_back(shown_name(row.cells[c].value, model.labels));
      cells.push_back(joined(names, ", "));
    }
    text += csv_line(cells);
  }
  return text;
}

/// What the seeds of a row that know it agree on; "" if there is nothing. Guessing is in the table's unit.
std::string images_of(const TableLine& line) {
  std::set<std::int64_t> images;
  for (const TableSeed& seed : line.seeds)
    if (seed.images > 0) images.insert(seed.images);
  return images.size() == 1 ? fmt::format("{}", *images.begin()) : "";
}
std::string guess_of(const TableLine& line, double scale) {
  std::set<double> guesses;
  for (const TableSeed& seed : line.seeds)
    if (seed.guess) guesses.insert(scale * *seed.guess);
  return guesses.size() == 1 ? fmt::format("{}", *guesses.begin()) : "";
}

std::string csv_lines(const TableModel& model) {
  const auto any = [&](auto&& test) { return std::any_of(model.lines.begin(), model.lines.end(), test); };
  const bool equivalence = any([](const TableLine& line) { return line.equivalent.has_value(); });
  const bool bootstrap = any([](const TableLine& line) { return line.bootstrap_half_width.value.has_value(); });
  const bool match = !model.match_heading.empty();
  const bool external = any([](const TableLine& line) { return !line.external.empty(); });
  const bool best = !model.best_heading.empty();
  const bool sd = any([](const TableLine& line) { return line.sd.value.has_value(); });
  const bool effects = any([](const TableLine& line) { return line.effect_size.value.has_value(); });
  const bool letters = any([](const TableLine& line) { return !line.letters.empty(); });
  const bool images = any([](const TableLine& line) { return !images_of(line).empty(); });
  const bool guesses = any([&](const TableLine& line) { return !guess_of(line, model.scale).empty(); });
  const bool named = any([](const TableLine& line) { return !line.name.empty(); });
  std::vector<std::string> headings;
  if (named) headings = {"experiment", "name"};
  headings.insert(headings.end(), model.axes.begin(), model.axes.end());
  if (model.axes.empty()) headings.push_back("row");
  if (!model.labels.empty()) headings.push_back("label");
  if (best) headings.insert(headings.end(), {model.best_heading, "best_half_width", "best_n", "best_rate", "rates"});
  headings.insert(headings.end(), {model.metric_heading(), "half_width", "n", "planned", "gain", "gain_half_width",
                                   "gain_low", "gain_high", "pairs", "p", "differs"});
  if (match) headings.insert(headings.end(), {model.match_heading, "match_half_width", "match_reached", "match_pairs"});
  if (equivalence) headings.insert(headings.end(), {"equivalent", "equivalent_p"});
  if (bootstrap) headings.push_back("bootstrap_half_width");
  if (external) headings.push_back("external");
  if (images) headings.push_back("images");
  if (guesses) headings.push_back("guess");
  for (const auto& [shown, heading] : {std::pair{sd, "sd"}, {effects, "effect_size"}, {letters, "letters"}})
    if (shown) headings.push_back(heading);
  headings.insert(headings.end(), model.row_columns.begin(), model.row_columns.end());
  headings.push_back("notes");
  std::string text = csv_line(headings);
  for (const TableLine& line : model.lines) {
    std::vector<std::string> cells;
    if (named) cells = {line.experiment, line.name};
    cells.insert(cells.end(), line.axes.begin(), line.axes.end());
    if (line.axes.empty()) cells.push_back(line.label);
    if (!model.labels.empty()) cells.push_back(shown_name(line.label, model.labels));
    if (best)
      cells.insert(cells.end(), {full(line.best.mean), full(line.best.half_width), fmt::format("{}", line.best.n),
                                 line.best.rate, fmt::format("{}", line.rates.size())});
    cells.insert(cells.end(), {full(line.mean), full(line.half_width), fmt::format("{}", line.n),
                               fmt::format("{}", line.seeds.size()), full(line.gain), full(line.gain_half_width),
                               full(line.gain_low), full(line.gain_high), fmt::format("{}", line.pairs), full(line.p),
                               !line.gain_low.value ? ""
                               : line.differs       ? "yes"
                                                    : "no"});
    if (match)
      cells.insert(cells.end(), {full(line.match.mean), full(line.match.half_width),
                                 fmt::format("{}", line.match.reached), fmt::format("{}", line.match.pairs)});
    if (equivalence)
      cells.insert(cells.end(), {!line.equivalent ? "" : *line.equivalent ? "yes" : "no", full(line.equivalent_p)});
    if (bootstrap) cells.push_back(full(line.bootstrap_half_width));
    if (external) cells.push_back(line.external);
    if (images) cells.push_back(images_of(line));
    if (guesses) cells.push_back(guess_of(line, model.scale));
    if (sd) cells.push_back(full(line.sd));
    if (effects) cells.push_back(full(line.effect_size));
    if (letters) cells.push_back(line.letters);
    for (const Figure& measured : line.measured) cells.push_back(full(measured));
    cells.push_back(joined(line.notes, ", "));
    text += csv_line(cells);
  }
  return text;
}

using Json = nlohmann::ordered_json;

Json in_full(const Figure& figure) { return number_or_null(figure.value); }

/// Counts without a fraction.
Json whole_or_full(const Figure& figure) {
  return figure.value && *figure.value == std::floor(*figure.value) ? Json(std::int64_t(*figure.value))
                                                                    : in_full(figure);
}

/// The value of an axis with its type: true, 0.001, "pre_pre"; null if the row has none.
Json typed(const std::string& value) {
  if (value.empty()) return nullptr;
  const Json read = Json::parse(value, nullptr, false);
  return read.is_number() || read.is_boolean() ? read : Json(value);
}

Json seed_json(const TableSeed& seed) {
  Json entry{{"seed", seed.seed}, {"state", word_of(seed.state)}, {"trial", seed.trial}};
  if (seed.value) entry["value"] = number_or_null(seed.value);
  if (seed.gain) entry["gain"] = number_or_null(seed.gain);
  if (seed.images > 0) entry["images"] = seed.images;
  if (seed.guess) entry["guess"] = number_or_null(seed.guess);
  if (seed.above_guessing) entry["loss_above_guessing"] = true;
  if (seed.state == SeedState::diverged) entry["diverged_step"] = seed.diverged_step;
  if (!seed.diverged_site.empty()) entry["diverged_site"] = seed.diverged_site;
  if (seed.early_stopped_step) entry["early_stopped_step"] = *seed.early_stopped_step;
  if (seed.state == SeedState::running || seed.state == SeedState::stopped) entry["progress"] = seed.progress;
  if (!seed.message.empty()) entry["message"] = seed.message;
  if (!seed.environment.empty()) entry["environment"] = seed.environment;
  if (!seed.sealed) entry["sealed"] = false;
  return entry;
}

Json rates_json(const std::vector<TableRate>& rates) {
  Json list = Json::array();
  for (const TableRate& rate : rates) {
    Json runs = Json::array();
    for (const TableRate::Run& run : rate.runs)
      runs.push_back({{"seed", run.seed}, {"loss", number_or_null(run.loss)}, {"diverged", run.diverged}});
    list.push_back({{"rate", typed(rate.label)}, {"runs", std::move(runs)}});
  }
  return list;
}

Json line_json(const TableModel& model, const TableLine& line) {
  Json axes = Json::object(), seeds = Json::array();
  for (std::size_t a = 0; a < model.axes.size(); ++a) axes[model.axes[a]] = typed(line.axes[a]);
  for (const TableSeed& seed : line.seeds) seeds.push_back(seed_json(seed));
  if (!line.has_runs())
    for (Json& seed : seeds) seed.erase("trial");
  Json row{{"row", line.label}, {"axes", std::move(axes)}, {"baseline", line.is_baseline}, {"strip", line.strip}};
  if (!model.labels.empty()) row["label"] = shown_name(line.label, model.labels);
  if (!line.name.empty()) row["experiment"] = line.experiment, row["name"] = line.name;
  row["mean"] = in_full(line.mean);
  row["half_width"] = in_full(line.half_width);
  row["n"] = line.n;
  row["planned"] = line.seeds.size();
  row["gain"] = in_full(line.gain);
  row["gain_half_width"] = in_full(line.gain_half_width);
  row["gain_low"] = in_full(line.gain_low);
  row["gain_high"] = in_full(line.gain_high);
  row["pairs"] = line.pairs;
  row["procedure"] = line.procedure;
  row["p"] = in_full(line.p);
  row["differs"] = line.differs;
  row["partial"] = line.partial;
  if (line.equivalent) row["equivalent"] = *line.equivalent, row["equivalent_p"] = in_full(line.equivalent_p);
  if (line.bootstrap_half_width.value.has_value()) row["bootstrap_half_width"] = in_full(line.bootstrap_half_width);
  if (line.match.pairs > 0)
    row["match"] = {{"mean", in_full(line.match.mean)},
                    {"half_width", in_full(line.match.half_width)},
                    {"reached", line.match.reached},
                    {"pairs", line.match.pairs}};
  if (!line.external.empty()) row["external"] = line.external;
  if (line.same_named) row["compared_with"] = *line.same_named;
  if (line.sd.value) row["sd"] = in_full(line.sd);
  if (line.effect_size.value) row["effect_size"] = in_full(line.effect_size);
  if (!line.letters.empty()) row["letters"] = line.letters;
  if (line.is_best) row["best_mean"] = true;
  for (std::size_t c = 0; c < line.measured.size(); ++c) row[model.row_columns[c]] = whole_or_full(line.measured[c]);
  row["notes"] = line.notes;
  row["seeds"] = std::move(seeds);
  if (!line.mean_of.empty()) row["mean_of"] = line.mean_of.size();
  if (line.rates.empty()) return row;
  row["best"] = {{"mean", in_full(line.best.mean)},
                 {"half_width", in_full(line.best.half_width)},
                 {"n", line.best.n},
                 {"rate", typed(line.best.rate)}};
  row["rates"] = rates_json(line.rates);
  return row;
}

}  // namespace

std::string render_table_csv(const TableModel& model) {
  return lists_pairs(model) ? csv_pairs(model) : is_pivot(model) ? csv_pivot(model) : csv_lines(model);
}

std::string render_table_json(const TableModel& model) {
  Json rows = Json::array(), strips = Json::array(), grid = Json::array();
  for (const TableLine& line : model.lines) rows.push_back(line_json(model, line));
  for (const TableStrip& strip : model.strips)
    strips.push_back(Json{{"label", strip.label},
                          {"best_gain_by_chance", in_full(strip.best_by_chance)},
                          {"smallest_gain", in_full(strip.detectable)},
                          {"smallest_gain_low", in_full(strip.detectable_low)},
                          {"smallest_gain_high", in_full(strip.detectable_high)}});
  Json sentences = Json::array();
  for (const TableSentence& sentence : model.footer) sentences.push_back(sentence.text);
  Json json{{"about", model.about}, {"metric", model.metric},  {"unit", model.unit},
            {"scale", model.scale}, {"rows", std::move(rows)}, {"strips", std::move(strips)}};
  if (is_pivot(model)) {
    Json headings = Json::array();
    for (const TableColumn& column : model.columns) headings.push_back(column.heading);
    for (const TableGridRow& row : model.grid) {
      Json cells = Json::array();
      for (const TableCell& cell : row.cells) cells.push_back(cell.text());
      grid.push_back(std::move(cells));
    }
    json["columns"] = std::move(headings);
    json["grid"] = std::move(grid);
  }
  if (!model.pairs.empty()) {
    Json pairs = Json::array();
    for (const TablePair& pair : model.pairs)
      pairs.push_back({{"row", label_of_plan(model, pair.row)},
                       {"other", label_of_plan(model, pair.other)},
                       {"difference", in_full(pair.difference)},
                       {"half_width", in_full(pair.half_width)},
                       {"low", in_full(pair.low)},
                       {"high", in_full(pair.high)},
                       {"pairs", pair.pairs},
                       {"p", in_full(pair.p)},
                       {"differs", pair.differs}});
    json["pairs"] = std::move(pairs);
  }
  if (!model.labels.empty()) json["metric_label"] = model.shown_metric();
  if (!model.best_heading.empty()) json["best"] = model.best_heading;
  if (!model.match_heading.empty()) json["match"] = model.match_heading;
  json["footer"] = std::move(sentences);
  json["problems"] = model.problems;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace normlab
