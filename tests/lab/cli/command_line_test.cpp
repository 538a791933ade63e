// Help and errors for a user who does not know the commands yet.
#include <doctest/doctest.h>

#include "experiments/lab/base/text_layout.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"

using namespace normlab;

namespace {

std::string refused(const std::string& words) {
  const TemporaryFolder folder;
  const Finished finished = run_program(folder, words);
  CHECK(finished.code == kBadInput);
  CHECK(finished.out.empty());
  return finished.err;
}

}  // namespace

TEST_CASE("command line: the command help prints what --help prints") {
  const TemporaryFolder folder;
  CHECK(run_program(folder, "help").out == run_program(folder, "--help").out);
  CHECK(run_program(folder, "help run").out == run_program(folder, "run --help").out);
  CHECK(run_program(folder, "help bench step").out == run_program(folder, "bench step --help").out);
  CHECK(run_program(folder, "help").code == 0);
}

TEST_CASE("command line: an unknown word is refused with the nearest name") {
  CHECK(refused("chekc x.json") == "unknown command \"chekc\"; did you mean \"check\"?; see normlab --help\n");
  CHECK(refused("bench stpe") == "unknown command \"stpe\"; did you mean \"step\"?; see normlab bench --help\n");
  CHECK(refused("bench") == "a command is required; see normlab bench --help\n");
  CHECK(refused("help chekc") == "unknown command \"chekc\"; did you mean \"check\"?; see normlab --help\n");
  CHECK(refused("run --workrs 1 x.json") ==
        "unknown option \"--workrs\"; did you mean \"--workers\"?; see normlab run --help\n");
  CHECK(refused("bench step --secnds=2") ==
        "unknown option \"--secnds\"; did you mean \"--seconds\"?; see normlab bench step --help\n");
  CHECK(refused("--blas-env keep statsu") ==
        "unknown command \"statsu\"; did you mean \"status\"?; see normlab --help\n");
}

TEST_CASE("command line: a wrong or missing value names the option and what it takes") {
  const std::string help = "; see normlab run --help\n";
  CHECK(refused("run --workers 0 x.json") == "--workers: must be 1 to 1024, not \"0\"" + help);
  CHECK(refused("run --lease soon x.json") == "--lease: must be 0.5 to 86400, not \"soon\"" + help);
  CHECK(refused("run x.json --workers") == "--workers: a value is required" + help);
  CHECK(refused("run --device gpu x.json") == "--device: must be cpu or cuda, not \"gpu\"" + help);
  CHECK(refused("run") == "DESCRIPTOR is required" + help);
  CHECK(refused("") == "a command is required; see normlab --help\n");
  CHECK(refused("bench") == "a command is required; see normlab bench --help\n");
  CHECK(refused("bench step --seconds 0") == "--seconds: must be above 0, not \"0\"; see normlab bench step --help\n");
  CHECK(refused("verify x --steps 0") == "--steps: must be at least 1, not \"0\"; see normlab verify --help\n");
}

TEST_CASE("command line: the help lists the words that an option takes") {
  const TemporaryFolder folder;
  const std::string help = run_program(folder, "table --help").out;
  const std::string words = joined(wrapped(help, 10'000), " ");
  CHECK(words.find("last, best_minival or mean_last_k") != std::string::npos);
  CHECK(words.find("exclude or chance") != std::string::npos);
  CHECK(help.find("->") == std::string::npos);
  for (const char c : help) CHECK((c == '\n' || static_cast<unsigned char>(c) >= 32));
}
