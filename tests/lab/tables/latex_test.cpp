// LaTeX tables, and whether LaTeX accepts them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "core/error.h"
#include "experiments/lab/tables/table.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/tables/table_example.h"

using namespace normlab;

namespace {

const char* const kHardNames[] = {"a_b & 50% #1 {x} ~^\\ $ \"q\" <|>", "größe_naïve", "*star", "[0,1]",
                                  "tab\there, \x01 and \xff",          "-1"};

TableInput table_with(const std::string& name) {
  TableInput input = states_table();
  input.about = "Does " + name + " help?";
  input.rows[0].axes[0] = name;
  for (TableRow& row : input.rows) row.axes.emplace_back(row.label == "dpn" ? "0.001" : name);
  input.axes.emplace_back("train.my_key");
  input.rows[4].seeds[0].message = name;
  input.remarks.push_back("Chosen for " + name + " (\"tuned_for\").");
  return input;
}

/// A row more than a page holds.
TableInput long_table() {
  TableInput input = one_strip();
  while (input.rows.size() < 46) {
    input.rows.push_back(input.rows[1]);
    input.rows.back().axes[0] = concat("row ", input.rows.size());
  }
  return input;
}

std::string latex_of(const std::string& name, const std::string& caption = "", const std::string& label = "") {
  TableLayout layout;
  layout.caption = caption;
  layout.label = label;
  return render_table(table_model(table_with(name), {}), TableFormat::latex, layout);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// The commands of the comment that a table begins with.
std::string preamble_of(const std::string& latex) {
  std::string preamble, comment = first_line(latex);
  for (std::size_t at = 0; (at = comment.find("\\usepackage", at)) != comment.npos;) {
    const std::size_t end = comment.find('}', at) + 1;
    preamble += comment.substr(at, end - at) + "\n";
    at = end;
  }
  return preamble;
}

int shell(const std::string& command) {
  return std::system(("{ " + command + "; } >/dev/null 2>&1 </dev/null").c_str());
}

/// "" where pdflatex accepts the table, otherwise its log.
std::string refusal(const TemporaryFolder& folder, const std::string& preamble, const std::string& latex) {
  std::ofstream(folder / "table.tex") << "\\documentclass{article}\n"
                                      << preamble << "\\begin{document}\n"
                                      << latex << "\\end{document}\n";
  const std::string call = "pdflatex -draftmode -halt-on-error -interaction=nonstopmode table.tex";
  return shell("cd '" + folder.path().string() + "' && " + call) == 0 ? "" : text_of(folder / "table.log");
}

}  // namespace

TEST_CASE("latex: pdflatex accepts every table with the preamble of its comment") {
  const TemporaryFolder folder;
  if (shell("pdflatex --version") != 0) {
    MESSAGE("skipped: no pdflatex on this machine (Debian's texlive-latex-base)");
    return;
  }
  if (shell("kpsewhich siunitx.sty longtable.sty") != 0) {
    MESSAGE("skipped: no siunitx on this machine (Debian's texlive-science)");
    return;
  }
  const bool booktabs = shell("kpsewhich booktabs.sty") == 0;
  if (!booktabs) MESSAGE("without booktabs, which this machine lacks (Debian's texlive-latex-recommended)");
  const auto check = [&](const std::string& latex) {
    std::string preamble = preamble_of(latex);
    if (booktabs) CHECK(refusal(folder, preamble, latex) == "");
    preamble.erase(preamble.find("\\usepackage{booktabs}"), std::string_view("\\usepackage{booktabs}").size());
    CHECK(refusal(folder, preamble, latex) == "");
  };
  for (const std::string name : kHardNames) {
    CAPTURE(name);
    check(latex_of(name));
    check(latex_of(name, "Gains of " + name, "tab:my_gains"));
  }
  std::string letters;  // all of Latin-1 and Latin Extended-A that T1 has
  for (std::uint32_t code = 0xA1; code <= 0x17E; ++code) {
    const std::string letter{char(0xC0 | code >> 6), char(0x80 | (code & 0x3F))};
    if (std::string_view("ĦħĸĿŀŉŦŧ").find(letter) == std::string_view::npos) letters += letter + ' ';
  }
  check(latex_of(letters, letters));
  TableOptions across;
  across.cols = {"lr"};
  across.bold = TableBold::best;
  for (const char* const caption : {"", "Rates"}) {
    const auto latex = [&](const TableInput& input, const TableOptions& options) {
      return render_table(table_model(input, options), TableFormat::latex,
                          {.width = kTableWidth, .caption = caption, .label = {}});
    };
    check(latex(strips_table(), across));
    check(latex(long_table(), {}));
    TableOptions pairs;
    pairs.pairs = TablePairs::all;
    check(latex(strips_table(), pairs));
  }
}

TEST_CASE("latex: a table of more than 45 rows continues on further pages") {
  const std::string latex = render_table(table_model(long_table(), {}), TableFormat::latex,
                                         {.width = kTableWidth, .caption = "Many", .label = "tab:many"});
  CHECK(has(first_line(latex), "\\usepackage{longtable} for tables of several pages, which stand in one column"));
  CHECK(has(latex, "\\caption{Many}\\label{tab:many}\\\\\n\\toprule\n"));
  CHECK(has(latex, "\\endfirsthead\n\\toprule\n"));
  CHECK(has(latex, "continued on the next page"));
  CHECK(!has(latex, "{table}"));
  TableInput input = long_table();
  input.rows.pop_back();
  CHECK(!has(render_table(table_model(input, {}), TableFormat::latex), "longtable"));
}

TEST_CASE("latex: --wide spans both columns of a page, with or without a caption") {
  for (const char* const caption : {"", "Rates"}) {
    TableLayout layout;
    layout.caption = caption;
    const std::string narrow = render_table(table_model(one_strip(), {}), TableFormat::latex, layout);
    CHECK(has(narrow, "\\begin{table}") == !layout.caption.empty());
    CHECK_FALSE(has(narrow, "table*"));
    layout.wide = true;
    const std::string wide = render_table(table_model(one_strip(), {}), TableFormat::latex, layout);
    CHECK(has(wide, "\\begin{table*}\n\\centering\n"));
    CHECK(wide.ends_with("\\end{table*}\n"));
  }
}

TEST_CASE("latex: numbers, their half widths and what follows have columns of their own") {
  const std::string latex = render_table(table_model(states_table(), {}), TableFormat::latex);
  CHECK(has(latex,
            "S[table-format=2.1]@{\\,}c@{\\,}S[table-format=1.1]@{\\,}l"
            "S[table-format=-2.1]@{\\,}c@{\\,}S[table-format=1.1]@{\\,}l}"));
  CHECK(has(latex, "\npre\\_post & 76.2 & $\\pm$ & 1.0 & (3) & +0.3 & $\\pm$ & 0.8 &  \\\\\n"));
  CHECK(has(latex, "\nnone & \\multicolumn{4}{l}{--\\textsuperscript{d}} & &&& \\\\\n"));
  CHECK(has(latex, "\n\\textsuperscript{a}~2/3 diverged @1200 (rate 9 to 99\\%).\n"));
}

TEST_CASE("latex: a count of seeds that all cells share is said once") {
  const std::string latex = render_table(table_model(strips_table(), {}), TableFormat::latex);
  CHECK(!has(latex, "(5)"));
  CHECK(has(latex, "\n$\\pm$0.5: 95\\% t interval of the mean of 5 seeds; last evaluation.\n"));
  TableInput single = strips_table();
  for (TableRow& row : single.rows) row.seeds.resize(1);
  const std::string one = render_table(table_model(single, {}), TableFormat::latex);
  CHECK(!has(one, "(1)"));
  CHECK(has(one, "\nEach value is of 1 seed.\n"));
}

TEST_CASE("latex: a diverged cell is short, and equal notes share a letter") {
  TableInput input = strips_table();
  for (const std::size_t r : {2, 4}) input.rows[r].seeds = {diverged_seed(0, 17), diverged_seed(1, 17)};
  input.rows[5].seeds = {other_seed(0, SeedState::missing)};
  TableOptions across;
  across.cols = {"lr"};
  const std::string latex = render_table(table_model(input, across), TableFormat::latex);
  CHECK(has(latex, "\ndpn & \\multicolumn{4}{l}{div.\\textsuperscript{a}} & 74.3 & $\\pm$ & 0.6 & * \\\\\n"));
  CHECK(
      has(latex,
          "\nsub\\_ln & \\multicolumn{4}{l}{div.\\textsuperscript{a}} & \\multicolumn{4}{l}{--\\textsuperscript{b}}"));
  CHECK(has(latex, "\n\\textsuperscript{a}~2/2 diverged @17 (rate 16 to 100\\%).\n\\textsuperscript{b}~missing.\n"));
  CHECK(has(latex, "\n&\\multicolumn{8}{c}{lr} \\\\\n\\cmidrule{2-9}\nplacement & \\multicolumn{4}{c}{0.001} & "));
}

TEST_CASE("latex: an interval that ends at zero stands where others have their half width") {
  TableInput input = one_strip();
  TableModel model = table_model(input, {});
  model.grid[2].cells[2] = interval_cell({0.4, "+0.4"}, {0.5, "0.5"}, {0.0, "+0.0"}, {0.9, "+0.9"}, true, "*");
  CHECK(has(render_table(model, TableFormat::latex), "& +0.4 & \\multicolumn{3}{@{\\,}l}{$[+0.0, +0.9]$ *} \\\\\n"));
}

TEST_CASE("latex: the comment of a table in ASCII names booktabs and siunitx alone") {
  CHECK(first_line(latex_of("plain", "", "")) ==
        "% In the preamble: \\usepackage{booktabs} for better rules, \\usepackage{siunitx} for aligned numbers");
}

TEST_CASE("latex: the comment names an encoding where letters need it") {
  CHECK(first_line(latex_of("größe")) ==
        "% In the preamble: \\usepackage{booktabs} for better rules, \\usepackage{siunitx} for aligned numbers, "
        "\\usepackage[T1]{fontenc} for letters");
}

TEST_CASE("latex: the comment names another program for letters that pdflatex lacks") {
  CHECK(
      first_line(latex_of("日本 ħ 日")) ==
      "% In the preamble: \\usepackage{booktabs} for better rules, \\usepackage{siunitx} for aligned numbers; by lualatex "
      "or xelatex, a font that has 日本ħ, which pdflatex lacks");
}

TEST_CASE("latex: a row may begin with a star") {
  TableInput input = table_with("plain");
  input.rows[1].axes[0] = "*star";
  CHECK(render_table(table_model(input, {}), TableFormat::latex).find("\\\\\n{}*star &") != std::string::npos);
}
