// Standard streams that are closed, full or without a reader: results stay the same, and only lost output is an error.
#include <doctest/doctest.h>

#include "tests/lab/base/own_device.h"
#include "tests/lab/cli/end_states.h"
#include "tests/lab/cli/small_sweep.h"

using namespace normlab;

namespace {

/// A pipe without a reader, with the number 9, since the shell takes one digit.
class BrokenPipe {
 public:
  BrokenPipe() {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    close(ends[0]);
    REQUIRE(dup2(ends[1], kNumber) == kNumber);
    close(ends[1]);
  }
  BrokenPipe(const BrokenPipe&) = delete;
  BrokenPipe& operator=(const BrokenPipe&) = delete;
  ~BrokenPipe() { close(kNumber); }

 private:
  static constexpr int kNumber = 9;
};

/// Ways in which standard error is lost.
const char* const kDeaf[] = {"2>&-", "2>/dev/full", "2>&9", "<&- 2>&-"};

}  // namespace

TEST_CASE("streams: lost standard error changes no result of a run") {
  const TemporaryFolder folder;
  const BrokenPipe broken;
  const std::string file = small_sweep(folder), run = "run " + file + " --out ";
  const Finished heard = run_program(folder, run + in_folder(folder, "heard"));
  REQUIRE(heard.code == 0);
  const auto states = end_states(folder / "heard");
  int number = 0;
  const auto check = [&](const std::string& options, const std::string& streams) {
    const std::string out = "deaf-" + std::to_string(number++);
    const Finished deaf = run_program(folder, run + in_folder(folder, out) + options, "", streams);
    CHECK_MESSAGE(deaf.code == 0, options << streams);
    CHECK_MESSAGE(deaf.out == heard.out, options << streams);
    CHECK_MESSAGE(end_states(folder / out) == states, options << streams);
  };
  for (const std::string streams : kDeaf) check("", streams);
  for (const std::string streams : {"2>&-", "2>/dev/full", "2>&9"}) check(" --json-progress -", streams);
  if (make_device(folder / "full", kFullDevice)) check(" --json-progress " + in_folder(folder, "full"), "");
}

TEST_CASE("streams: lost standard error changes no exit code") {
  const TemporaryFolder folder;
  const BrokenPipe broken;
  const std::string file = small_sweep(folder), out = " --out " + in_folder(folder, "r");
  std::ofstream(folder / "bad.json") << "{\"train\": {\"epoch\": 1}}";
  REQUIRE(run_program(folder, "run " + file + out).code == 0);
  const std::string commands[] = {"check " + file,
                                  "check " + in_folder(folder, "bad.json"),
                                  "check " + in_folder(folder, "none.json"),
                                  "run " + in_folder(folder, "bad.json") + out,
                                  "plan " + file + out,
                                  "table " + file + out,
                                  "status " + file + out,
                                  "status --missing " + file + out,
                                  "export --curves --by-row " + file + out + " --metric nothing",
                                  "report " + file + out + " -o " + in_folder(folder, "report.html"),
                                  "data preview " + file + " -o " + in_folder(folder, "sheet.html"),
                                  "frobnicate",
                                  "bench gemm --shape micro --seconds 0.001 --threads 1000"};
  for (const std::string& command : commands) {
    const Finished heard = run_program(folder, command);
    for (const std::string streams : kDeaf)
      CHECK_MESSAGE(run_program(folder, command, "", streams).code == heard.code, command << " " << streams);
  }
}

TEST_CASE("streams: lost standard output ends every command with 3") {
  const TemporaryFolder folder;
  const BrokenPipe broken;
  const std::string file = small_sweep(folder), out = " --out " + in_folder(folder, "r");
  REQUIRE(run_program(folder, "run " + file + out).code == 0);
  const std::string commands[] = {"--help",
                                  "--version",
                                  "run --help",
                                  "check " + file,
                                  "plan " + file + out,
                                  "table " + file + out,
                                  "status " + file + out,
                                  "explain " + file,
                                  "check --schema",
                                  "export --curves --by-row " + file + out,
                                  "run " + file + out,
                                  "data info shapes",
                                  "table " + file + out + " --format csv"};
  for (const std::string& command : commands)
    for (const char* streams : {">/dev/full", ">&-", ">&9"}) {
      const Finished lost = run_program(folder, command, "", streams);
      CHECK_MESSAGE(lost.code == 3, command << " " << streams << ": " << lost.code);
      CHECK_MESSAGE(lost.err.find("standard output cannot be written") != std::string::npos, command << lost.err);
    }
  CHECK(run_program(folder, "status --missing " + file + out, "", ">/dev/full").code == 0);  // it has nothing to print
}

TEST_CASE("streams: no file gets the number of a closed stream") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder), run = "run " + file + " --out ";
  REQUIRE(run_program(folder, run + in_folder(folder, "a")).code == 0);
  const Finished closed = run_program(folder, run + in_folder(folder, "b"), "", "<&- >&- 2>&-");
  CHECK(closed.code == 3);  // the table is lost
  CHECK(end_states(folder / "a") == end_states(folder / "b"));
  const Finished report =
      run_program(folder, "report " + file + " --out " + in_folder(folder, "a") + " -o " + in_folder(folder, "a.html"),
                  "", "<&- >&- 2>&-");
  CHECK(report.code == 0);
  REQUIRE(
      run_program(folder, "report " + file + " --out " + in_folder(folder, "a") + " -o " + in_folder(folder, "b.html"))
          .code == 0);
  CHECK(text_of(folder / "a.html").size() == text_of(folder / "b.html").size());
}
