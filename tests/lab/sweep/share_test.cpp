#include "experiments/lab/sweep/part.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "tests/lab/pictures/fake_results.h"

using namespace normlab;

namespace {

Share read(const std::string& text, const std::map<std::string, std::string>& environment = {}) {
  return read_share(text, [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

void refused(const std::string& text, const char* words, const std::map<std::string, std::string>& environment = {}) {
  CHECK_THROWS_WITH_AS(read(text, environment), doctest::Contains(words), InputError);
}

}  // namespace

TEST_CASE("share: every trial belongs to one share, and sizes differ by at most one") {
  const TemporaryFolder folder;
  const Experiment experiment = experiment_of(folder, R"({"dataset": {"name": "shapes"}, "seeds": 10})");
  for (const std::size_t count : {1, 3, 4, 16}) {
    std::set<std::string> all;
    std::size_t least = 100, most = 0, sum = 0;
    for (std::size_t k = 1; k <= count; ++k) {
      const auto ids = ids_of_part(experiment, {.share = {k, count}});
      all.insert(ids.begin(), ids.end());
      least = std::min(least, ids.size());
      most = std::max(most, ids.size());
      sum += ids.size();
    }
    CHECK(all.size() == experiment.trials.size());
    CHECK(sum == all.size());
    CHECK(most - least <= 1);
  }
}

TEST_CASE("share: it is given in words or by the scheduler") {
  CHECK(read("3/16").text() == "3/16");
  const std::map<std::string, std::string> steps{{"SLURM_ARRAY_TASK_ID", "7"},
                                                 {"SLURM_ARRAY_TASK_MIN", "3"},
                                                 {"SLURM_ARRAY_TASK_MAX", "11"},
                                                 {"SLURM_ARRAY_TASK_STEP", "2"},
                                                 {"SLURM_ARRAY_TASK_COUNT", "5"}};
  CHECK(read("auto/5", steps).text() == "3/5");
  CHECK(read("auto/4", {{"JOB_COMPLETION_INDEX", "0"}}).text() == "1/4");
  refused("0/4", "share 0 of 4 does not exist");
  refused("5/4", "share 5 of 4 does not exist");
  refused("3", "is not a share");
  refused("a/b", "N is not a number above 0");
  refused("1/0", "N is not a number above 0");
  refused("-1/4", "is not a share");
  refused("auto", "neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set");
  refused("auto", "the number of tasks is not known; give it as auto/N", {{"JOB_COMPLETION_INDEX", "0"}});
  refused("auto/4", "share 5 of 4 does not exist", {{"JOB_COMPLETION_INDEX", "4"}});
  refused("auto", "SLURM_ARRAY_TASK_ID=x is not a number", {{"SLURM_ARRAY_TASK_ID", "x"}});
}

TEST_CASE("share: a part of an array that is submitted again trains no other share") {
  // sbatch --array=ARRAY, as Slurm describes its task ID
  const auto task = [](const std::string& id, const std::string& min, const std::string& max, const std::string& count,
                       const std::string& step = "1") {
    return std::map<std::string, std::string>{{"SLURM_ARRAY_TASK_ID", id},
                                              {"SLURM_ARRAY_TASK_MIN", min},
                                              {"SLURM_ARRAY_TASK_MAX", max},
                                              {"SLURM_ARRAY_TASK_COUNT", count},
                                              {"SLURM_ARRAY_TASK_STEP", step}};
  };
  CHECK(read("auto", task("3", "0", "15", "16")).text() == "4/16");          // 0-15
  CHECK(read("auto", task("3", "1", "16", "16")).text() == "3/16");          // 1-16
  CHECK(read("auto/16", task("103", "100", "115", "16")).text() == "4/16");  // 100-115
  CHECK(read("auto", task("6", "0", "30", "16", "2")).text() == "4/16");     // 0-30:2
  refused("auto/3",
          "this is not a whole array of 3 tasks but 1 task from 3 to 3, so the share cannot be told from the task's "
          "number; give it: --share 3/3 if the whole array begins at 1",
          task("3", "3", "3", "1"));  // 3
  refused("auto", "give it: --share 3/N if the whole array begins at 1, --share 4/N if the whole array begins at 0",
          task("3", "3", "3", "1"));
  refused("auto/16", "not a whole array of 16 tasks but 4 tasks from 0 to 3", task("3", "0", "3", "4"));  // 0-3
  refused("auto", "not a whole array but 2 tasks from 0 to 7", task("7", "0", "7", "2"));                 // 0,7
  refused("auto/2",
          "not a whole array of 2 tasks but 2 tasks from 0 to 7, so the share cannot be told from the "
          "task's number; give it, as --share 3/16",
          task("7", "0", "7", "2"));
  refused("auto", "not a whole array but 4 tasks from 4 to 7", task("5", "4", "7", "4"));  // 4-7
  CHECK(read("auto/4", {{"SLURM_ARRAY_TASK_ID", "3"}, {"SLURM_ARRAY_TASK_MIN", "1"}}).text() == "3/4");
}
