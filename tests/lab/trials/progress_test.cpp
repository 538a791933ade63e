#include "experiments/lab/trials/progress.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/text_layout.h"
#include "tests/lab/base/temporary_folder.h"

using namespace normlab;

namespace {

WorkerProgress worker() {
  WorkerProgress progress;
  progress.label = "placement=pre_post seed 2";
  progress.step = 120;
  progress.steps = 3900;
  progress.images_per_second = 1834.4;
  progress.loss = 1.2345;
  progress.seconds_left = 725.9;
  return progress;
}

SweepProgress sweep(std::size_t workers) {
  SweepProgress progress;
  progress.finished = 3;
  progress.total = 25;
  progress.elsewhere = 2;
  progress.images_per_second = 3600;
  progress.seconds_left = 7500;
  progress.workers.assign(workers, worker());
  return progress;
}

}  // namespace

TEST_CASE("progress: a worker's line drops its least important parts to fit") {
  CHECK(worker_line(worker(), 120) ==
        "placement=pre_post seed 2 | step 120/3900 | 1834 img/s | loss 1.234 | 12m05s left");
  CHECK(worker_line(worker(), 70) == "placeme…seed 2 | step 120/3900 | 1834 img/s | loss 1.234 | 12m05s left");
  CHECK(worker_line(worker(), 60) == "placemen…t seed 2 | step 120/3900 | 1834 img/s | 12m05s left");
  CHECK(worker_line(worker(), 45) == "placeme… seed 2 | step 120/3900 | 12m05s left");
  CHECK(worker_line(worker(), 9) == "plac…left");
  for (std::size_t columns = 1; columns < 120; ++columns)
    CHECK(display_width(worker_line(worker(), columns)) <= columns);
}

TEST_CASE("progress: unknown parts are left out of the sweep's line") {
  SweepProgress all;
  all.total = 2;
  CHECK(sweep_line(all, 80) == "0/2 done");
  CHECK(sweep_line(sweep(1), 80) == "3/25 done | 2 run elsewhere | 3600 img/s | 2h05m left");
}

TEST_CASE("progress: unknown parts are left out of a worker's line") {
  WorkerProgress one;
  one.label = "trial";
  CHECK(worker_line(one, 80) == "trial");
  one.loss = std::nan("");
  CHECK(worker_line(one, 80) == "trial | loss nan");
}

TEST_CASE("progress: the sweep and each worker have a line") {
  const auto lines = progress_lines(sweep(3), 80, 23);
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == sweep_line(sweep(3), 80));
  for (const std::size_t l : {1, 2, 3}) CHECK(lines[l] == "  " + worker_line(worker(), 78));
  CHECK(progress_lines(sweep(0), 80, 5) == std::vector<std::string>{sweep_line(sweep(0), 80)});
}

TEST_CASE("progress: a line counts the workers that do not fit") {
  CHECK(progress_lines(sweep(3), 80, 4).size() == 4);
  CHECK(progress_lines(sweep(3), 80, 3).back() == "  ... and 2 more");
  CHECK(progress_lines(sweep(3), 80, 3).size() == 3);
  CHECK(progress_lines(sweep(3), 80, 1) == std::vector<std::string>{sweep_line(sweep(3), 80)});
}

TEST_CASE("progress: no line is wider than the terminal") {
  for (std::size_t columns = 1; columns < 100; ++columns)
    for (const std::string& line : progress_lines(sweep(30), columns, 10)) CHECK(display_width(line) <= columns);
}

TEST_CASE("progress: a duration is written in its two largest units") {
  CHECK(duration_text(-1) == "0s");
  CHECK(duration_text(59.9) == "59s");
  CHECK(duration_text(245) == "4m05s");
  CHECK(duration_text(7500) == "2h05m");
  CHECK(duration_text(3 * 86400 + 4 * 3600) == "3d04h");
  CHECK(duration_text(INFINITY) == "11574074d01h");
}

TEST_CASE("progress: a pipe gets no progress lines of a short run") {
  const TemporaryFolder folder;
  std::FILE* stream = std::fopen((folder / "stderr").c_str(), "w");
  {
    ProgressPrinter printer(stream);
    for (int i = 0; i < 1000; ++i) printer.update(sweep(2));
    printer.message("trial 4 diverged");
    printer.update(sweep(2));
  }
  std::fclose(stream);
  CHECK(read_file(folder / "stderr") == "trial 4 diverged\n");
}
