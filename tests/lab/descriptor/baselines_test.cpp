// Which row of a sweep each row is compared with.
#include <doctest/doctest.h>

#include <map>

#include "experiments/lab/descriptor/experiment.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

TEST_CASE("descriptor: a row of several grids has the baseline of each") {
  // pre_pre at the default rate is a row of both grids.
  const std::string short_grid = R"({"model.placement": ["pre_pre", "dpn"]})",
                    grid = R"({"model.placement": ["pre_pre", "sub_ln"], "train.optimizer.lr": [0.001, 0.003]})";
  const auto baselines = [&](const std::string& first, const std::string& second, const std::string& baseline) {
    DescriptorFiles files;
    const Experiment e = files.load(concat(R"({"sweep": [)", first, ", ", second, R"(], "baseline": )", baseline, "}"));
    std::map<std::string, std::string> of;
    for (const Cell& row : e.rows) of[row.label] = row.baseline ? e.rows[*row.baseline].label : "";
    return of;
  };
  using Baselines = std::map<std::string, std::string>;
  const std::string both = R"({"model.placement": "pre_pre", "train.optimizer.lr": 0.001})";
  CHECK(baselines(short_grid, grid, both) == Baselines{{"placement=pre_pre", "placement=pre_pre"},
                                                       {"placement=dpn", "placement=pre_pre"},
                                                       {"placement=pre_pre, lr=0.003", "placement=pre_pre"},
                                                       {"placement=sub_ln, lr=0.001", "placement=pre_pre"},
                                                       {"placement=sub_ln, lr=0.003", "placement=pre_pre"}});
  const std::string one = R"({"model.placement": "pre_pre"})", open = "placement=pre_pre, lr=0.001";
  CHECK(baselines(grid, short_grid, one) == Baselines{{open, open},
                                                      {"placement=dpn", open},
                                                      {"placement=pre_pre, lr=0.003", "placement=pre_pre, lr=0.003"},
                                                      {"placement=sub_ln, lr=0.001", open},
                                                      {"placement=sub_ln, lr=0.003", "placement=pre_pre, lr=0.003"}});
}

TEST_CASE("descriptor: a baseline is matched on the axes it leaves open") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"sweep": [
      {"model.depth": [1, 2], "model.placement": ["dpn", "pre_pre"]},
      {"model.depth": [3], "model.placement": ["dpn"]}],
    "baseline": {"model.placement": "pre_pre"}})");
  REQUIRE(e.rows.size() == 5);
  CHECK(e.rows[0].baseline == 1);
  CHECK(e.rows[1].baseline == 1);
  CHECK(e.rows[2].baseline == 3);
  CHECK(e.rows[3].baseline == 3);
  CHECK_FALSE(e.rows[4].baseline.has_value());
}

TEST_CASE("descriptor: a setting that moves together with the baseline's axis need not agree") {
  DescriptorFiles files;
  const auto baselines = [&](const std::string& sweep) {
    const Experiment e = files.load(concat(R"({"sweep": )", sweep, R"(, "baseline": {"model.placement": "pre_pre"}})"));
    std::vector<int> of;
    for (const Cell& row : e.rows) of.push_back(row.baseline ? static_cast<int>(*row.baseline) : -1);
    return of;
  };
  const std::string joint = R"("model.placement,model.mlp_dim": [["pre_pre", 64], ["dpn", 60], ["sub_ln", 62]])";
  CHECK(baselines(concat("{", joint, "}")) == std::vector{0, 0, 0});
  CHECK(baselines(concat("{\"model.depth\": [1, 2], ", joint, "}")) == std::vector{0, 0, 0, 3, 3, 3});
  // A baseline that agrees in all settings comes first, and of two that do not, none is chosen.
  CHECK(
      baselines(R"({"model.placement,model.mlp_dim": [["pre_pre", 64], ["pre_pre", 60], ["dpn", 60], ["dpn", 62]]})") ==
      std::vector{0, 1, 1, -1});
  // By itself, it is an axis as any other.
  CHECK(baselines(concat("[{", joint, R"(}, {"model.placement": ["dpn"], "model.mlp_dim": [32]}])")) ==
        std::vector{0, -1, -1, -1});
}

TEST_CASE("descriptor: a baseline's numbers are compared by value") {
  DescriptorFiles files;
  CHECK(files.load(R"({"sweep": {"train.optimizer.lr": [1e-3, 1e-2]}, "baseline": {"train.optimizer.lr": 0.001}})")
            .rows[1]
            .baseline == 0);
}
