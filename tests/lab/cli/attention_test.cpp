// Networks whose attention has gates, learned scales and exclusive heads, from a descriptor to results and weights.
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
    {"base": "pre_pre", "attn_gate": "head"},
    {"base": "bn", "attn_gate": "channel", "attn": {"exclude_self": true}},
    {"base": "pre_pre", "attn_scale": "learned", "attn": {"query": "l2", "key": "l2"},
     "blocks": {"1": {"attn": {"exclude_self": true}}}}
  ]}
})-";

struct Files : SweepFiles {
  explicit Files(const std::string& text = kSweep) : SweepFiles(text) {}
};

std::string only(const std::string& placement) {
  return R"-( --set 'sweep={"model.placement": [{"base": )-" + placement + "}]}'";
}
const std::string kAll = only(
    R"-("pre_pre", "attn_gate": "head", "attn_scale": "learned", "attn": {"query": "l2", "key": "l2", "exclude_self": true})-");

}  // namespace

TEST_CASE("attention: a run has the same bits for any threads and ranks, in bf16 too, and verify agrees") {
  for (const std::string precision : {"fp32", "bf16_emulated"}) {
    CAPTURE(precision);
    check_equal_bits(Files(), 3, "--set train.precision=" + precision);
  }
}

TEST_CASE("attention: a killed run is continued with the same bits") {
  const Files files;
  check_killed_run(files.folder, files.descriptor, " --set train.epochs=2 --workers 1");
}

TEST_CASE("attention: explain and plan show and count the parts") {
  const Files files;
  const std::string text = files.call("explain", kAll).out;
  for (const char* part : {"Attn(h) = proj(heads * sigmoid(gate(h)))", "heads = y - (y . v) v /",
                           "y = softmax(t L2(q) L2(k)^T) v", "gate: of each head"})
    CHECK_MESSAGE(text.find(part) != text.npos, text);
  const auto parameters = [&](const std::string& placement) {
    const std::string plan = files.call("plan", only(placement)).out;
    const std::size_t at = plan.find(" parameters, ");
    REQUIRE_MESSAGE(at != plan.npos, plan);
    const std::size_t begin = plan.find_last_of(" \n", at - 1) + 1;
    return std::stod(plan.substr(begin, at - begin));
  };
  const double plain = parameters("\"pre_pre\"");
  CHECK(parameters(R"-("pre_pre", "attn_gate": "head")-") == plain + 2 * 2 * (16 + 1));
  CHECK(parameters(R"-("pre_pre", "attn_gate": "channel")-") == plain + 2 * 16 * (16 + 1));
  CHECK(parameters(R"-("pre_pre", "attn_scale": "learned")-") == plain + 2 * 2);
  CHECK(parameters(R"-("pre_pre", "attn": {"exclude_self": true})-") == plain);
}

TEST_CASE("attention: a gated network without its batch norms has the same loss, and other programs refuse it") {
  const Files files;
  REQUIRE(
      files.run("r", only(R"-("bn_extra_attn", "attn_gate": "head", "attn": {"exclude_self": true})-") + " --threads 1")
          .code == 0);
  const ResultStore store(files.folder / "r");
  const std::string checkpoint = store.trial(store.trial_ids().front()).checkpoint(1).string();
  const std::string fused = in_folder(files.folder, "fused.safetensors");
  const Finished merged = run_program(files.folder, "convert " + checkpoint + " " + fused + " --fuse-bn");
  REQUIRE_MESSAGE(merged.code == 0, merged.err);
  const std::string said = merged.out + merged.err;
  CHECK_MESSAGE(said.find("attn.q, attn.k, attn.v, attn.gate") != std::string::npos, said);
  CHECK(files.loss(fused) == doctest::Approx(files.loss(checkpoint)).epsilon(1e-4));
  const Finished refused =
      run_program(files.folder, "convert " + fused + " " + in_folder(files.folder, "w.safetensors") + " --to timm");
  CHECK(refused.code != 0);
  CHECK_MESSAGE(refused.err.find("attn_gate: is of each head, but of each channel in timm") != std::string::npos,
                refused.err);
  CHECK_MESSAGE(refused.err.find("attn.exclude_self: is set") != std::string::npos, refused.err);
}

TEST_CASE("attention: names of the parts freeze them, and multiply their rates") {
  const Files files;
  for (const char* optimizer : {"adamw", "muon", "lamb"}) {
    CAPTURE(optimizer);
    const Finished run =
        files.run(optimizer, kAll + " --set train.optimizer.name=" + optimizer +
                                 " --set 'train.freeze=[\"blocks.0.attn.gate.*\", \"blocks.1.attn.logit_scale\"]'" +
                                 " --set 'train.optimizer.multipliers=[{\"name\": \"*.logit_scale\", \"lr\": 0.5}]'");
    CHECK_MESSAGE(run.code == 0, run.err);
  }
}
