#include "experiments/lab/base/machine_load.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "core/cpu/blas.h"

using namespace normlab;

TEST_CASE("machine load: the first line of /proc/stat is read") {
  const auto times = parse_cpu_times(
      "cpu  1200 300 100 5000 70 20 30 250 400 50\n"
      "cpu0 600 150 50 2500 35 10 15 125 200 25\n",
      100.0);
  REQUIRE(times);
  CHECK(times->busy == doctest::Approx(16.5));  // guests are inside user and nice: not counted again
  CHECK(times->stolen == doctest::Approx(2.5));
  CHECK(parse_cpu_times("cpu 1 2 3 4 5 6 7 8", 1.0)->busy == doctest::Approx(19));  // no newline, no guests
  CHECK(parse_cpu_times("cpu  18446744073709551615 0 0 0 0 0 0 0\n", 1.0)->busy > 1e19);
}

TEST_CASE("machine load: other texts are not taken for a load") {
  for (const char* text : {"", "cpu", "cpu ", "cpu  1 2 3 4 5 6 7", "cpu  1 2 3 4 5 6 7\n8 9", "cpu0 1 2 3 4 5 6 7 8",
                           "cpu  1 2 x 4 5 6 7 8", "cpu  -1 2 3 4 5 6 7 8", "intr 1 2 3 4 5 6 7 8",
                           "cpu  99999999999999999999 2 3 4 5 6 7 8"}) {
    CAPTURE(text);
    CHECK(!parse_cpu_times(text, 100.0));
  }
}

TEST_CASE("machine load: what this process uses is not other load") {
  // Every core is kept busy, so the load of this process and of others together is no more than the machine has.
  const unsigned cores = std::thread::hardware_concurrency();
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t own_begin = std::clock();
  const LoadMeter meter;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < cores; ++i)
    threads.emplace_back([&] {
      while (std::chrono::steady_clock::now() < begin + std::chrono::milliseconds(300)) continue;
    });
  for (std::thread& thread : threads) thread.join();
  const auto load = meter.load();
  const double own = double(std::clock() - own_begin) / CLOCKS_PER_SEC;
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  REQUIRE(load);
  CHECK(load->others >= 0.0);
  CHECK(load->others + own / wall < 1.2 * cores);
}

TEST_CASE("machine load: a settled load is that of half a second") {
  const auto begin = std::chrono::steady_clock::now();
  const LoadMeter meter;
  CHECK(meter.settled_load());
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(500));
}

TEST_CASE("machine load: a note says why a figure is not worth publishing") {
  const Conditions alone{2, 2, false};
  CHECK(publishing_note(MachineLoad{0.05, 0.05}, alone) == "");
  CHECK(publishing_note(MachineLoad{0.5, 0.0}, alone) == "other processes used 0.50 cores");
  CHECK(publishing_note(MachineLoad{0.0, 0.25}, alone) == "the host took 0.25 cores (steal)");
  CHECK(publishing_note(std::nullopt, alone).find("unknown") != std::string::npos);
  CHECK(publishing_note(MachineLoad{}, {3, 2, true}) == "3 threads on 2 cores; OPENBLAS_* variables were kept");
}

TEST_CASE("machine load: OPENBLAS_* variables that are left are seen") {
  clear_blas_environment();
  CHECK(!openblas_variables_kept());
  setenv("OPENBLAS_VERBOSE", "0", 1);
  CHECK(openblas_variables_kept());
  unsetenv("OPENBLAS_VERBOSE");
}
