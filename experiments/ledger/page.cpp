#include "experiments/ledger/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "experiments/base/text_layout.h"
#include "experiments/data/jpeg_copy.h"
#include "experiments/results/markup.h"
#include "experiments/results/table_model.h"
#include "experiments/results/table_parts.h"

namespace normlab {
namespace {

/// An interval may be a single value, such as the difference of two best rates.
bool has_interval(const Estimate& e) { return e.high > e.low || e.verdict < Verdict::undecided; }

/// What the results say: the deciding estimate with its row, or why there is none.
std::string finding(const LedgerLine& line) {
  if (line.verdict == Verdict::paper_scale) return "no small version can decide it";
  if (line.verdict == Verdict::not_run)
    return fmt::format("{} of {} ended", line.done, plural(line.runs, line.claim.bench.empty() ? "run" : "repetition"));
  const Estimate* e = deciding(line);
  if (e == nullptr) return "-";
  std::string text = fmt::format("{} ({}; n {})", estimate_text(*e), e->label, e->n);
  if (line.estimates.size() > 1) text += fmt::format(", one of {}", plural(line.estimates.size(), "estimate"));
  return text;
}

/// How far an estimate is from the other verdict: the distance of its interval from the nearest bound in its widths,
/// or for an undecided one less the more seeds would decide it.
double clearness(const LedgerLine& line, const Estimate& e) {
  if (e.verdict == Verdict::undecided)
    return !e.why.empty() ? -INFINITY : e.seeds_needed ? -double(*e.seeds_needed) : -std::numeric_limits<double>::max();
  if (e.test >= line.claim.tests.size()) return 0;
  const ClaimTest& test = line.claim.tests[e.test];
  const bool logs = test.kind == ClaimTestKind::probe || test.kind == ClaimTestKind::timing;
  const auto scaled = [&](double value) { return logs ? std::log(value) : value; };
  double distance = INFINITY;
  for (const auto& bound : {test.range.low, test.range.high})
    for (const double end : {e.low, e.high})
      if (bound) distance = std::min(distance, std::abs(scaled(end) - scaled(*bound)));
  const double width = scaled(e.high) - scaled(e.low);
  return width > 0 ? distance / width : distance;
}

/// "undecided: 34 seeds would decide it".
std::string verdict_text(const LedgerLine& line) {
  std::string text(words_of(line.verdict));
  const Estimate* e = line.verdict == Verdict::undecided ? deciding(line) : nullptr;
  if (e == nullptr) return text;
  if (!e->why.empty()) return text + ": " + e->why;
  const std::string one = line.claim.bench.empty() ? "seed" : "repetition";
  if (!e->seeds_needed) return text + ": a million " + one + "s would not decide it";
  return text + fmt::format(": about {} would decide it", plural(*e->seeds_needed, one));
}

bool judged(const LedgerLine& line) { return line.verdict < Verdict::not_run; }

std::string where_it_ends(const LedgerLine& line) {
  if (!judged(line) || line.claim.scale != ClaimScale::twin) return "";
  if (!line.curves) return "not decided: the results have no curves";
  if (line.learning.empty()) return "the same: training loss has settled";
  std::string rows = line.learning.front();
  if (line.learning.size() > 1) rows += fmt::format(" and {} more", line.learning.size() - 1);
  return "not decided: " + rows + " still learned";
}

/// "23", or "23 on NVIDIA H200".
std::string number_text(const LedgerLine& line) {
  return line.device.empty() ? line.number : line.number + " on " + line.device;
}

std::vector<std::string> notes(const std::vector<LedgerLine>& lines) {
  std::size_t count[5] = {}, claims = 0;
  for (const LedgerLine& line : lines)
    if (line.device.empty()) ++count[std::size_t(line.verdict)], ++claims;
  std::vector<std::string> out = {
      fmt::format("{}: {} {} here, {} {} here, {} undecided, {} not run, {} only at the published size.",
                  plural(claims, "claim"), count[0], count[0] == 1 ? "holds" : "hold", count[1],
                  count[1] == 1 ? "fails" : "fail", count[2], count[3], count[4]),
      fmt::format(
          "All intervals of one claim hold together with probability {:g}. Of {}, {:.1f} are then expected to have "
          "an interval that misses.",
          kClaimLevel, plural(count[0] + count[1] + count[2], "judged claim"),
          (1 - kClaimLevel) * double(count[0] + count[1] + count[2])),
      "A verdict concerns the networks, data and lengths of training that were run. It does not say that a publication "
      "is right or wrong.",
      "Where it ends: a row has finished learning if its training loss over the last tenth of the steps is less than "
      "5% below that of the tenth before. A rate that falls to zero makes this easy to pass.",
  };
  std::map<std::string, std::size_t> copies;
  for (const LedgerLine& line : lines)
    for (const std::string& copy : line.copies) ++copies[copy];
  for (const auto& [copy, number] : copies)
    out.push_back(fmt::format("Data of {}: {}{}.", plural(number, "claim"), copy, kNotPublished));
  if (claims < lines.size()) out.front() += " Timings on a GPU are listed but not counted.";
  return out;
}

constexpr std::size_t kWidestMarkdown = 120;
constexpr const char* kHeadings[] = {
    "#", "source", "claim", "printed", "found", "verdict at this length", "where it ends", "command"};

std::vector<std::string> cells(const LedgerLine& line) {
  return {number_text(line), line.claim.source,  line.claim.says,     line.claim.printed,
          finding(line),     verdict_text(line), where_it_ends(line), line.command};
}

/// Each claim that fails, each that holds with a note on its scale, and claims whose seeds were raised. The notes on
/// timings are of the CPU.
std::vector<std::string> claim_notes(const std::vector<LedgerLine>& lines) {
  std::vector<std::string> out;
  for (const LedgerLine& line : lines) {
    const std::string& note = line.claim.scale_note;
    if (!line.device.empty()) continue;
    if (!line.raised_seeds.empty()) out.push_back(fmt::format("Claim {}: {}", line.number, line.raised_seeds));
    if (line.verdict == Verdict::fails || (line.verdict == Verdict::holds && !note.empty()))
      out.push_back(fmt::format("Claim {} {}.{}", line.number, words_of(line.verdict), note.empty() ? "" : " " + note));
  }
  return out;
}

}  // namespace

const Estimate* deciding(const LedgerLine& line) {
  // Where all must agree the weakest one decides, where one suffices the clearest.
  const auto weaker = [&](const Estimate* a, const Estimate* b) { return clearness(line, *a) < clearness(line, *b); };
  const auto pick = [&](std::vector<const Estimate*> among, bool clearest) -> const Estimate* {
    if (among.empty()) return nullptr;
    return clearest ? *std::max_element(among.begin(), among.end(), weaker)
                    : *std::min_element(among.begin(), among.end(), weaker);
  };
  std::map<std::size_t, std::vector<const Estimate*>> by_test;
  for (const Estimate& e : line.estimates)
    if (e.verdict == line.verdict) by_test[e.test].push_back(&e);
  std::vector<const Estimate*> of_tests;
  for (const auto& [test, estimates] : by_test) {
    const bool any = test < line.claim.tests.size() && line.claim.tests[test].any;
    of_tests.push_back(pick(estimates, any ? line.verdict == Verdict::holds : line.verdict == Verdict::fails));
  }
  return pick(of_tests, line.verdict == Verdict::fails);
}

std::string estimate_text(const Estimate& e) {
  if (!has_interval(e)) return "-";
  const double half = (e.high - e.low) / 2;
  const int decimals = half > 0 && std::isfinite(half) ? decimals_for(half) : 2;
  const bool sign = e.unit == "points";
  const auto number = [&](double v) { return sign ? signed_fixed(v, decimals) : fixed(v, decimals); };
  return fmt::format("{} [{}, {}]{}", number(e.value), number(e.low), number(e.high),
                     e.unit.empty() ? "" : " " + e.unit);
}

std::string ledger_text(const std::vector<LedgerLine>& lines, std::size_t width) {
  std::string out;
  const auto add = [&](const std::string& text) {
    for (const std::string& each : wrapped(text, width - 4)) out += "    " + each + "\n";
  };
  for (const LedgerLine& line : lines) {
    const std::string head = fmt::format("{:<3} {}", number_text(line), verdict_text(line));
    for (const std::string& each : wrapped(head, width)) out += each + "\n";
    add(fmt::format("{}: {}{}", line.claim.source, line.claim.says,
                    line.claim.printed.empty() ? "" : " Printed: " + line.claim.printed + "."));
    add("Found: " + finding(line));
    if (const std::string ends = where_it_ends(line); !ends.empty()) add("Where it ends: " + ends);
    if (!line.command.empty()) add(line.command);
  }
  out += "\n";
  for (const auto& list : {claim_notes(lines), notes(lines)})
    for (const std::string& note : list)
      for (const std::string& each : wrapped(note, width)) out += each + "\n";
  return out;
}

std::string ledger_markdown(const std::vector<LedgerLine>& lines) {
  std::string out, rule;
  for (const char* heading : kHeadings) out += fmt::format("| {} ", heading), rule += "|---";
  out += "|\n" + rule + "|\n";
  for (const LedgerLine& line : lines) {
    for (const std::string& cell : cells(line)) out += fmt::format("| {} ", markdown_cell(cell));
    out += "|\n";
  }
  for (const auto& list : {claim_notes(lines), notes(lines)}) {
    out += "\n";
    for (const std::string& note : list) out += broken_lines("- " + note, kWidestMarkdown) + "\n";
  }
  return out;
}

std::string ledger_html(const std::vector<LedgerLine>& lines) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>Claims</title>\n<style>:root{color-scheme:light dark}body{font:15px/1.4 "
      "system-ui,sans-serif;margin:1rem}table{border-collapse:collapse}td,th{border-bottom:1px solid "
      "#8888;padding:.3rem .6rem;text-align:left;vertical-align:top}</style>\n<h1>Claims</h1>\n<table>\n<tr>";
  for (const char* heading : kHeadings) out += fmt::format("<th>{}</th>", heading);
  out += "</tr>\n";
  for (const LedgerLine& line : lines) {
    out += "<tr>";
    for (const std::string& cell : cells(line)) out += fmt::format("<td>{}</td>", escaped(cell));
    out += "</tr>\n";
  }
  out += "</table>\n<ul>\n";
  for (const auto& list : {claim_notes(lines), notes(lines)})
    for (const std::string& note : list) out += fmt::format("<li>{}</li>\n", escaped(note));
  return out + "</ul>\n</html>\n";
}

nlohmann::ordered_json ledger_json(const std::vector<LedgerLine>& lines) {
  nlohmann::ordered_json out{{"schema", 1}, {"level", kClaimLevel}, {"claims", nlohmann::ordered_json::array()}};
  for (const LedgerLine& line : lines) {
    nlohmann::ordered_json estimates = nlohmann::ordered_json::array();
    for (const Estimate& e : line.estimates) {
      nlohmann::ordered_json one{{"estimate", e.label}, {"unit", e.unit}, {"n", e.n}, {"verdict", words_of(e.verdict)}};
      if (has_interval(e)) one.update({{"value", e.value}, {"low", e.low}, {"high", e.high}});
      if (e.seeds_needed) one["seeds_needed"] = *e.seeds_needed;
      if (!e.why.empty()) one["why"] = e.why;
      estimates.push_back(std::move(one));
    }
    out["claims"].push_back({{"number", line.number},
                             {"name", line.name},
                             {"source", line.claim.source},
                             {"says", line.claim.says},
                             {"printed", line.claim.printed},
                             {"verdict", words_of(line.verdict)},
                             {"still_learning", line.learning},
                             {"runs", line.runs},
                             {"done", line.done},
                             {"estimates", std::move(estimates)},
                             {"command", line.command}});
    if (!line.device.empty()) out["claims"].back()["device"] = line.device;
  }
  return out;
}

}  // namespace normlab
