#include "experiments/lab/ledger/page.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/sweep_table.h"
#include "tests/lab/base/text.h"
#include "tests/lab/ledger/made_up_claim.h"

using namespace normlab;

TEST_CASE("ledger: a note names the claims that were judged on a JPEG copy") {
  const MadeUpClaim published(kGain), copy(kGain);
  published.finish(0.05);
  copy.finish(0.05, {}, "cifar10 as JPEG, quality 75");
  CHECK(!has(ledger_text({published.line()}, 80, false), "Data of"));
  CHECK(has(ledger_text({published.line(), copy.line()}, 80, false),
            "Data of 1 claim: cifar10 as JPEG, quality 75: not the published pixels."));
}

TEST_CASE("ledger: text, Markdown, HTML and JSON say the same") {
  const MadeUpClaim made(kGain);
  made.finish(-0.05);
  LedgerLine line = made.line();
  line.command = "normlab run 07-it-helps.json";
  line.claim.scale_note = "Too small | too short.";
  const std::string estimate = estimate_text(line.estimates[0]);
  CHECK(estimate.starts_with("-5"));
  for (const std::string& text : {ledger_text({line}, 200, true), ledger_markdown({line}), ledger_html({line})}) {
    CAPTURE(text);
    for (const std::string& part : {std::string("fails here"), estimate, line.command, std::string("A paper, Table 1"),
                                    std::string("Each gain of placement = dpn is at least 0 points.")})
      CHECK(has(text, part));
  }
  CHECK(has(ledger_text({line}, 200, true), "Caveat: Too small | too short."));
  CHECK(has(ledger_markdown({line}), "- Caveat: Too small \\| too short."));
  CHECK(has(ledger_html({line}), "<dd>Too small | too short.</dd>"));
  CHECK_FALSE(has(ledger_text({line}, 200, false), line.command));
  std::istringstream rows(ledger_text({line}, 60, true));
  for (std::string row; std::getline(rows, row);) CHECK(display_width(row) <= 60);
  const auto json = ledger_json({line});
  REQUIRE(json["claims"].size() == 1);
  CHECK(json["claims"][0]["verdict"] == "fails here");
  CHECK(json["claims"][0]["estimates"][0]["value"].get<double>() == line.estimates[0].value);
}

TEST_CASE("ledger: seeds that were raised after a verdict are told with the claim") {
  const MadeUpClaim made(kGain);
  made.finish(0.05);
  CHECK(made.line().raised_seeds.empty());
  made.store.write_plan(made.experiment.stem, "{}");
  REQUIRE(note_tabled_seeds(made.experiment, made.store));
  Experiment more = made.experiment;
  for (Cell& row : more.rows) {
    row.trials.push_back(more.trials.size());
    Trial trial = more.trials[row.trials.front()];
    trial.config.seed = 3;
    trial.id.back() = trial.id.back() == '0' ? '1' : '0';
    more.trials.push_back(trial);
  }
  const LedgerLine line = judge_claim(more, made.store, "none");
  CHECK(has(line.raised_seeds, "Seeds were raised once after results had been read (with 3; now 4)"));
  CHECK(has(ledger_text({line}, 200, true), "Seeds: Seeds were raised once"));
}

TEST_CASE("ledger: an interval of a single value is printed, a missing one is not") {
  LedgerLine line;
  line.estimates = {{.label = "best rate", .unit = "", .n = 5, .verdict = Verdict::holds},
                    {.label = "one pair", .unit = "points", .value = 3, .n = 1, .verdict = Verdict::undecided}};
  CHECK(estimate_text(line.estimates[0]) == "0.00 [0.00, 0.00]");
  CHECK(estimate_text(line.estimates[1]) == "-");
  const auto json = ledger_json({line})["claims"][0]["estimates"];
  CHECK(json[0].value("low", 1.0) == 0.0);
  CHECK_FALSE(json[1].contains("value"));
}

TEST_CASE("ledger: printed figures are computed from the cells") {
  TestedClaim claim;
  claim.printed.words = "figure";
  CHECK(printed_text(claim) == "figure");
  claim.printed = {.as = PrintedAs::difference,
                   .unit = "points",
                   .where = "Table 6",
                   .values = {{"B/32", 61.2 - 63.8}, {"S/32", 63.7 - 64.1}},
                   .decimals = 1};
  CHECK(printed_text(claim) == "-2.6, -0.4");
  claim.printed.values.emplace_back("Ti/16", 71.0 - 72.1);
  CHECK(printed_text(claim) == "-2.6 to -0.4");
  claim.printed = {
      .as = PrintedAs::ratio, .unit = "x", .where = "Table 6", .values = {{"Swin-T", 901.0 / 770.0}}, .decimals = 2};
  CHECK(printed_text(claim) == "1.17 x");
}

TEST_CASE("ledger: the sign of an interval's end is shown") {
  Estimate e{.label = "", .unit = "points", .value = -1, .low = -1.9, .high = -0.011, .n = 5};
  e.verdict = Verdict::fails;
  CHECK(estimate_text(e) == "-1.00 [-1.90, -0.01] points");
  e.high = 0.3;
  CHECK(estimate_text(e) == "-1.0 [-1.9, +0.3] points");
}

TEST_CASE("ledger: the tables of the page are at most 100 columns wide") {
  MadeUpClaim made(kGain);
  made.finish(0.05);
  made.experiment.claim.brief = std::string(120, 'x');
  std::istringstream rows(ledger_text({made.line()}, 300, false));
  std::size_t tables = 0;
  for (std::string row; std::getline(rows, row);)
    if (row.starts_with("7 ")) {
      CHECK(display_width(row) <= 100);
      ++tables;
    }
  CHECK(tables == 1);
}

TEST_CASE("ledger: the forest plot measures the distance from the bound in margins, and clips what is far away") {
  const MadeUpClaim made(R"({"kind": "gain", "where": "placement = dpn", "range": [0, null], "margin": 0.5})");
  made.finish(0.05);
  const std::string plot = forest_plot({made.line()}, true);
  CHECK(has(plot, ">+9.9"));  // beside an arrow
  CHECK(has(plot, "Arrows: beyond the axis, at the number beside them."));
  CHECK(!has(plot, "p-bar p-s3"));  // the whole interval is beyond
  CHECK(has(plot, "7  It helps."));
  LedgerLine missing = made.line();
  missing.verdict = Verdict::not_run;
  CHECK_FALSE(has(forest_plot({missing}, true), "It helps."));
}
