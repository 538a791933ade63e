// LaTeX tables, and whether LaTeX accepts them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "experiments/lab/tables/table.h"
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
}

TEST_CASE("latex: the comment of a table in ASCII names booktabs alone") {
  CHECK(first_line(latex_of("plain", "", "")) == "% In the preamble: \\usepackage{booktabs} for better rules");
}

TEST_CASE("latex: the comment names an encoding where letters need it") {
  CHECK(first_line(latex_of("größe")) ==
        "% In the preamble: \\usepackage{booktabs} for better rules, \\usepackage[T1]{fontenc} for letters");
}

TEST_CASE("latex: the comment names another program for letters that pdflatex lacks") {
  CHECK(first_line(latex_of("日本 ħ 日")) ==
        "% In the preamble: \\usepackage{booktabs} for better rules; by lualatex "
        "or xelatex, a font that has 日本ħ, which pdflatex lacks");
}

TEST_CASE("latex: a row may begin with a star") {
  TableInput input = table_with("plain");
  input.rows[1].axes[0] = "*star";
  CHECK(render_table(table_model(input, {}), TableFormat::latex).find("\\\\\n{}*star &") != std::string::npos);
}
