// Networks with rotary positions and registers, from a descriptor to results and files of weights.
#include <doctest/doctest.h>

#include "experiments/lab/weights/convert_files.h"
#include "tests/lab/cli/killed_runs.h"

using namespace normlab;

namespace {

const char* const kSweep = R"-({
  "about": "a test",
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "drop_path": 0.2, "dropout": 0.1,
            "registers": 4},
  "train": {"epochs": 2, "batch_size": 20, "clip_norm": 0.5},
  "sweep": [
    {"model.pool": ["token", "gap"], "model.pos_embed": ["none"], "model.rotary": ["dinov3"],
     "model.placement": ["vit5"]},
    {"model.pool": ["token"], "model.pos_embed_class": [true], "model.distill_token": [true],
     "model.rotary": [{"dialect": "eva02", "grid": [14, 7], "register_base": 100}], "model.placement": ["bn_ffnbn"]}
  ]
})-";

struct Files : SweepFiles {
  explicit Files(const std::string& text = kSweep) : SweepFiles(text) {}
};

}  // namespace

TEST_CASE("rotary: a run has the same bits for any threads and ranks, and verify agrees") {
  check_equal_bits(Files(), 3);
}

TEST_CASE("rotary: a killed run is continued with the same bits") {
  const Files files;
  check_killed_run(files.folder, files.descriptor, " --set train.epochs=2 --workers 1");
}

TEST_CASE("rotary: weights go to timm and come back, and merged batch norms give the same loss") {
  const Files files;
  REQUIRE(files.run("r", "--threads 1").code == 0);
  const ResultStore store(files.folder / "r");
  int written = 0;
  for (const std::string& id : store.trial_ids()) {
    const std::string checkpoint = store.trial(id).checkpoint(1).string();
    const std::string theirs = in_folder(files.folder, "theirs.safetensors"),
                      back = in_folder(files.folder, "back.safetensors");
    const Finished to = run_program(files.folder, "convert " + checkpoint + " " + theirs + " --to timm");
    if (to.code != 0) {  // the second row
      CHECK_MESSAGE(to.err.find("rotary.register_base: is set, but timm does not turn registers") != std::string::npos,
                    to.err);
      const std::string fused = in_folder(files.folder, "fused.safetensors");
      const Finished merged = run_program(files.folder, "convert " + checkpoint + " " + fused + " --fuse-bn");
      REQUIRE_MESSAGE(merged.code == 0, merged.err);
      CHECK(files.loss(fused) == doctest::Approx(files.loss(checkpoint)).epsilon(1e-4));
      continue;
    }
    ++written;
    const Finished from = run_program(files.folder, "convert " + theirs + " " + back + " --from timm");
    REQUIRE_MESSAGE(from.code == 0, from.err);
    CHECK(files.loss(back) == files.loss(checkpoint));
  }
  CHECK(written == 2);
}

TEST_CASE("rotary: registers are frozen, decayed and multiplied by their name, and belong to the stem") {
  const Files files;
  for (
      const char* more :
      {"--set 'train.freeze=[\"reg_token\"]' --set 'train.optimizer.multipliers=[{\"name\": \"reg_token\", \"lr\": 2}]'",
       "--set 'train.freeze=[\"stem\"]'", "--set train.optimizer.name=muon", "--set train.optimizer.layer_decay=0.5"}) {
    CAPTURE(more);
    const Finished run = files.run("f", more);
    CHECK_MESSAGE(run.code == 0, run.err);
  }
}

TEST_CASE("rotary: a network starts from another at a larger size, and segments without its registers") {
  const Files files;
  std::ofstream(in_folder(files.folder, "fine.json")) << R"-({
    "dataset": {"name": "shapes", "train_images": 60, "eval_images": 20, "masks": "classes"},
    "model": {"task": "segment", "image_size": 48, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2,
              "registers": 4, "pool": "gap", "pos_embed": "none", "rotary": "dinov3", "placement": "vit5"},
    "start": {"from": {"descriptor": "d.json", "row": {"model.pool": "gap"}, "seed": 0}, "leave_out": ["head"]},
    "train": {"epochs": 1, "batch_size": 20}
  })-";
  const Finished run = run_program(
      files.folder, "run " + in_folder(files.folder, "fine.json") + " --out " + in_folder(files.folder, "o"));
  CHECK_MESSAGE(run.code == 0, run.out << run.err);
  CHECK_MESSAGE(run.out.find("eval/miou") != std::string::npos, run.out);
}
