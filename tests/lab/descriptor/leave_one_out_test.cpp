// "leave_one_out": a row, and one for each of its features without it.
#include "experiments/lab/descriptor/leave_one_out.h"

#include <doctest/doctest.h>

#include "experiments/lab/descriptor/canonical.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

std::string sweep(const std::string& leave_one_out, const std::string& axes = "", const std::string& more = "") {
  return concat("{\"sweep\": {\"leave_one_out\": ", leave_one_out, axes, "}", more, "}");
}

const char* const kNormFormer = R"({"base": "normformer_full", "features": ["attn.out", "mlp.inner", "head_scale"]})";

std::vector<std::string> labels(const Experiment& e) {
  std::vector<std::string> out;
  for (const Cell& row : e.rows) out.push_back(row.label);
  return out;
}

}  // namespace

TEST_CASE("leave one out: the rows are those of descriptors that say the same") {
  DescriptorFiles files;
  const Experiment e = files.load(sweep(kNormFormer));
  CHECK(labels(e) == std::vector<std::string>{"normformer_full", "normformer_full - attn.out",
                                              "normformer_full - mlp.inner", "normformer_full - head_scale"});
  const char* const same[] = {R"("normformer_full")", R"({"base": "normformer_full", "attn": {"out": "none"}})",
                              R"({"base": "normformer_full", "mlp": {"inner": "none"}})",
                              R"({"base": "normformer_full", "head_scale": "none"})"};
  for (std::size_t r = 0; r < 4; ++r)
    CHECK(e.trials[r].id == files.load(concat("{\"model\": {\"placement\": ", same[r], "}}")).trials[0].id);
}

TEST_CASE("leave one out: rows are compared with the whole row at the same values of other axes") {
  DescriptorFiles files;
  const Experiment e = files.load(sweep(kNormFormer, R"(, "train.optimizer.lr": [1e-3, 3e-3])", R"(, "seeds": 2)"));
  REQUIRE(e.rows.size() == 8);
  CHECK(e.trials.size() == 16);
  CHECK(e.rows[3].label == "leave_one_out=normformer_full - attn.out, lr=3e-3");
  for (std::size_t r = 0; r < 8; ++r) CHECK(e.rows[r].baseline == r % 2);
}

TEST_CASE("leave one out: the descriptor can name another baseline, and \"apart\" and two stages have one") {
  DescriptorFiles files;
  const Experiment e =
      files.load(sweep(kNormFormer, "", R"(, "baseline": {"leave_one_out": "normformer_full - attn.out"})"));
  CHECK(e.rows[0].baseline == 1);
  CHECK(e.rows[3].baseline == 1);
  CHECK(files
            .load(sweep(kNormFormer, "", R"(, "apart": ["normformer_full - attn.out"],
      "seeds": {"first": 2, "max": 4, "gain_halfwidth": 1})"))
            .rows[1]
            .apart);
}

TEST_CASE("leave one out: a feature may be any settings of the descriptor") {
  DescriptorFiles files;
  const Experiment e = files.load(sweep(R"({"base": "ours",
    "features": ["stem.patch_in", {"name": "LayerScale", "set": {"model.placement.layer_scale": "none"}},
                 {"name": "EMA", "set": {"train.ema.decay": 0}}]})",
                                        "", R"(, "placements": {"ours": {"base": "dpn", "layer_scale": "channel"}},
    "train": {"ema": {"decay": 0.9}})"));
  CHECK(labels(e) == std::vector<std::string>{"ours", "ours - stem.patch_in", "ours - LayerScale", "ours - EMA"});
  CHECK(e.trials[2].config.train.ema.decay == 0.9);
  CHECK(e.trials[3].config.train.ema.decay == 0);
  CHECK(vit_of(e.trials[1].config).placement.layer_scale.kind == LayerScaleKind::channel);
  CHECK(vit_of(e.trials[2].config).placement.layer_scale.kind == LayerScaleKind::none);
}

TEST_CASE("leave one out: a path may name the whole setting, or the sites of some blocks") {
  DescriptorFiles files;
  const Experiment e =
      files.load(sweep(R"({"base": {"base": "pre_pre", "blocks": {"0-1": {"attn": {"out": "rms_norm"}}}},
      "features": ["model.placement.blocks.0-1.attn.out", "final"]})"));
  REQUIRE(e.rows.size() == 3);
  CHECK(e.trials[1].id == files.load("{}").trials[0].id);
}

TEST_CASE("leave one out: a feature that is not there, or changes nothing, is an error at its place") {
  DescriptorFiles files;
  CHECK(files.problems(sweep(R"({"base": "normformer", "features": ["attn.query"]})")) ==
        "d.json:1:65: /sweep/leave_one_out/features/0: leaves nothing out: the row is the same as \"normformer\"; "
        "`normlab explain --placements` shows what placements have");
  CHECK(files
            .problems(sweep(R"({"base": "normformer", "features": ["attn.out",
{"name": "EMA", "set": {"train.ema.decay": 0}}]})"))
            .starts_with("d.json:2:1: /sweep/leave_one_out/features/1: leaves nothing out: the row is the same as "
                         "\"normformer\""));
  // Another axis that sets the same site undoes it.
  CHECK(files.problems(sweep(kNormFormer, R"(, "model.placement.attn.out": ["rms_norm"])"))
            .find("/sweep/leave_one_out/features/0: leaves nothing out") != std::string::npos);
}

TEST_CASE("leave one out: the errors say where and what to write") {
  DescriptorFiles files;
  const auto problem = [&](const std::string& leave_one_out, const std::string& what) {
    const std::string found = files.problems(sweep(leave_one_out));
    CHECK_MESSAGE(found.find(what) != found.npos, leave_one_out, ": ", found);
  };
  problem(R"({"base": "normformer"})", "/sweep/leave_one_out: the key \"features\" is missing");
  problem(R"({"base": "normformer", "features": []})", "expected a list of one object or more, got an empty one");
  problem(R"({"base": "normformer", "features": ["train.ema"]})",
          "/sweep/leave_one_out/features/0: expected a part of the placement such as \"attn.out\"");
  problem(R"({"base": 3, "features": ["attn.out"]})", "/sweep/leave_one_out/base: expected a placement's name");
  problem(R"({"base": "normfomer", "features": ["attn.out"]})", "did you mean \"normformer\"?");
  problem(R"({"base": "normformer", "features": ["attn.out", "attn.out"]})", "is given twice");
  problem(R"({"base": "normformer", "features": [{"name": "x", "set": {"modl.depth": 1}}]})",
          "did you mean \"model\"?");
  problem(R"({"base": "normformer", "features": [{"name": "x"}]})", "features/0: expected a part of the placement");
  problem(R"("normformer")", "expected an object");
  CHECK(
      files.problems(R"({"sweep": {"train.epochs": [1, 2], "leave_one_out": {"base": "dpn", "features": ["final"]}}})")
          .find("put it before them") != std::string::npos);
  CHECK(
      files.problems(sweep(kNormFormer), {"model.placement=dpn"}).find("model.placement is set by \"leave_one_out\"") !=
      std::string::npos);
}
