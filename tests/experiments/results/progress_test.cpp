#include "experiments/results/progress.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>

#include "experiments/results/files.h"
#include "tests/experiments/results/temporary_folder.h"

using namespace normlab;

namespace {

Progress example() {
  Progress progress;
  progress.finished = 3;
  progress.total = 25;
  progress.label = "placement=pre_post seed 2";
  progress.step = 120;
  progress.steps = 3900;
  progress.images_per_second = 1834.4;
  progress.loss = 1.2345;
  progress.images_done = 1000;
  progress.images_left = 9000;
  progress.elapsed_seconds = 80.6;
  return progress;
}

}  // namespace

TEST_CASE("progress: the line gives way from its dispensable parts") {
  CHECK(progress_line(example(), 120) ==
        "3/25 done | placement=pre_post seed 2 | step 120/3900 | 1834 img/s | loss 1.234 | 12m05s left");
  CHECK(progress_line(example(), 80) ==
        "3/25 done | placem…eed 2 | step 120/3900 | 1834 img/s | loss 1.234 | 12m05s left");
  CHECK(progress_line(example(), 70) == "3/25 done | placeme… seed 2 | step 120/3900 | 1834 img/s | 12m05s left");
  CHECK(progress_line(example(), 56) == "3/25 done | placeme…seed 2 | step 120/3900 | 12m05s left");
  CHECK(progress_line(example(), 9) == "3/25…left");
}

TEST_CASE("progress: what is not known is left out") {
  Progress progress;
  progress.total = 2;
  CHECK(progress_line(progress, 80) == "0/2 done");
  progress.loss = std::nan("");
  progress.label = "trial";
  progress.images_left = 10;
  CHECK(progress_line(progress, 80) == "0/2 done | trial | loss nan");
}

TEST_CASE("progress: durations") {
  CHECK(duration_text(-1) == "0s");
  CHECK(duration_text(59.9) == "59s");
  CHECK(duration_text(245) == "4m05s");
  CHECK(duration_text(7500) == "2h05m");
  CHECK(duration_text(3 * 86400 + 4 * 3600) == "3d04h");
  CHECK(duration_text(INFINITY) == "11574074d01h");
}

TEST_CASE("progress: a pipe gets few and plain lines") {
  const TemporaryFolder folder;
  std::FILE* stream = std::fopen((folder / "stderr").c_str(), "w");
  {
    ProgressPrinter printer(stream);
    for (int i = 0; i < 1000; ++i) printer.update(example());
    printer.message("trial 4 diverged");
    printer.update(example());
  }
  std::fclose(stream);
  CHECK(read_file(folder / "stderr") == progress_line(example(), 80) + "\ntrial 4 diverged\n");
}
