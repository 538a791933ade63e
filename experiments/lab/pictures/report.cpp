#include "experiments/lab/pictures/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "experiments/lab/pictures/figures.h"
#include "experiments/lab/pictures/page.h"
#include "experiments/lab/tables/markup.h"
#include "experiments/lab/tables/table.h"

namespace normlab {
namespace {

/// Splits the text `about` after its first question mark: the question, and the rest.
std::pair<std::string, std::string> question_of(const TableModel& table) {
  const std::string& about = table.about;
  if (about.empty()) return {table.name, ""};
  const auto mark = about.find('?');
  if (mark == about.npos) return {about, ""};
  const auto rest = about.find_first_not_of(" \n", mark + 1);
  return {about.substr(0, mark + 1), rest == about.npos ? "" : about.substr(rest)};
}

/// "5 rows, 20 trials: 18 done, 1 diverged, 1 running."
std::string trial_counts(const TableModel& table) {
  constexpr std::array kStates{SeedState::done,   SeedState::diverged, SeedState::running,   SeedState::stopped,
                               SeedState::failed, SeedState::missing,  SeedState::unreadable};
  std::size_t all = 0;
  std::string parts;
  for (const SeedState state : kStates) {
    std::size_t count = 0;
    for (const TableLine& line : table.lines)
      for (const TableSeed& seed : line.seeds) count += line.has_runs() && seed.state == state;
    all += count;
    if (count > 0) parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", count, word_of(state));
  }
  const std::size_t rows = table.lines.size();
  return fmt::format("{} row{}, {} trial{}{}{}.", rows, rows == 1 ? "" : "s", all, all == 1 ? "" : "s",
                     parts.empty() ? "" : ": ", parts);
}

/// A table that scrolls, without its question and with its footer as a list below.
std::string table_part(const TableModel& table, const std::string& name) {
  std::string html =
      fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n", escaped(name));
  // The question is the page's heading, and the footer follows as a list, which wraps on a narrow screen.
  TableModel bare = table;
  bare.about.clear();
  bare.footer.clear();
  html += render_table_html(bare) + "</div>\n<ul class=\"footnotes\">\n";
  for (const TableSentence& sentence : table.footer) html += html_element("li", sentence.text) + "\n";
  return html + "</ul>\n";
}

std::string results_section(const ReportInput& input) {
  const std::string html =
      "<section id=\"results\">\n<h2>Table</h2>\n"
      "<div class=\"tools\" hidden><label for=\"filter\">Filter rows (curves and trials follow)</label><input "
      "type=\"search\" id=\"filter\" autocomplete=\"off\" spellcheck=\"false\"><span id=\"status\" "
      "role=\"status\"></span></div>\n";
  return html + table_part(input.table, "Table of results") + "</section>\n";
}

/// Charts below their headings, "" without any.
std::string charts_part(const std::vector<Chart>& charts) {
  std::string html;
  for (const Chart& chart : charts) html += html_element("h3", chart.title) + "\n" + chart_html(chart, kReportNumbers);
  return html;
}

std::string gains_section(const Chart& chart) {
  return "<section id=\"" + chart.name + "\">\n" + html_element("h2", chart.title) + "\n" +
         chart_html(chart, kReportNumbers) + "</section>\n";
}

std::string curves_section(const ReportInput& input) {
  const std::vector<Chart> charts = curve_charts(input);
  std::string why;
  if (const std::string without = input.curves.without_words(); !without.empty())
    why = without + ".";
  else if (charts.empty())
    why = input.curves.known.empty() ? "No trial has written metrics yet."
                                     : "No shown row has values of the metrics to draw.";
  return "<section id=\"curves\">\n<h2>Learning curves</h2>\n" + (why.empty() ? "" : html_element("p", why)) +
         charts_part(charts) + "</section>\n";
}

std::string problems_part(const ReportInput& input) {
  const std::vector<std::string> problems = report_problems(input);
  if (problems.empty()) return "";
  std::string html =
      "<section class=\"problems\" aria-label=\"Problems\"><h2>Results that could not be read</h2><ul>\n";
  for (const std::string& problem : problems) html += html_element("li", problem) + "\n";
  return html + "</ul></section>\n";
}

}  // namespace

std::vector<std::string> report_problems(const ReportInput& input) {
  std::vector<std::string> problems = input.table.problems;
  for (const CurveProblem& problem : input.curves.problems) {
    const bool said = std::any_of(input.table.problems.begin(), input.table.problems.end(),
                                  [&](const std::string& other) { return other.find(problem.error) != other.npos; });
    if (!said) problems.push_back(problem.text());
  }
  return problems;
}

std::string report_html(const ReportInput& input) {
  const auto [question, rest] = question_of(input.table);
  const std::vector<Chart> strips = strip_charts(input.table);
  std::string html = page_start(input.table.name + ": " + question, input.reload_seconds) +
                     "<a class=\"skip\" href=\"#results\">To the table</a>\n<header>\n";
  html += html_element("h1", question) + "\n";
  if (!rest.empty()) html += html_element("p", rest) + "\n";
  html += html_element("p", trial_counts(input.table), "soft") + "\n<nav aria-label=\"Parts\"><ul>";
  std::string sections;
  const auto add = [&](const char* id, const char* name, const std::string& section) {
    html += fmt::format("<li><a href=\"#{}\">{}</a></li>", id, name);
    sections += section;
  };
  add("results", "Table", results_section(input));
  for (const Chart& chart : strips)
    add(chart.name.c_str(), chart.kind == ChartKind::gains ? "Gains" : "Values", gains_section(chart));
  if (input.rates != nullptr)
    add("lr-sensitivity", "Learning rates",
        "<section id=\"lr-sensitivity\">\n<h2>Learning-rate sensitivity</h2>\n" +
            table_part(*input.rates, "Table of learning-rate sensitivity") + charts_part({rates_chart(*input.rates)}) +
            "</section>\n");
  add("curves", "Learning curves", curves_section(input));
  if (!input.measurements.empty())
    add("measurements", "Measurements",
        "<section id=\"measurements\">\n<h2>Measurements</h2>\n" + charts_part(input.measurements) + "</section>\n");
  add("trials", "Trials", trials_section(input));
  const std::string again = input.reload_seconds > 0 ? fmt::format(" Reloads every {} s.", input.reload_seconds) : "";
  return html + "</ul></nav>\n</header>\n<main>\n" + problems_part(input) + sections + "</main>\n<footer>" +
         html_element("p", "Written " + input.written + "." + again, "soft") + "</footer>\n" + page_end();
}

std::vector<PictureFile> report_pictures(const ReportInput& input) {
  std::vector<PictureFile> files;
  std::vector<Chart> rates;
  if (input.rates != nullptr) rates = {rates_chart(*input.rates)};
  for (const auto& charts : {strip_charts(input.table), curve_charts(input), input.measurements, rates})
    for (const Chart& chart : charts)
      for (PictureFile& file : chart_files(chart)) files.push_back(std::move(file));
  return files;
}

}  // namespace normlab
