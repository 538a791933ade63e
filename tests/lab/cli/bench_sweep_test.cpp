// `normlab bench sweep`: all of the workers' time is in one part.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/lab/base/text.h"
#include "tests/lab/cli/small_sweep.h"

using namespace normlab;

TEST_CASE("bench sweep: the parts add up to the time of all workers") {
  const TemporaryFolder folder;
  const std::string temporary = "export TMPDIR='" + in_folder(folder, "tmp") + "'; ";
  std::filesystem::create_directory(folder / "tmp");
  const Finished run = run_program(
      folder, "bench sweep " + small_sweep(folder, "--workers 2 --format json --set train.epochs=1"), temporary);
  REQUIRE_MESSAGE(run.code == 0, run.err);
  const auto result = nlohmann::json::parse(run.out);
  CHECK(result["trials"] == 4);
  CHECK(result["failed"] == 0);
  CHECK(result["workers"] == 2);
  double all = 0;
  for (const auto& part : result["worker_seconds"].items()) {
    CHECK_MESSAGE(part.value().get<double>() > 0, part.key());
    all += part.value().get<double>();
  }
  CHECK(result["worker_seconds"].size() == 7);
  const double wall = result["wall_seconds"];
  CHECK(all == doctest::Approx(2 * wall).epsilon(0.02));
  CHECK(std::filesystem::is_empty(folder / "tmp"));
  CHECK_FALSE(std::filesystem::exists("results/experiments/small"));
}

TEST_CASE("bench sweep: the text names the parts") {
  const TemporaryFolder folder;
  const Finished run =
      run_program(folder, "bench sweep " + small_sweep(folder, "--workers 2 --set train.epochs=1 --set seeds=1"));
  REQUIRE_MESSAGE(run.code == 0, run.err);
  for (const char* line : {"trials        2\n", "workers       2\n"}) CHECK_MESSAGE(has(run.out, line), run.out);
  for (const char* words : {"start of processes", "batches", "evaluations", "checkpoints", "waiting for a trial"})
    CHECK_MESSAGE(has(run.out, words), words);
}

TEST_CASE("bench sweep: a descriptor with an unknown key is refused") {
  const TemporaryFolder folder;
  CHECK(run_program(folder, "bench sweep " + small_sweep(folder, "--set train.epochz=1")).code == kBadInput);
}
