#include "experiments/lab/ledger/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/table_model.h"
#include "experiments/lab/tables/table_parts.h"

namespace normlab {
namespace {

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

std::string unit_of(const ClaimTest& test) {
  switch (test.kind) {
    case ClaimTestKind::timing:
      return " x";
    case ClaimTestKind::probe:
      return test.over.empty() && test.against.empty() ? "" : " x";
    case ClaimTestKind::diverged:
      return test.against.empty() ? "%" : " points";
    case ClaimTestKind::trend:
    case ClaimTestKind::best:
      return "";
    default:
      return is_loss(test.kind == ClaimTestKind::difference ? test.of : test.metric) ? "" : " points";
  }
}

/// "at least 0 points", "outside 0.5 to 2 x".
std::string range_words(const ClaimTest& test) {
  const ClaimRange& range = test.range;
  const std::string unit = unit_of(test);
  if (range.low && range.high)
    return fmt::format("{}from {:g} to {:g}{}", range.outside ? "not " : "", *range.low, *range.high, unit);
  if (range.low) return fmt::format("{} {:g}{}", range.outside ? "below" : "at least", *range.low, unit);
  return fmt::format("{} {:g}{}", range.outside ? "above" : "at most", *range.high, unit);
}

std::string figure_text(const PrintedFigures& figures, double value) {
  return figures.as == PrintedAs::difference ? signed_fixed(value, figures.decimals) : fixed(value, figures.decimals);
}

/// The printed cells by name: "B/32 -2.6, S/32 -0.4 (Table 6)".
std::string cells_text(const TestedClaim& claim) {
  if (claim.printed.values.empty()) return claim.printed.words;
  std::vector<std::string> cells;
  for (const auto& [name, value] : claim.printed.values)
    cells.push_back(name + " " + figure_text(claim.printed, value));
  return joined(cells, ", ") + (claim.printed.unit.empty() ? "" : " " + claim.printed.unit) + " (" +
         claim.printed.where + ")";
}

}  // namespace

std::string runs_text(const RunOrigins& origins, std::string_view one) {
  std::string text = fmt::format("{} of {}", origins.done, plural(origins.runs, one));
  if (!origins.archives.empty())
    text += " in " + joined(std::vector(origins.archives.begin(), origins.archives.end()), ", ");
  std::vector<std::string> machines;
  for (const auto& [name, runs] : origins.machines)
    machines.push_back(origins.machines.size() > 1 ? fmt::format("{} ({})", name, runs) : name);
  if (!machines.empty()) text += ", trained on " + joined(machines, ", ");
  if (origins.uncommitted > 0)
    text += fmt::format("; {} of them by programs built from uncommitted sources", origins.uncommitted);
  return text + ".";
}

std::string text_of(const TestedClaim& claim) { return claim.source.substr(0, claim.source.find_first_of(",;")); }

std::string printed_text(const TestedClaim& claim) {
  const PrintedFigures& figures = claim.printed;
  if (figures.values.empty()) return figures.words;
  std::vector<double> values;
  for (const auto& [name, value] : figures.values) values.push_back(value);
  std::sort(values.begin(), values.end());
  std::string out = figure_text(figures, values.front());
  if (const std::string last = figure_text(figures, values.back()); last != out)
    out += (values.size() > 2 ? " to " : ", ") + last;
  return figures.unit.empty() || figures.unit == "points" ? out : out + " " + figures.unit;
}

std::string number_text(const LedgerLine& line) {
  return line.device.empty() ? line.number : line.number + " on " + line.device;
}

std::string finding(const LedgerLine& line) {
  if (line.verdict == Verdict::paper_scale) return "-";
  if (line.verdict == Verdict::not_run && line.runs == 0 && line.more_to_come) return "to be tuned first";
  if (line.verdict == Verdict::not_run)
    return fmt::format("{} of {}", line.done, plural(line.runs, line.claim.bench.empty() ? "run" : "repetition"));
  const Estimate* e = deciding(line);
  return e == nullptr ? "-" : estimate_text(*e);
}

std::string verdict_text(const LedgerLine& line) {
  std::string text(words_of(line.verdict));
  const Estimate* e = line.verdict == Verdict::undecided ? deciding(line) : nullptr;
  if (e == nullptr) return text;
  if (!e->why.empty()) return text + ": " + e->why;
  const std::string one = line.claim.bench.empty() ? "seed" : "repetition";
  if (!e->seeds_needed) return text + ": a million " + one + "s would not decide it";
  return text + fmt::format(": about {} would decide it", plural(*e->seeds_needed, one));
}

std::string test_sentence(const ClaimTest& test) {
  const auto rows = [](const std::string& filter) { return filter.empty() ? "every row" : filter; };
  const std::string one = test.any ? "A" : "Each", where = rows(test.where), against = rows(test.against);
  std::string what;
  switch (test.kind) {
    case ClaimTestKind::gain:
      what = concat(one, " gain of ", where, test.metric == "eval/accuracy" ? "" : " in " + test.metric);
      break;
    case ClaimTestKind::interaction:
      what = concat("The gain of ", where, " minus that of ", against);
      break;
    case ClaimTestKind::slope:
      what = concat("The change of the gain of ", where, " for each unit of ", test.over);
      break;
    case ClaimTestKind::contrast:
      what = concat(test.metric, " of ", where, " minus that of ", against);
      break;
    case ClaimTestKind::difference:
      what = concat(test.of, " minus ", test.over, " of ", where);
      break;
    case ClaimTestKind::probe:
      what = concat(test.of, test.over.empty() ? "" : " over " + test.over, " of ", where);
      if (!test.against.empty())
        what += concat(", divided by ", test.against_of.empty() ? "that" : test.against_of,
                       test.against_of.empty() || test.over.empty() ? "" : " over " + test.over, " of ", against, ",");
      break;
    case ClaimTestKind::trend:
      what = concat("The rank correlation of ", test.of, " with depth, ", where, ",");
      break;
    case ClaimTestKind::diverged:
      what = concat("The share of diverged runs of ", where, test.against.empty() ? "" : " minus that of " + against);
      break;
    case ClaimTestKind::best:
      what = concat("The best ", test.over, " of ", where, " minus that of ", against);
      break;
    case ClaimTestKind::timing:
      what = concat(test.of, " over ", test.over);
      break;
  }
  return what + " is " + range_words(test) + ".";
}

std::string where_it_ends(const LedgerLine& line) {
  if (line.verdict >= Verdict::not_run || line.claim.scale != ClaimScale::twin) return "";
  std::string text =
      line.ends ? "as here: twice the training changes no gain by more than its margin" : "at this length only";
  if (!line.by_length.empty()) {
    std::vector<std::string> lengths;
    for (const auto& [length, verdict] : line.by_length) lengths.push_back(concat(length, " ", words_of(verdict)));
    text += "; " + joined(lengths, ", ");
  }
  for (const Doubling& d : line.doublings) {
    const int decimals = decimals_for(std::max((d.high - d.low) / 2, 1e-9));
    text += fmt::format("; {}: {} after {} less {}, margin {:g}", d.label,
                        fmt::format("{} [{}, {}]", signed_fixed(d.value, decimals), signed_fixed(d.low, decimals),
                                    signed_fixed(d.high, decimals)),
                        d.to, d.from, d.margin);
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> claim_facts(const LedgerLine& line) {
  const TestedClaim& claim = line.claim;
  std::vector<std::pair<std::string, std::string>> facts;
  const auto add = [&](const char* heading, const std::string& text) {
    if (!text.empty()) facts.emplace_back(heading, text);
  };
  const char* quote = claim.paraphrase ? "" : "\"";
  add(claim.paraphrase ? "In our words" : "Says", concat(quote, claim.says, quote, " (", claim.source, ")"));
  add("Printed", cells_text(claim));
  std::vector<std::string> tests;
  for (const ClaimTest& test : claim.tests) tests.push_back(test_sentence(test));
  add("Tested", joined(tests, " "));
  add("Reading", claim.reading);
  add("Verdict", verdict_text(line));
  add("Where it ends", where_it_ends(line));
  add("Caveat", claim.scale_note);
  add("Seeds", line.raised_seeds);
  if (line.runs > 0) add("Runs", runs_text(line, claim.bench.empty() ? "run" : "repetition"));
  if (!line.command.empty()) add("Command", line.command);
  return facts;
}

const Estimate* deciding(const LedgerLine& line) {
  // Where all are needed for the verdict the weakest one decides, where one suffices the clearest.
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
    of_tests.push_back(pick(estimates, any ? line.verdict != Verdict::fails : line.verdict == Verdict::fails));
  }
  return pick(of_tests, line.verdict == Verdict::fails);
}

std::string estimate_text(const Estimate& e) {
  if (!has_interval(e)) return "-";
  const double half = (e.high - e.low) / 2;
  int decimals = half > 0 && std::isfinite(half) ? decimals_for(half) : 2;
  if (e.unit == "x") decimals = std::max(decimals, 2);
  // "+0.0" would hide on which side of zero an end lies.
  const auto hidden = [&](double v) { return v != 0 && std::abs(v) < 0.5 * std::pow(10.0, -decimals); };
  while (decimals < 4 && (hidden(e.low) || hidden(e.high))) ++decimals;
  const bool sign = e.unit == "points";
  const auto number = [&](double v) { return sign ? signed_fixed(v, decimals) : fixed(v, decimals); };
  return fmt::format("{} [{}, {}]{}", number(e.value), number(e.low), number(e.high),
                     e.unit.empty() ? "" : " " + e.unit);
}

}  // namespace normlab
