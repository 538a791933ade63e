#include "experiments/sweep/share.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "tests/experiments/report/fake_results.h"

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
      const auto ids = ids_of_share(experiment, {k, count});
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
  CHECK(read("auto", {{"SLURM_ARRAY_TASK_ID", "7"},
                      {"SLURM_ARRAY_TASK_MIN", "3"},
                      {"SLURM_ARRAY_TASK_STEP", "2"},
                      {"SLURM_ARRAY_TASK_COUNT", "5"}})
            .text() == "3/5");
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
