// Text for people fits their terminal, and no word is broken.
#include <doctest/doctest.h>

#include "experiments/lab/base/text_layout.h"
#include "tests/lab/cli/on_terminal.h"
#include "tests/lab/cli/small_sweep.h"

using namespace normlab;

namespace {

/// Trained once: a sweep whose labels are long, with one trial less than `other`, the same with another seed.
struct TwoSweeps {
  TemporaryFolder folder;
  std::string file = in_folder(folder, "a.json"), other = in_folder(folder, "b.json"),
              out = " --out " + in_folder(folder, "r");

  TwoSweeps() {
    std::string text = kSmallSweep;
    const std::string axis = R"("pre_pre", "bn_ffnbn")";
    text.replace(text.find(axis), axis.size(),
                 R"("pre_pre", {"base": "pre_pre", "attn": {"query": "rms_norm", "key": "rms_norm"}})");
    std::ofstream(file) << text;
    std::ofstream(other) << text.replace(text.find("\"seeds\": 2"), 10, "\"seeds\": 3");
    REQUIRE(run_program(folder, "run " + file + out).code == 0);
  }
};

const TwoSweeps& two_sweeps() {
  static const TwoSweeps once;
  return once;
}

}  // namespace

TEST_CASE("terminal width: lines end between words at every width") {
  const TwoSweeps& two = two_sweeps();
  for (const std::string& command :
       {"run " + two.file + two.out, "table " + two.other + two.out, "status " + two.other + two.out + " --all",
        "status --missing " + two.other + two.out, "list" + two.out, "plan " + two.other + two.out,
        "explain " + two.file + " --all", "check " + two.file, "explain " + two.file + " " + two.other + two.out}) {
    constexpr unsigned short kWidths[] = {40, 80, 200};
    for (const unsigned short columns : kWidths) {
      OnTerminal terminal(command, columns, 300);
      const std::string text = terminal.read_for(20'000);
      CHECK(terminal.wait() == 0);
      for (const std::string& line : plain_lines(text)) {
        const std::string words = joined(wrapped(line, 1000), " ");
        CHECK_MESSAGE((display_width(line) <= columns || words.find(' ') == words.npos), command << ":\n" << line);
      }
      const std::string one_line = joined(plain_lines(text), " ");
      if (one_line.find("rms_") != one_line.npos) {
        CHECK_MESSAGE(one_line.find("rms_norm") != one_line.npos, command << one_line);
        for (std::size_t at = 0; (at = one_line.find("rms_", at)) != one_line.npos; ++at)
          CHECK_MESSAGE(one_line.compare(at, 8, "rms_norm") == 0, command << ": " << one_line.substr(at, 12));
      }
    }
  }
}

TEST_CASE("terminal width: a pipe's text is that of 80 columns") {
  const TwoSweeps& two = two_sweeps();
  const std::string table = "table " + two.file + two.out;
  const std::string piped = run_program(two.folder, table).out;
  CHECK(run_program(two.folder, table, "COLUMNS=80 ").out == piped);
}

TEST_CASE("terminal width: a pipe's text fits the width in COLUMNS") {
  const TwoSweeps& two = two_sweeps();
  const std::string table = "table " + two.file + two.out;
  for (const std::string& line : plain_lines(run_program(two.folder, table, "COLUMNS=40 ").out))
    CHECK_MESSAGE(display_width(line) <= 40, line);
}
