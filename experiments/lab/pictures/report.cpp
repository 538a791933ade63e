#include "experiments/lab/pictures/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "experiments/lab/base/sha256.h"
#include "experiments/lab/pictures/report_parts.h"
#include "experiments/lab/pictures/svg.h"
#include "experiments/lab/tables/markup.h"
#include "experiments/lab/tables/table.h"

namespace normlab {
namespace {

/// "sha256-<Base64>": identifies the only script that the page may run.
std::string script_hash(std::string_view script) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string hex = sha256_hex(script);
  std::string base64;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char digit : hex) {
    bits = bits << 4 | std::uint32_t(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    for (held += 4; held >= 6; held -= 6) base64 += kDigits[bits >> (held - 6) & 63];
  }
  if (held > 0) base64 += kDigits[bits << (6 - held) & 63];
  while (base64.size() % 4 != 0) base64 += '=';
  return "sha256-" + base64;
}

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

std::string results_section(const ReportInput& input) {
  const std::string html =
      "<section id=\"results\">\n<h2>Table</h2>\n"
      "<div class=\"tools\" hidden><label for=\"filter\">Filter rows (curves and trials follow)</label><input "
      "type=\"search\" id=\"filter\" autocomplete=\"off\" spellcheck=\"false\"><span id=\"status\" "
      "role=\"status\"></span></div>\n";
  return html + table_part(input.table, "Table of results") + "</section>\n";
}

std::string rates_section(const ReportInput& input) {
  if (input.rates == nullptr) return "";
  return "<section id=\"lr-sensitivity\">\n<h2>Learning-rate sensitivity</h2>\n" +
         table_part(*input.rates, "Table of learning-rate sensitivity") + input.rates_figure + "</section>\n";
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

std::string html_element(std::string_view tag, std::string_view text, std::string_view name) {
  return fmt::format("<{}{}{}{}>{}</{}>", tag, name.empty() ? "" : " class=\"", name, name.empty() ? "" : "\"",
                     escaped(text), tag);
}

std::string report_html(const ReportInput& input) {
  const auto [question, rest] = question_of(input.table);
  const std::string gains = gains_section(input);
  std::string html = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  html +=
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src '" +
      script_hash(page_script()) + "'; base-uri 'none'; form-action 'none'\">\n";
  if (input.reload_seconds > 0)
    html += fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", input.reload_seconds);
  html += html_element("title", input.table.name + ": " + question) + "\n<style>";
  html += page_style();
  html += picture_style();
  html += "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#results\">To the table</a>\n<header>\n";
  html += html_element("h1", question) + "\n";
  if (!rest.empty()) html += html_element("p", rest) + "\n";
  html += html_element("p", trial_counts(input.table), "soft") + "\n";
  html += "<nav aria-label=\"Parts\"><ul><li><a href=\"#results\">Table</a></li>";
  for (const StripPlot& plot : strip_plots(input.table))
    html += plot.gains ? "<li><a href=\"#gains\">Gains</a></li>" : "<li><a href=\"#values\">Values</a></li>";
  if (input.rates != nullptr) html += "<li><a href=\"#lr-sensitivity\">Learning rates</a></li>";
  if (!input.measurements.empty()) html += "<li><a href=\"#measurements\">Measurements</a></li>";
  html +=
      "<li><a href=\"#curves\">Learning curves</a></li><li><a href=\"#trials\">Trials</a></li></ul></nav>\n"
      "</header>\n<main>\n";
  html += problems_part(input) + results_section(input) + gains + rates_section(input) + curves_section(input);
  if (!input.measurements.empty())
    html += "<section id=\"measurements\">\n<h2>Measurements</h2>\n" + input.measurements + "</section>\n";
  html += trials_section(input);
  const std::string again = input.reload_seconds > 0 ? fmt::format(" Reloads every {} s.", input.reload_seconds) : "";
  html +=
      "</main>\n<footer>" + html_element("p", "Written " + input.written + "." + again, "soft") + "</footer>\n<script>";
  html += page_script();
  return html + "</script>\n</body>\n</html>\n";
}

}  // namespace normlab
