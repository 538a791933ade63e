#include "experiments/sweep/share.h"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "tests/experiments/report/fake_results.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

const char* const kSweep = R"({"dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}, "train": {"epochs": 4, "batch_size": 20},
  "sweep": {"model.placement": ["pre_pre", "dpn"]}, "seeds": 5, "baseline": {"model.placement": "pre_pre"}})";

Share read(const std::string& text, const std::map<std::string, std::string>& environment = {}) {
  return read_share(text, [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
  });
}

void refused(const std::string& text, const char* words, const std::map<std::string, std::string>& environment = {}) {
  CHECK_THROWS_WITH_AS(read(text, environment), doctest::Contains(words), InputError);
}

struct TwoFolders {
  TemporaryFolder folder;
  Experiment experiment = experiment_of(folder, kSweep);
  ResultStore a{folder / "a"}, b{folder / "b"};
  fs::path out = folder / "out";
};

}  // namespace

TEST_CASE("share: every trial belongs to one share, and sizes differ by at most one") {
  const TwoFolders made;
  for (const std::size_t count : {1, 3, 4, 16}) {
    std::set<std::string> all;
    std::size_t least = 100, most = 0, sum = 0;
    for (std::size_t k = 1; k <= count; ++k) {
      const auto ids = ids_of_share(made.experiment, {k, count});
      all.insert(ids.begin(), ids.end());
      least = std::min(least, ids.size());
      most = std::max(most, ids.size());
      sum += ids.size();
    }
    CHECK(all.size() == made.experiment.trials.size());
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

TEST_CASE("share: merging copies every result once, and leaves out what has none") {
  const TwoFolders made;
  for (std::size_t t = 0; t < 8; ++t) fake_done(t < 5 ? made.a : made.b, made.experiment.trials[t], 0.5);
  fake_done(made.b, made.experiment.trials[0], 0.5);  // the same in both
  fake_metrics(made.b, made.experiment.trials[9], 0.5);
  const Merged merged = merge_results({made.folder / "a", made.folder / "b"}, made.out);
  CHECK(merged.copied == 8);
  CHECK(merged.there == 1);
  CHECK(merged.unfinished == 1);
  const ResultStore out(made.out);
  CHECK(out.trial_ids().size() == 8);
  for (const std::string& id : out.trial_ids()) CHECK(out.finished(id));
  const Merged again = merge_results({made.folder / "b"}, made.out);
  CHECK(again.copied == 0);
  CHECK(again.there == 4);
}

TEST_CASE("share: equal trials with different results are not merged") {
  const TwoFolders made;
  fake_done(made.a, made.experiment.trials[0], 0.5);
  fake_done(made.a, made.experiment.trials[1], 0.5);
  fake_done(made.b, made.experiment.trials[1], 0.6);
  CHECK_THROWS_WITH_AS(merge_results({made.folder / "a", made.folder / "b"}, made.out),
                       doctest::Contains("are the same trial with different results: eval/accuracy is 0.5 and 0.6"),
                       InputError);
  CHECK(!fs::exists(made.out));
}

TEST_CASE("share: a folder without results, and different decisions, are not merged") {
  const TwoFolders made;
  fs::create_directories(made.folder / "c");
  CHECK_THROWS_WITH_AS(merge_results({made.folder / "c"}, made.out), doctest::Contains("is not a folder of results"),
                       InputError);
  for (const char* name : {"a", "b"}) {
    fake_done(name == std::string("a") ? made.a : made.b, made.experiment.trials[0], 0.5);
    fs::create_directories(made.folder / name / "experiments" / "small" / "fixed");
    std::ofstream(made.folder / name / "experiments" / "small" / "fixed" / "lr.json") << name;
  }
  CHECK_THROWS_WITH_AS(merge_results({made.folder / "a", made.folder / "b"}, made.out),
                       doctest::Contains("record different decisions"), InputError);
}
