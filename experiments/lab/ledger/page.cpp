#include "experiments/lab/ledger/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/data/jpeg_copy.h"
#include "experiments/lab/descriptor/condition.h"
#include "experiments/lab/pictures/chart.h"
#include "experiments/lab/pictures/page.h"
#include "experiments/lab/tables/markup.h"

namespace normlab {
namespace {

constexpr std::size_t kWidestPrinted = 24;
using LedgerLines = std::vector<const LedgerLine*>;

/// The claims of each text in the order of their first claims; within a text by verdict.
std::vector<std::pair<std::string, LedgerLines>> by_text(const std::vector<LedgerLine>& lines) {
  std::vector<std::pair<std::string, LedgerLines>> out;
  for (const LedgerLine& line : lines) {
    const std::string text = text_of(line.claim);
    auto found = std::find_if(out.begin(), out.end(), [&](const auto& group) { return group.first == text; });
    if (found == out.end()) found = out.insert(out.end(), {text, {}});
    found->second.push_back(&line);
  }
  for (auto& [text, group] : out)
    std::stable_sort(group.begin(), group.end(),
                     [](const LedgerLine* a, const LedgerLine* b) { return a->verdict < b->verdict; });
  return out;
}

/// In points unless it has a unit.
std::string short_finding(const LedgerLine& line) {
  constexpr std::string_view kPoints = " points";
  const std::string text = finding(line);
  return text.ends_with(kPoints) ? text.substr(0, text.size() - kPoints.size()) : text;
}

/// "holds", "fails": that this is so here goes without saying in a table.
std::string short_verdict(Verdict verdict) {
  const std::string_view words = words_of(verdict);
  return std::string(words.substr(0, words.find(" here")));
}

std::vector<std::string> cells(const LedgerLine& line) {
  return {line.device.empty() ? line.number : line.number + " GPU", line.claim.brief,
          shorten_middle(printed_text(line.claim), kWidestPrinted), short_finding(line), short_verdict(line.verdict)};
}

/// "Claim 23 on NVIDIA H200", a section's heading, and the anchor that Markdown gives it.
std::string section_heading(const LedgerLine& line) { return "Claim " + number_text(line); }
std::string anchor(const LedgerLine& line) {
  std::string out = section_heading(line);
  for (char& c : out) c = c == ' ' ? '-' : char(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string> summary(const std::vector<LedgerLine>& lines) {
  std::size_t count[5] = {}, claims = 0, ends = 0, twins = 0;
  for (const LedgerLine& line : lines) {
    if (!line.device.empty()) continue;
    ++count[std::size_t(line.verdict)], ++claims;
    twins += line.claim.scale == ClaimScale::twin && line.verdict < Verdict::not_run;
    ends += line.ends;
  }
  const std::size_t judged = count[0] + count[1] + count[2];
  std::vector<std::string> out = {
      fmt::format("{}: {} {} here, {} {} here, {} undecided, {} not run, {} only at the published size.",
                  plural(claims, "claim"), count[0], count[0] == 1 ? "holds" : "hold", count[1],
                  count[1] == 1 ? "fails" : "fail", count[2], count[3], count[4]),
      fmt::format(
          "The intervals of a claim are built to hold together with probability {:g}; those of gains with few "
          "seeds hold in 91 to 98% of simulated sweeps. Of {}, {:.1f} are then expected to have an interval that "
          "misses.",
          kClaimLevel, plural(judged, "judged claim"), (1 - kClaimLevel) * double(judged)),
      fmt::format(
          "A verdict concerns the networks, data and lengths of training that were run, and does not say that a "
          "publication is right or wrong. Of {} about trainings, {} shown to end the same after twice the training.{}",
          plural(twins, "claim"),
          ends == 0   ? "none is"
          : ends == 1 ? "one is"
                      : fmt::format("{} are", ends),
          ends < twins ? " Other verdicts apply only to the length that was run." : ""),
  };
  std::map<std::string, std::size_t> copies;
  for (const LedgerLine& line : lines)
    for (const std::string& copy : line.copies) ++copies[copy];
  for (const auto& [copy, number] : copies)
    out.push_back(fmt::format("Data of {}: {}{}.", plural(number, "claim"), copy, kNotPublished));
  if (claims < lines.size()) out.front() += " Timings on a GPU are listed but not counted.";
  return out;
}

/// Headings, and the estimates of a claim as rows.
std::vector<std::vector<std::string>> estimate_table(const LedgerLine& line) {
  std::vector<std::vector<std::string>> rows{{"estimate", "found", "n", "verdict"}};
  for (const Estimate& e : line.estimates) {
    std::string verdict(words_of(e.verdict));
    if (!e.why.empty()) verdict += fmt::format(": {}", e.why);
    rows.push_back({e.label, estimate_text(e), std::to_string(e.n), verdict});
  }
  return rows;
}

/// Headings, and the claims as rows.
std::vector<std::vector<std::string>> claim_table(const LedgerLines& lines) {
  std::vector<std::vector<std::string>> rows{{"#", "claim", "printed", "found", "verdict"}};
  for (const LedgerLine* line : lines) rows.push_back(cells(*line));
  return rows;
}

/// Estimates further from their bound end in an arrow.
constexpr double kEdge = 8;

/// A value's distance from the nearer bound of the range, positive where the test holds.
double distance(const ClaimRange& range, double value, const std::function<double(double)>& scale) {
  double inside = INFINITY;
  if (range.low) inside = std::min(inside, scale(value) - scale(*range.low));
  if (range.high) inside = std::min(inside, scale(*range.high) - scale(value));
  return range.outside ? -inside : inside;
}

ChartLane lane_of(const LedgerLine& line, const Estimate& e) {
  ChartLane lane{line.number + (line.device.empty() ? "  " : " GPU  ") + line.claim.brief, line.claim.brief};
  lane.numbers = estimate_text(e);
  lane.style = line.verdict == Verdict::holds ? 3 : line.verdict == Verdict::fails ? 2 : 7;
  lane.clear = line.verdict != Verdict::undecided;
  const ClaimTest& test = line.claim.tests.at(e.test);
  const bool logs = test.kind == ClaimTestKind::probe || test.kind == ClaimTestKind::timing;
  const auto scale = [&](double value) { return logs ? std::log(value) : value; };
  const double half = (scale(e.high) - scale(e.low)) / 2, unit = test.margin.value_or(half > 0 ? half : 1);
  double ends[3] = {};
  std::size_t k = 0;
  for (const double value : {e.value, e.low, e.high}) {
    ends[k] = distance(test.range, value, scale) / unit;
    if (!std::isfinite(ends[k])) return lane;
    ++k;
  }
  // Inside a range with two bounds, the distance is largest between the ends; outside it is smallest there.
  lane.point = {0, ends[0], *std::min_element(ends, ends + 3), *std::max_element(ends, ends + 3), e.n};
  lane.bar = true;
  return lane;
}

}  // namespace

std::string text_table(const std::vector<std::vector<std::string>>& rows, std::size_t width, std::size_t cut) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  std::size_t all = 2 * (widths.size() - 1);
  for (const std::size_t column : widths) all += column;
  if (all > width) widths[cut] = std::max<std::size_t>(8, widths[cut] - std::min(widths[cut], all - width));
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string cell = c == cut ? shorten_middle(row[c], widths[c]) : row[c];
      line += cell + std::string(widths[c] + 2 - std::min(widths[c] + 2, display_width(cell)), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string ledger_text(const std::vector<LedgerLine>& lines, std::size_t width, bool details) {
  std::string out;
  const auto add = [&](const std::string& text, std::size_t indent) {
    for (const std::string& each : wrapped(text, width - indent)) out += std::string(indent, ' ') + each + "\n";
  };
  for (const std::string& sentence : summary(lines)) add(sentence, 0);
  for (const auto& [text, group] : by_text(lines)) {
    out += "\n";
    add(text, 0);
    out += text_table(claim_table(group), std::min(width, kWidestTable), 1);
  }
  if (!details) return out;
  for (const LedgerLine& line : lines) {
    out += "\n";
    add(section_heading(line) + ": " + line.claim.brief, 0);
    for (const auto& [heading, text] : claim_facts(line)) add(heading + ": " + text, 2);
    const auto rows = estimate_table(line);
    for (std::size_t i = 1; i < rows.size(); ++i)
      add(fmt::format("{}: {}, n {}: {}", rows[i][0], rows[i][1], rows[i][2], rows[i][3]), 4);
  }
  return out;
}

std::string ledger_markdown(const std::vector<LedgerLine>& lines) {
  std::string out;
  for (const std::string& sentence : summary(lines)) out += broken_lines("- " + sentence, kWidestMarkdown) + "\n";
  for (const auto& [text, group] : by_text(lines)) {
    auto rows = claim_table(group);
    for (std::size_t i = 0; i < group.size(); ++i)
      rows[i + 1].front() = fmt::format("[{}](#{})", rows[i + 1].front(), anchor(*group[i]));
    out += fmt::format("\n### {}\n\n", text) + markdown_table(rows);
  }
  for (const LedgerLine& line : lines) {
    out += fmt::format("\n### {}\n\n**{}**\n\n", section_heading(line), markdown_cell(line.claim.brief));
    for (const auto& [heading, text] : claim_facts(line))
      out += broken_lines(fmt::format("- {}: {}", heading, markdown_cell(text)), kWidestMarkdown) + "\n";
    if (!line.estimates.empty()) out += fmt::format("\n{}", markdown_table(estimate_table(line)));
  }
  return out;
}

/// Of a cell that begins with a number, which sorts it: "+0.7 [+0.1, +1.2] points".
std::string sort_key(const std::string& cell) {
  const std::optional<double> number = parse_number(std::string_view(cell).substr(0, cell.find(' ')));
  return number ? fmt::format(" data-sort=\"{}\"", *number) : "";
}

std::string ledger_html(const std::vector<LedgerLine>& lines) {
  std::string out = page_start("Claims") + "<style>#results td{min-width:0!important}</style>\n<main>\n" +
                    html_element("h1", "Claims") + "\n";
  for (const std::string& sentence : summary(lines)) out += html_element("p", sentence) + "\n";
  out += "<figure>\n" + forest_plot(lines, false) + "</figure>\n<h2>Verdicts</h2>\n";
  out +=
      "<div class=\"tools\" hidden><label>Filter: <input type=\"search\" id=\"filter\" placeholder=\"words of a "
      "text, a claim or a verdict\"></label><button type=\"button\" id=\"open-all\">open all</button><button "
      "type=\"button\" id=\"close-all\">close all</button><span id=\"status\"></span></div>\n";
  constexpr const char* kColumns[] = {"#", "text", "claim", "printed", "found", "verdict", "where it ends"};
  std::string table = "<table>\n<thead><tr>";
  for (const char* heading : kColumns) table += html_element("th", heading);
  table += "</tr></thead>\n<tbody>\n";
  for (const auto& [text, group] : by_text(lines))
    for (const LedgerLine* line : group) {
      std::vector<std::string> row = cells(*line);
      row.insert(row.begin() + 1, text);
      const std::string ends = where_it_ends(*line);
      row.push_back(ends.substr(0, ends.find(';')));
      table += fmt::format("<tr data-rows=\"{}\">", anchor(*line));
      for (std::size_t c = 0; c < row.size(); ++c)
        table += c > 0 ? fmt::format("<td{}>{}</td>", sort_key(row[c]), escaped(row[c]))
                       : fmt::format("<td><a href=\"#{}\">{}</a></td>", anchor(*line), escaped(row[c]));
      table += "</tr>\n";
    }
  out += "<div id=\"results\" class=\"scroll\">\n" + table +
         "</tbody>\n</table>\n</div>\n<h2>Claims</h2>\n<div id=\"trials\">\n";
  for (const LedgerLine& line : lines) {
    out += fmt::format(
        "<details class=\"row\" id=\"{0}\" data-row=\"{0}\"><summary><span class=\"name\">{1}</span> "
        "<span>{2}</span> <span class=\"soft\">{3}</span></summary>\n<dl>\n",
        anchor(line), escaped(section_heading(line)), escaped(line.claim.brief), words_of(line.verdict));
    for (const auto& [heading, text] : claim_facts(line))
      out += html_element("dt", heading) + html_element("dd", text) + "\n";
    out += "</dl>\n";
    if (!line.estimates.empty()) out += "<div class=\"scroll\">\n" + html_table(estimate_table(line)) + "</div>\n";
    out += "</details>\n";
  }
  return out + "</div>\n</main>\n" + page_end();
}

nlohmann::ordered_json ledger_json(const std::vector<LedgerLine>& lines) {
  nlohmann::ordered_json out{{"schema", 2}, {"level", kClaimLevel}, {"claims", nlohmann::ordered_json::array()}};
  for (const LedgerLine& line : lines) {
    nlohmann::ordered_json estimates = nlohmann::ordered_json::array();
    for (const Estimate& e : line.estimates) {
      nlohmann::ordered_json one{{"estimate", e.label}, {"unit", e.unit}, {"n", e.n}, {"verdict", words_of(e.verdict)}};
      if (has_interval(e)) one.update({{"value", e.value}, {"low", e.low}, {"high", e.high}});
      if (e.seeds_needed) one["seeds_needed"] = *e.seeds_needed;
      if (!e.why.empty()) one["why"] = e.why;
      estimates.push_back(std::move(one));
    }
    nlohmann::ordered_json lengths = nlohmann::ordered_json::object();
    for (const auto& [length, verdict] : line.by_length) lengths[length] = words_of(verdict);
    out["claims"].push_back({{"number", line.number},
                             {"name", line.name},
                             {"source", line.claim.source},
                             {"says", line.claim.says},
                             {"short", line.claim.brief},
                             {"paraphrase", line.claim.paraphrase},
                             {"printed", printed_text(line.claim)},
                             {"reading", line.claim.reading},
                             {"verdict", words_of(line.verdict)},
                             {"ends", line.ends},
                             {"lengths", std::move(lengths)},
                             {"machines", line.machines},
                             {"uncommitted", line.uncommitted},
                             {"runs", line.runs},
                             {"done", line.done},
                             {"estimates", std::move(estimates)},
                             {"command", line.command}});
    if (!line.device.empty()) out["claims"].back()["device"] = line.device;
  }
  return out;
}

std::string forest_plot(const std::vector<LedgerLine>& lines, bool standalone) {
  Chart chart;
  chart.kind = ChartKind::gains;
  chart.name = "claims";
  chart.title = "What decides each claim";
  chart.caption =
      "A line per claim: the distance of the deciding estimate from the bound of its range, in units of its margin, or "
      "without one of its interval's half width. Right of zero the claim holds.";
  chart.across_name = "distance from the bound, in margins or half widths (holds to the right of zero)";
  for (const LedgerLine& line : lines) {
    const Estimate* e = line.verdict < Verdict::not_run ? deciding(line) : nullptr;
    if (e == nullptr || !has_interval(*e)) continue;
    const std::string text = text_of(line.claim);
    auto panel = std::find_if(chart.panels.begin(), chart.panels.end(),
                              [&](const ChartPanel& other) { return other.heading == text; });
    if (panel == chart.panels.end()) panel = chart.panels.insert(chart.panels.end(), ChartPanel{text, ""});
    panel->lanes.push_back(lane_of(line, *e));
  }
  set_chart_axes(chart, ChartScale::linear, ChartScale::linear);
  if (!chart.panels.empty()) cut_across(chart, std::max(chart.across.low, -kEdge), std::min(chart.across.high, kEdge));
  return standalone ? chart_picture(chart, chart.panels, chart.name, ChartForm::file) : chart_pictures(chart);
}

}  // namespace normlab
