// "benchmarks": data sets by name, in groups, as an axis.
#include <doctest/doctest.h>

#include "experiments/lab/descriptor/canonical.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

const std::string kBenchmarks = R"("benchmarks": {
  "stripes": {"group": "fine", "dataset": {"name": "gratings"}},
  "kinds": {"group": "coarse", "dataset": {"label": "kind"}, "train": {"batch_size": 10, "epochs": 2}},
  "colours": {"group": "coarse", "dataset": {"label": "colour"}}
}, "train": {"batch_size": 20, "steps": 30})";

std::string sweep(const std::string& axes, const std::string& more = "") {
  return "{" + kBenchmarks + ",\n\"sweep\": {" + axes + "}" + more + "}";
}

const std::string kAllBenchmarks = R"("benchmark": ["stripes", "kinds", "colours"])";

}  // namespace

TEST_CASE("benchmarks: a trial is that of a descriptor which says the same") {
  DescriptorFiles files;
  const Experiment e = files.load(sweep(kAllBenchmarks));
  REQUIRE(e.rows.size() == 3);
  CHECK(e.rows[1].label == "kinds");
  CHECK(e.rows[1].axes == std::vector<std::pair<std::string, std::string>>{{"benchmark", "kinds"}});
  const std::string same = R"({"dataset": {"label": "kind"}, "train": {"batch_size": 10, "epochs": 2}})";
  CHECK(e.trials[1].id == files.load(same).trials[0].id);
  CHECK(e.trials[2].config.train.steps == 30);
  CHECK(e.trials[2].config.train.batch_size == 20);
}

TEST_CASE("benchmarks: other axes take precedence") {
  DescriptorFiles files;
  const Experiment e = files.load(sweep(R"("benchmark": ["kinds", "colours"], "train.batch_size": [4, 8])"));
  REQUIRE(e.rows.size() == 4);
  CHECK(e.rows[0].label == "benchmark=kinds, batch_size=4");
  CHECK(e.trials[0].config.train.batch_size == 4);
  CHECK(e.trials[0].config.train.epochs == 2);
}

TEST_CASE("benchmarks: a baseline is one per benchmark, and one can be excluded") {
  DescriptorFiles files;
  const Experiment e = files.load(sweep(kAllBenchmarks + R"(, "model.placement": ["pre_pre", "dpn"])",
                                        R"(, "baseline": {"model.placement": "pre_pre"},
                                        "exclude": [{"benchmark": "kinds"}])"));
  REQUIRE(e.rows.size() == 4);
  CHECK(e.rows[3].baseline == 2);
}

TEST_CASE("benchmarks: groups have all their benchmarks, also those that are not swept") {
  DescriptorFiles files;
  const auto groups = files.load(sweep(R"("benchmark": ["kinds"])")).groups;
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].name == "fine");
  CHECK(groups[1].benchmarks == std::vector<std::string>{"kinds", "colours"});
  CHECK(groups[2].name == "all");
  CHECK(groups[2].benchmarks == std::vector<std::string>{"stripes", "kinds", "colours"});
  CHECK(files.load(R"({"benchmarks": {"a": {"dataset": "gratings"}}, "sweep": {"benchmark": ["a"]}})").groups.empty());
  CHECK(files.load(R"({"sweep": {"model.depth": [1, 2]}})").groups.empty());
}

TEST_CASE("benchmarks: a child's replace those of its base whole") {
  DescriptorFiles files;
  files.write("base.json", sweep(kAllBenchmarks));
  const Experiment e = files.load(R"({"extends": "base.json", "benchmarks": {"one": {"dataset": {"label": "number"}}},
                                      "sweep": {"benchmark": ["one"]}})");
  CHECK(e.rows.size() == 1);
  CHECK(files.problems(R"({"extends": "base.json", "benchmarks": {}})").find("no \"benchmarks\"") != std::string::npos);
}

TEST_CASE("benchmarks: wrong ones are told with their place") {
  DescriptorFiles files;
  CHECK(files.problems(sweep(R"("benchmark": ["kind"])")) ==
        "d.json:6:25: /sweep/benchmark/0: unknown benchmark \"kind\"; did you mean \"kinds\"?");
  CHECK(files.problems(R"({"sweep": {"benchmark": ["kind"]}})") ==
        "d.json:1:26: /sweep/benchmark/0: the descriptor defines no \"benchmarks\"");
  CHECK(files.problems(sweep(R"("model.depth": [1, 2], "benchmark": ["kinds"])")) ==
        "d.json:6:34: /sweep/benchmark: benchmarks are laid over the descriptor before other axes; put this axis "
        "first, alone");
  CHECK(files.problems(R"({"benchmarks": {"a": {"group": 3, "data": {}}, "b": 1}})") ==
        "d.json:1:32: /benchmarks/a/group: expected the name of a group, got 3\n"
        "d.json:1:35: /benchmarks/a/data: unknown key; one of: dataset, model, start, train, eval, norms, group\n"
        "d.json:1:53: /benchmarks/b: expected an object with the benchmark's settings, got 1");
  CHECK(files.problems(R"({"benchmarks": {"a": {"group": "all"}}})") ==
        "d.json:1:32: /benchmarks/a/group: the group \"all\" is that of all benchmarks; choose another name");
  CHECK(files.problems(R"({"benchmarks": []})").find("d.json:1:16: /benchmarks: expected an object such as") == 0);
  CHECK(files.problems(R"({"benchmarks": {"a": {"dataset": {"lable": "kind"}}}, "sweep": {"benchmark": ["a"]}})") ==
        "d.json:1:35: /benchmarks/a/dataset/lable: unknown key; did you mean \"label\"?");
  CHECK(files.problems(sweep(kAllBenchmarks, R"(, "tune": [{"axes": {"benchmark": ["kinds"]}}])"))
            .find("/tune/0/axes/benchmark: ") != std::string::npos);
}

TEST_CASE("benchmarks: a setting that a benchmark would overwrite is refused") {
  DescriptorFiles files;
  CHECK(files.problems(sweep(kAllBenchmarks), {"train.batch_size=5"}) ==
        "--set train.batch_size=5: /train/batch_size: the benchmark \"kinds\" sets this itself; set "
        "\"benchmarks.kinds.train.batch_size\" instead");
  CHECK(files.problems(sweep(kAllBenchmarks), {"train.clip_norm=5"}) == "");
  CHECK(files.load(sweep(kAllBenchmarks), {"benchmarks.kinds.train.batch_size=5"}).trials[1].config.train.batch_size ==
        5);
}
