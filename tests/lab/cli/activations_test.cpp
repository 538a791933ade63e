// Networks with activations and gated MLPs, from a descriptor to results and files of weights.
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
  "sweep": [
    {"model.mlp": ["gated"], "model.placement": ["bn_ffnbn_postact", "normformer_full"]},
    {"model.activation": ["relu_squared", {"formula": "x * sigmoid(1.702 * x) * (2 - progress)"}]}
  ]
})-";

struct Files : SweepFiles {
  explicit Files(const std::string& text = kSweep) : SweepFiles(text) {}
};

std::string only(const std::string& keys) { return " --set 'sweep={" + keys + "}'"; }
const std::string kGated = only(R"-("model.mlp": ["gated"])-");

}  // namespace

TEST_CASE("activations: a run has the same bits for any threads and ranks, and verify agrees") {
  check_equal_bits(Files(), 4);
}

TEST_CASE("activations: a killed run is continued with the same bits") {
  const Files files;
  check_killed_run(files.folder, files.descriptor, " --set train.epochs=2 --workers 1");
}

TEST_CASE("activations: explain and plan show and count them") {
  const Files files;
  const std::string gated = files.call("explain", kGated).out;
  CHECK_MESSAGE(gated.find("MLP(h) = fc2(silu(fc1(h)) * fc3(h))") != gated.npos, gated);
  const auto formula = only(R"-("model.mlp": ["gated"], "model.activation": [{"formula": "silu(x) * g"}])-");
  const std::string given = files.call("explain", formula).out;
  for (const char* part : {"f(x, g) = silu(x) * g", "formula      mlp.activation, width 64: silu(x) * g",
                           "dx: t1 = ", "dg: t1 = ", "forward 2 operations and 12 bytes"})
    CHECK_MESSAGE(given.find(part) != given.npos, given);
  const auto parameters = [&](const std::string& more) {
    const std::string text = files.call("plan", more).out;
    const std::size_t at = text.find(" parameters, ");
    REQUIRE_MESSAGE(at != text.npos, text);
    const std::size_t begin = text.find_last_of(" \n", at - 1) + 1;
    return std::stod(text.substr(begin, at - begin));
  };
  CHECK(parameters(kGated) == doctest::Approx(parameters(only("\"model.mlp\": [\"plain\"]")) + 2 * (16 + 1) * 64));
}

TEST_CASE("activations: a gated network without its batch norms has the same loss") {
  const Files files;
  const std::string placement = only(R"-("model.mlp": ["gated"], "model.placement": ["bn_ffnbn"])-");
  REQUIRE(files.run("r", placement + " --threads 1").code == 0);
  const ResultStore store(files.folder / "r");
  const std::string checkpoint = store.trial(store.trial_ids().front()).checkpoint(1).string();
  const std::string fused = in_folder(files.folder, "fused.safetensors");
  const Finished merged = run_program(files.folder, "convert " + checkpoint + " " + fused + " --fuse-bn");
  REQUIRE_MESSAGE(merged.code == 0, merged.err);
  const std::string said = merged.out + merged.err;
  CHECK_MESSAGE(said.find("mlp.fc1, mlp.fc3") != std::string::npos, said);
  CHECK(files.loss(fused) == doctest::Approx(files.loss(checkpoint)).epsilon(1e-4));
  const Finished refused =
      run_program(files.folder, "convert " + checkpoint + " " + in_folder(files.folder, "w.npz") + " --to big_vision");
  CHECK(refused.code != 0);
  CHECK_MESSAGE(refused.err.find("mlp.fc3 (mlp is gated): Big Vision has none") != std::string::npos, refused.err);
}

TEST_CASE("activations: values that become NaN are named by block and part of the formula") {
  const Files files;
  const Finished run = files.run("r", only(R"-("model.activation": [{"formula": "x * sqrt(x)"}])-"));
  CHECK_MESSAGE(run.out.find("1/1 diverged @") != std::string::npos, run.out << run.err);
  const ResultStore store(files.folder / "r");
  const std::string result = store.trial(store.trial_ids().front()).result_text().value();
  CHECK_MESSAGE(result.find("activation (NaN first in sqrt(x)) at blocks.0.mlp.activation") != std::string::npos,
                result);
}

TEST_CASE("activations: names of fc3 freeze it, and multiply its rates") {
  const Files files;
  const Finished run = files.run("r", kGated +
                                          " --set 'train.freeze=[\"blocks.0.mlp.fc3.*\"]' --set "
                                          "'train.optimizer.multipliers=[{\"name\": \"*.fc3.*\", \"lr\": 0.5}]'");
  CHECK_MESSAGE(run.code == 0, run.err);
  const Finished muon = files.run("m", kGated + " --set train.optimizer.name=muon");
  CHECK_MESSAGE(muon.code == 0, muon.err);
}
