#include "experiments/lab/tables/table.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/table_filter.h"
#include "tests/lab/base/text.h"
#include "tests/lab/tables/table_example.h"

using namespace normlab;

namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) text.replace(at, from.size(), to);
}

TableOptions gains_across() {
  TableOptions options;
  options.rows = {"placement"};
  options.cols = {"lr"};
  options.cells = TableCellContent::gain;
  return options;
}

/// Rows, seeds and states by chance.
TableInput random_table(std::uint32_t number) {
  std::mt19937 draw(number);
  const auto below = [&](std::uint32_t limit) { return draw() % limit; };
  TableInput input;
  input.axes = {"model.placement", "train.optimizer.lr"};
  const std::size_t rows = 1 + below(6), seeds = 1 + below(5);
  const double noise = std::pow(10.0, double(below(4)) - 2);
  for (std::size_t r = 0; r < rows; ++r) {
    std::vector<TableSeed> cells;
    for (std::uint64_t s = 0; s < seeds; ++s) {
      const auto state = below(8);
      cells.push_back(state == 0   ? other_seed(s, SeedState::missing)
                      : state == 1 ? diverged_seed(s, 10)
                                   : done_seed(s, 50 + double(r) + noise * double(below(1000)) / 500));
    }
    input.rows.push_back(table_row("row " + std::to_string(r), {"p" + std::to_string(r), std::to_string(r % 2)},
                                   below(5) == 0 ? std::nullopt : std::optional<std::size_t>(0), std::move(cells)));
  }
  return input;
}

}  // namespace

TEST_CASE("table: text shows every state of a trial") {
  const std::string text = rendered(states_table(), TableFormat::text);
  check_fits(text);
  CHECK(text == R"golden(Does Dual PatchNorm help?

placement  eval/accuracy [%]  gain          notes
pre_pre    75.9 ±0.7 (3)      baseline
pre_post   76.2 ±1.0 (3)       +0.3 ±0.8
post_post  51.3      (1/3)    -24.8      †  2/3 diverged @1200 (rate 9 to 99%)
dpn        76.8 ±3.8 (2/3)     +1.0 ±0.5 *  1/3 running 43%
sub_ln               (0/3)                  1/3 failed: out of memory, 1/3
                                            stopped at 50%, 1/3 missing
none                 (0/3)                  missing

±0.7 (3): 95% t interval of the mean of 3 seeds; last evaluation.
Gains: paired by seed; all 2 intervals hold with 87 to 100%; * leaves out 0.
If no row differed, the best of 2 rows would still show about +0.1.
3 seeds show a true gain of 0.4 four times in five, in a typical row.
Diverged runs do not count; † marks gains over the pairs in which both runs
finished.
(rate a to b%): 95% interval of the share of runs that diverge.
7 of 18 runs are not finished: these numbers will change.
)golden");
}

TEST_CASE("table: Markdown shows every state of a trial") {
  CHECK(rendered(states_table(), TableFormat::markdown) == R"golden(Does Dual PatchNorm help?

| placement | eval/accuracy [%] | gain | notes |
|:---|---:|---:|:---|
| pre_pre | 75.9 ±0.7 (3) | baseline |  |
| pre_post | 76.2 ±1.0 (3) | +0.3 ±0.8 |  |
| post_post | 51.3 (1/3) | -24.8 † | 2/3 diverged @1200 (rate 9 to 99%) |
| dpn | 76.8 ±3.8 (2/3) | +1.0 ±0.5 \* | 1/3 running 43% |
| sub_ln | (0/3) |  | 1/3 failed: out of memory, 1/3 stopped at 50%, 1/3 missing |
| none | (0/3) |  | missing |

- ±0.7 (3): 95% t interval of the mean of 3 seeds; last evaluation.
- Gains: paired by seed; all 2 intervals hold with 87 to 100%; \* leaves out 0.
- If no row differed, the best of 2 rows would still show about +0.1.
- 3 seeds show a true gain of 0.4 four times in five, in a typical row.
- Diverged runs do not count; † marks gains over the pairs in which both runs finished.
- (rate a to b%): 95% interval of the share of runs that diverge.
- 7 of 18 runs are not finished: these numbers will change.
)golden");
}

/// The lines of a CSV, by cell; no cell of these tables has a comma or quote.
std::vector<std::vector<std::string>> csv_cells(const std::string& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line + ",");
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

TEST_CASE("table: CSV has all digits") {
  const TableModel model = table_model(states_table(), {});
  const auto cells = csv_cells(render_table(model, TableFormat::csv));
  REQUIRE(cells.size() == 7);
  for (const std::size_t r : {0, 1, 3}) {
    CAPTURE(r);
    const TableLine& line = model.lines[r];
    const std::vector<std::string>& row = cells[r + 1];
    CHECK(row[0] == line.label);
    CHECK(std::stod(row[1]) == *line.mean.value);
    CHECK(std::stod(row[2]) == *line.half_width.value);
    CHECK(row[3] == std::to_string(line.n));
    if (line.is_baseline) continue;
    CHECK(std::stod(row[5]) == *line.gain.value);
    CHECK(std::stod(row[6]) == *line.gain_half_width.value);
    CHECK(std::stod(row[7]) == *line.gain_low.value);
    CHECK(std::stod(row[8]) == *line.gain_high.value);
    CHECK(std::stod(row[10]) == *line.p.value);
    CHECK(row[11] == (line.differs ? "yes" : "no"));
  }
}

TEST_CASE("table: CSV has words where there is no number") {
  const std::string csv = rendered(states_table(), TableFormat::csv);
  CHECK(
      csv.starts_with("model.placement,eval/accuracy [%],half_width,n,planned,gain,gain_half_width,gain_low,"
                      "gain_high,pairs,p,differs,notes\n"));
  CHECK(has(csv, ",,0,3,,,,,0,,,\"1/3 failed: out of memory, 1/3 stopped at 50%, 1/3 missing\"\n"));
  CHECK(csv_cells(csv).at(3).back() == "2/3 diverged @1200 (rate 9 to 99%)");
}

TEST_CASE("table: LaTeX with a caption and a label is a floating table") {
  const std::string latex = render_table(table_model(states_table(), {}), TableFormat::latex,
                                         {.caption = "50% of \"it\"", .label = "tab:it"});
  CHECK(has(latex, "\\begin{table}\n\\centering\n\\caption{50\\% of ``it''}\\label{tab:it}\\medskip\n"));
  CHECK(latex.ends_with("\\end{table}\n"));
}

TEST_CASE("table: LaTeX shows every state of a trial") {
  CHECK(rendered(states_table(), TableFormat::latex) ==
        R"golden(% In the preamble: \usepackage{booktabs} for better rules, \usepackage{siunitx} for aligned numbers
\providecommand{\toprule}{\hline}\providecommand{\midrule}{\hline}\providecommand{\bottomrule}{\hline}
\begingroup
\sisetup{detect-weight,retain-explicit-plus}
\noindent\begin{tabular}{lS[table-format=2.1]@{\,}c@{\,}S[table-format=1.1]@{\,}lS[table-format=-2.1]@{\,}c@{\,}S[table-format=1.1]@{\,}l}
\toprule
placement & \multicolumn{4}{c}{eval/accuracy [\%]} & \multicolumn{4}{c}{gain} \\
\midrule
pre\_pre & 75.9 & $\pm$ & 0.7 & (3) & \multicolumn{4}{c}{baseline} \\
pre\_post & 76.2 & $\pm$ & 1.0 & (3) & +0.3 & $\pm$ & 0.8 &  \\
post\_post & 51.3 & & & (1/3)\textsuperscript{a} & -24.8 & & & $\dagger$ \\
dpn & 76.8 & $\pm$ & 3.8 & (2/3)\textsuperscript{b} & +1.0 & $\pm$ & 0.5 & * \\
sub\_ln & \multicolumn{4}{l}{--\textsuperscript{c}} & &&& \\
none & \multicolumn{4}{l}{--\textsuperscript{d}} & &&& \\
\bottomrule
\end{tabular}
\par\medskip
{\footnotesize\leftskip=0pt\rightskip=0pt\parfillskip=0pt plus 1fil\noindent
\textsuperscript{a}~2/3 diverged @1200 (rate 9 to 99\%).
\textsuperscript{b}~1/3 running 43\%.
\textsuperscript{c}~1/3 failed: out of memory, 1/3 stopped at 50\%, 1/3 missing.
\textsuperscript{d}~missing.
$\pm$0.7 (3): 95\% t interval of the mean of 3 seeds; last evaluation.
Gains: paired by seed; all 2 intervals hold with 87 to 100\%; * leaves out 0.
If no row differed, the best of 2 rows would still show about +0.1.
3 seeds show a true gain of 0.4 four times in five, in a typical row.
Diverged runs do not count; $\dagger$ marks gains over the pairs in which both runs finished.
(rate a to b\%): 95\% interval of the share of runs that diverge.
7 of 18 runs are not finished: these numbers will change.
\par}
\endgroup
)golden");
}

TEST_CASE("table: HTML shows every state of a trial") {
  CHECK(rendered(states_table(), TableFormat::html) ==
        R"golden(<table class="normlab-table" data-metric="eval/accuracy">
<caption>Does Dual PatchNorm help?</caption>
<thead>
<tr><th scope="col" data-key="model.placement">placement</th><th scope="col" data-key="mean" class="number">eval/accuracy [%]</th><th scope="col" data-key="gain" class="number">gain</th><th scope="col" data-key="notes">notes</th></tr>
</thead>
<tbody>
<tr class="baseline" data-rows="0"><th scope="row">pre_pre</th><td class="number" data-sort="75.892">75.9 ±0.7 (3)</td><td class="number">baseline</td><td></td></tr>
<tr data-rows="1"><th scope="row">pre_post</th><td class="number" data-sort="76.19233333333334">76.2 ±1.0 (3)</td><td class="number" data-sort="0.30033333333333206">+0.3 ±0.8</td><td></td></tr>
<tr data-rows="2"><th scope="row">post_post</th><td class="number" data-sort="51.300000000000004">51.3 (1/3)</td><td class="number" data-sort="-24.785999999999994">-24.8 †</td><td>2/3 diverged @1200 (rate 9 to 99%)</td></tr>
<tr data-rows="3"><th scope="row">dpn</th><td class="number" data-sort="76.8">76.8 ±3.8 (2/3)</td><td class="number" data-sort="0.984499999999997">+1.0 ±0.5 *</td><td>1/3 running 43%</td></tr>
<tr data-rows="4"><th scope="row">sub_ln</th><td class="number">(0/3)</td><td class="number"></td><td>1/3 failed: out of memory, 1/3 stopped at 50%, 1/3 missing</td></tr>
<tr data-rows="5"><th scope="row">none</th><td class="number">(0/3)</td><td class="number"></td><td>missing</td></tr>
</tbody>
<tfoot>
<tr><td colspan="4" data-note="interval">±0.7 (3): 95% t interval of the mean of 3 seeds; last evaluation.</td></tr>
<tr><td colspan="4" data-note="gain">Gains: paired by seed; all 2 intervals hold with 87 to 100%; * leaves out 0.</td></tr>
<tr><td colspan="4" data-note="chance">If no row differed, the best of 2 rows would still show about +0.1.</td></tr>
<tr><td colspan="4" data-note="power">3 seeds show a true gain of 0.4 four times in five, in a typical row.</td></tr>
<tr><td colspan="4" data-note="diverged">Diverged runs do not count; † marks gains over the pairs in which both runs finished.</td></tr>
<tr><td colspan="4" data-note="rate">(rate a to b%): 95% interval of the share of runs that diverge.</td></tr>
<tr><td colspan="4" data-note="unfinished">7 of 18 runs are not finished: these numbers will change.</td></tr>
</tfoot>
</table>
)golden");
}

TEST_CASE("table: text shows one axis across") {
  CHECK(rendered(strips_table(), TableFormat::text, gains_across()) == R"golden(Which placement, at which rate?

placement  lr=0.001       lr=0.003
pre_pre    baseline       baseline
dpn         +1.3 ±0.4  *   +1.3 ±0.4  *
sub_ln     +0.44 ±0.41 *  +0.44 ±0.41 *

Cells are gains in eval/accuracy [%] over the baseline.
Each run counts with its last evaluation.
Gains: paired by seed; all intervals with one baseline hold with 92 to 97%; *
leaves out 0.
If no row differed, the best of a strip would still show about +0.1.
5 seeds show a true gain of 0.5 four times in five, in a typical row.
)golden");
}

TEST_CASE("table: CSV has one axis across") {
  const TableModel model = table_model(strips_table(), {});
  const auto cells = csv_cells(rendered(strips_table(), TableFormat::csv, gains_across()));
  CHECK(cells[1] == std::vector<std::string>{"pre_pre", "baseline", "", "", "baseline", "", ""});
  for (const std::size_t r : {0, 1})
    for (const std::size_t c : {0, 1}) {
      const TableLine& line = model.lines[2 + 2 * r + c];
      CHECK(std::stod(cells[2 + r][1 + 3 * c]) == *line.gain.value);
      CHECK(std::stod(cells[2 + r][2 + 3 * c]) == *line.gain_half_width.value);
      CHECK(cells[2 + r][3 + 3 * c] == (line.differs ? "*" : ""));
    }
}

TEST_CASE("table: JSON has each seed in full") {
  const auto json = nlohmann::json::parse(rendered(states_table(), TableFormat::json));
  REQUIRE(json["rows"].size() == 6);
  CHECK(json["rows"][1]["seeds"][0]["value"] == 0.76672);
  CHECK(json["rows"][1]["seeds"][0]["trial"] == "t0");
  CHECK(json["rows"][2]["n"] == 1);
  CHECK(json["rows"][2]["planned"] == 3);
  CHECK(json["rows"][2]["seeds"][1]["diverged_step"] == 1200);
  CHECK(json["rows"][3]["seeds"][2]["progress"] == 0.437);
  CHECK(json["rows"][0]["axes"]["model.placement"] == "pre_pre");
  CHECK(json["footer"].size() == table_model(states_table(), {}).footer.size());
  CHECK(!json.contains("grid"));
}

TEST_CASE("table: JSON has a number for an axis of numbers") {
  const auto typed = nlohmann::json::parse(rendered(strips_table(), TableFormat::json));
  CHECK(typed["rows"][0]["axes"]["train.optimizer.lr"] == 0.001);
}

TEST_CASE("table: JSON has the grid of a table with an axis across") {
  const auto pivot = nlohmann::json::parse(rendered(strips_table(), TableFormat::json, gains_across()));
  CHECK(pivot["grid"][1][0] == "dpn");
  CHECK(pivot["columns"][2] == "lr=0.003");
}

TEST_CASE("table: every format has the numbers of a random table") {
  for (std::uint32_t number = 0; number < 60; ++number) {
    CAPTURE(number);
    const TableInput input = random_table(number);
    TableOptions options;
    if (number % 3 == 1) options.cols = {"lr"};
    if (number % 3 == 2) options.diverged = TableDiverged::chance;
    const TableModel model = table_model(input, options);
    const std::string text = render_table(model, TableFormat::text), html = render_table(model, TableFormat::html);
    std::string markdown = render_table(model, TableFormat::markdown), latex = render_table(model, TableFormat::latex);
    const std::string csv = render_table(model, TableFormat::csv);
    const auto json = nlohmann::json::parse(render_table(model, TableFormat::json));
    replace_all(markdown, "\\", "");
    replace_all(latex, "$\\dagger$", "†");
    std::string squeezed;  // text pads within cells
    for (const char c : text)
      if (c != ' ' || (!squeezed.empty() && squeezed.back() != ' ')) squeezed += c;
    for (const TableGridRow& row : model.grid)
      for (std::size_t c = 0; c < row.cells.size(); ++c) {
        const std::string cell = row.cells[c].text();
        if (cell.empty() || model.columns[c].kind != ColumnKind::number) continue;
        CAPTURE(cell);
        CHECK(has(squeezed, cell));
        CHECK(has(markdown, "| " + cell + " |"));
        for (const std::string& part : {row.cells[c].absent ? "" : row.cells[c].value, row.cells[c].half_width})
          CHECK(has(latex, part));
        CHECK(has(html, ">" + cell + "<"));
        if (!row.cells[c].sort || row.cells[c].value.empty()) continue;  // a CSV has no "baseline"
        CHECK(has(csv, fmt::format("{}", *row.cells[c].sort)));
      }
    const auto same = [](const nlohmann::json& value, const Figure& figure) {
      return figure.value ? value == *figure.value : value.is_null();
    };
    for (std::size_t i = 0; i < model.lines.size(); ++i) {
      CHECK(same(json["rows"][i]["mean"], model.lines[i].mean));
      CHECK(same(json["rows"][i]["half_width"], model.lines[i].half_width));
      CHECK(same(json["rows"][i]["gain"], model.lines[i].gain));
      CHECK(same(json["rows"][i]["gain_half_width"], model.lines[i].gain_half_width));
    }
    check_fits(text);
    CHECK(count(latex, "\\begin{") == count(latex, "\\end{"));
    CHECK(count(latex, "{") == count(latex, "}"));
    CHECK(count(html, "<tr") == count(html, "</tr>"));
    CHECK(count(html, "<td") == count(html, "</td>"));
  }
}
