// What a user is told who does not know the commands yet.
#include <doctest/doctest.h>

#include "tests/experiments/cli/program.h"

using namespace normlab;

TEST_CASE("command line: help is a word too") {
  const TemporaryFolder folder;
  CHECK(run_program(folder, "help").out == run_program(folder, "--help").out);
  CHECK(run_program(folder, "help run").out == run_program(folder, "run --help").out);
  CHECK(run_program(folder, "help bench step").out == run_program(folder, "bench step --help").out);
  CHECK(run_program(folder, "help").code == 0);
}

TEST_CASE("command line: an unknown command or option names the nearest, and blames nothing else") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& words) {
    const Finished finished = run_program(folder, words);
    CHECK(finished.code == 2);
    CHECK(finished.out.empty());
    return finished.err;
  };
  CHECK(refused("chekc x.json") == "unknown command \"chekc\"; did you mean \"check\"?; see normlab --help\n");
  CHECK(refused("help chekc") == "unknown command \"chekc\"; did you mean \"check\"?; see normlab --help\n");
  CHECK(refused("run --workrs 1 x.json") ==
        "unknown option \"--workrs\"; did you mean \"--workers\"?; see normlab run --help\n");
  CHECK(refused("bench step --secnds=2") ==
        "unknown option \"--secnds\"; did you mean \"--seconds\"?; see normlab bench step --help\n");
  CHECK(refused("--blas-env keep statsu") ==
        "unknown command \"statsu\"; did you mean \"status\"?; see normlab --help\n");
}

TEST_CASE("command line: options that take a word list the words in the help") {
  const TemporaryFolder folder;
  const std::string help = run_program(folder, "table --help").out;
  CHECK(help.find("{last,best_minival,mean_last_k}") != std::string::npos);
  CHECK(help.find("{exclude,chance}") != std::string::npos);
  CHECK(help.find("->") == std::string::npos);
  for (const char c : help) CHECK((c == '\n' || static_cast<unsigned char>(c) >= 32));
}
