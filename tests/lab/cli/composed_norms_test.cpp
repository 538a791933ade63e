// Networks with the norms gated_norm and prep_bn, from a descriptor to results and files of weights.
#include <doctest/doctest.h>

#include "experiments/lab/weights/convert_files.h"
#include "tests/lab/cli/killed_runs.h"

using namespace normlab;

namespace {

const char* const kSweep = R"-({
  "about": "a test",
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "drop_path": 0.2, "dropout": 0.1},
  "train": {"epochs": 2, "batch_size": 20, "clip_norm": 0.5},
  "sweep": {"model.placement": [
    {"base": "pre_pre", "norm": {"kind": "gated_norm", "rank": 4}, "attn": {"query": "gated_norm", "key": "gated_norm"}},
    {"base": "pre_pre", "norm": "prep_bn"},
    {"base": "bn_extra", "norm": {"kind": "prep_bn", "decay_share": 0.7, "statistics_batch": 10}}
  ]}
})-";

struct Files : SweepFiles {
  explicit Files(const std::string& text = kSweep) : SweepFiles(text) {}
};

std::string only(const std::string& placement) { return " --set 'sweep={\"model.placement\": [" + placement + "]}'"; }

}  // namespace

TEST_CASE("composed norms: a run has the same bits for any threads and ranks, and verify agrees") {
  check_equal_bits(Files(), 3);
}

TEST_CASE("composed norms: a killed run is continued with the same bits") {
  const Files files;
  check_killed_run(files.folder, files.descriptor, " --workers 1");
}

TEST_CASE("composed norms: PRepBN is merged into linear layers, and the loss stays") {
  const Files files;
  REQUIRE(files.run("r", only(R"-({"base": "pre_pre", "norm": "prep_bn"})-") + " --threads 1").code == 0);
  const ResultStore store(files.folder / "r");
  const std::string checkpoint = store.trial(store.trial_ids().front()).checkpoint(1).string();
  const std::string fused = in_folder(files.folder, "fused.safetensors");
  const Finished merged = run_program(files.folder, "convert " + checkpoint + " " + fused + " --fuse-bn");
  REQUIRE_MESSAGE(merged.code == 0, merged.err);
  CHECK_MESSAGE(merged.out.find("prep_bn           merged into attn.q, attn.k, attn.v") != std::string::npos,
                merged.out);
  CHECK(files.loss(fused) == doctest::Approx(files.loss(checkpoint)).epsilon(1e-4));
  const Finished refused = run_program(
      files.folder, "convert " + checkpoint + " " + in_folder(files.folder, "t.safetensors") + " --to timm");
  CHECK(refused.code != 0);
  CHECK_MESSAGE(refused.err.find("is prep_bn, which timm has no module for") != std::string::npos, refused.err);
}

TEST_CASE("composed norms: the matrices of a gated norm are frozen, multiplied and updated by Muon as named") {
  const Files files;
  const std::string gated = only(R"-({"base": "pre_pre", "norm": "gated_norm"})-");
  const Finished run = files.run("r", gated +
                                          " --set 'train.freeze=[\"blocks.0.*.down\"]' --set "
                                          "'train.optimizer.multipliers=[{\"name\": \"*.up\", \"lr\": 0.5}]'");
  CHECK_MESSAGE(run.code == 0, run.err);
  const Finished muon = files.run("m", gated + " --set train.optimizer.name=muon");
  CHECK_MESSAGE(muon.code == 0, muon.err);
  const Finished emulated = files.run("b", gated + " --set train.precision=bf16_emulated");
  CHECK_MESSAGE(emulated.code == 0, emulated.err);
}
